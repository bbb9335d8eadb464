"""A memory of codes in clusters: a few bytes for every key, and a look only near the query."""

from __future__ import annotations

from typing import Any, TypeAlias

import faiss
import numpy as np
from numpy.typing import NDArray

from nextclick.clicks import Ints
from nextclick.errors import BadInputError
from nextclick.memory.base import Memory, MemorySettings, Neighbours, State, Vectors
from nextclick.memory.exact import ExactMemory
from nextclick.memory.window import Window

InvertedFile: TypeAlias = Any
"""A `faiss.IndexIVF`, whose type stubs know the C++ methods only, not those that Python has."""

_ENOUGH = 10_000
"""With fewer keys than this all are kept and looked at: FAISS wants 39 for each of a byte's code
words, and that few are found as fast without clusters."""

_KEYS_PER_CLUSTER = 39
"""FAISS's own bound, below which it doubts the clusters."""

_SAMPLE = 64
"""Keys for each cluster, and for each code word, that k-means looks at."""

_ROUNDS = 10
"""Rounds of k-means."""

_ROUNDING = 1e-6
"""Of the distances that FAISS computes from codes, relative to the query's squared length."""

_LOOK_AT = 8
"""At least so many entries are looked at for each neighbour that is asked for, as far as can be
foreseen; else a memory with few entries would seldom find as many as it has."""

_SEQUENCES = 2**30
"""The order of writing is counted up to here, and then from zero again."""


class ClusteredMemory(Memory):
    """Codes in an inverted file; an exact memory until there are enough keys to train that on.

    Distances are between the query and what the code of an entry stands for.

    Examples
    --------
    >>> keys = np.random.default_rng(0).normal(size=(10_000, 8)).astype(np.float32)
    >>> memory = ClusteredMemory(MemorySettings(clusters=16, codes="PQ4"), dimension=8)
    >>> memory.train(keys)
    >>> memory.add(keys[:100], np.arange(100), np.zeros(100, dtype=np.int64))
    >>> memory.search(keys[42:43], k=1).items.tolist()
    [[42]]
    """

    def __init__(self, settings: MemorySettings, dimension: int, threads: int = 1) -> None:
        super().__init__(settings, dimension, threads)
        self._width = code_width(settings.codes, dimension)
        self._entries: ExactMemory | Clusters = self._exact()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """How many bytes the entries occupy, and what it takes to read their codes."""
        return self._entries.nbytes

    def state(self) -> State:
        """Return the inverted file and the items, or the keys while there are few."""
        return self._entries.state()

    def restore(self, state: State) -> None:
        """Take up what `state` returned."""
        if Clusters.INDEX in state:
            self._entries = Clusters.restored(self.settings, state)
        else:
            self._entries = self._exact()
            self._entries.restore(state)

    def _train(self, keys: Vectors) -> None:
        if isinstance(self._entries, Clusters) or len(keys) < _ENOUGH:
            return
        faiss.omp_set_num_threads(self.threads)
        clusters = Clusters.trained(self.settings, self._padded(keys))
        kept = self._entries.state()
        if len(self._entries):
            clusters.add(self._padded(kept["keys"]), kept["items"], kept["sessions"])
        self._entries = clusters

    def _add(self, keys: Vectors, items: Ints, sessions: Ints) -> None:
        faiss.omp_set_num_threads(self.threads)
        self._entries.add(self._padded(keys), items, sessions)
        if isinstance(self._entries, ExactMemory) and len(self._entries) >= _ENOUGH:
            self._train(self._entries.state()["keys"])

    def _search(self, queries: Vectors, k: int) -> Neighbours:
        faiss.omp_set_num_threads(self.threads)
        return self._entries.search(self._padded(queries), k)

    def _exact(self) -> ExactMemory:
        """Return a memory for keys that are normalised, where they are to be, already."""
        settings = self.settings.model_copy(update={"normalise": False})
        return ExactMemory(settings, self._width, self.threads)

    def _padded(self, vectors: Vectors) -> Vectors:
        """Return vectors with zeros behind, where the codes need more dimensions."""
        extra = self._width - vectors.shape[1]
        return np.pad(vectors, ((0, 0), (0, extra))) if extra else vectors


class Clusters:
    """A trained inverted file of FAISS, and the items of its entries.

    FAISS keeps 8 bytes beside each code, its id. The upper half is the entry's place in the order
    of writing, which finds its item and tells who is the oldest; the lower half is the session.
    """

    INDEX = "clusters/index"

    def __init__(self, settings: MemorySettings, index: InvertedFile, overhead: int) -> None:
        self.settings = settings
        self._index = index
        self._overhead = overhead
        self._centroids: Vectors = index.quantizer.reconstruct_n(0, index.nlist)
        self._centroid_squares = np.einsum("ij,ij->i", self._centroids, self._centroids)
        self._items = Window.empty(np.int32)
        self._oldest = 0

    @classmethod
    def trained(cls, settings: MemorySettings, keys: Vectors) -> Clusters:
        """Return an empty one, its clusters and codes fitted to these keys."""
        index = _new_index(settings, len(keys), keys.shape[1])
        index.train(keys)
        return cls(settings, index, len(faiss.serialize_index(index)))

    @classmethod
    def restored(cls, settings: MemorySettings, state: State) -> Clusters:
        """Return what `state` returned."""
        index = faiss.deserialize_index(state[cls.INDEX])
        clusters = cls(settings, index, int(state["overhead"]))
        clusters._items = Window(state["items"])
        clusters._oldest = int(state["oldest"])
        clusters._set_probes()
        return clusters

    def state(self) -> State:
        """Return everything there is."""
        return {
            self.INDEX: faiss.serialize_index(self._index),
            "items": self._items.values,
            "oldest": np.array(self._oldest),
            "overhead": np.array(self._overhead),
        }

    def __len__(self) -> int:
        return len(self._items)

    @property
    def nbytes(self) -> int:
        """How many bytes the entries occupy, and what it takes to read their codes."""
        entries = len(self) * (self._index.code_size + 8 + 4)
        return int(entries + self._overhead)

    def add(self, keys: Vectors, items: Ints, sessions: Ints) -> None:
        """Write at least one and at most `size` entries."""
        size = self.settings.size
        if size is not None:
            self._forget(max(0, len(self) + len(keys) - size))
        sequences = (self._oldest + len(self) + np.arange(len(keys))) % _SEQUENCES
        ids = (sequences << 32) | (sessions.astype(np.int64) & 0xFFFFFFFF)
        self._index.add_with_ids(keys, ids)
        self._items.append(items)
        self._set_probes()

    def search(self, queries: Vectors, k: int) -> Neighbours:
        """Return the entries nearest to each query, as far as the codes tell."""
        near, gaps = self._nearest_clusters(queries)
        distances, ids = self._index.search_preassigned(queries, k, near, gaps)
        zero = _ROUNDING * np.einsum("ij,ij->i", queries, queries)[:, None]
        distances[distances <= zero] = 0
        distances[ids < 0] = np.inf
        if k > 1:
            for row in np.flatnonzero((ids[:, -1] >= 0) & (distances[:, -2] == distances[:, -1])):
                self._prefer_new(ids[row], distances[row], near[row])
        ages = self._places(ids)
        order = np.lexsort((-ages, distances))
        ids = np.take_along_axis(ids, order, 1)
        found = Neighbours.none(len(queries), k)
        there = ids >= 0
        found.distances[:] = distances
        found.items[there] = self._items.values[self._places(ids[there])]
        found.sessions[there] = ids[there].astype(np.int32)
        return found

    def _nearest_clusters(self, queries: Vectors) -> tuple[Ints, Vectors]:
        """Return the clusters to look into, nearest first, and their squared distances.

        FAISS could do this, but would measure a batch by another formula than one query, and so
        give one query two answers.
        """
        probes = self._index.nprobe
        products = np.matmul(queries[:, None, :], self._centroids.T)[:, 0]
        gaps = self._centroid_squares - 2 * products
        near = np.argpartition(gaps, probes - 1, axis=1)[:, :probes]
        order = np.argsort(np.take_along_axis(gaps, near, 1), axis=1, kind="stable")
        near = np.take_along_axis(near, order, 1)
        squares = np.einsum("ij,ij->i", queries, queries)[:, None]
        return near, np.maximum(0, np.take_along_axis(gaps, near, 1) + squares)

    def _prefer_new(self, ids: Ints, distances: Vectors, clusters: Ints) -> None:
        """Of the entries with the code of the furthest one found, put the newest into its place.

        FAISS keeps those that it came upon first, which are the oldest. A context that everybody
        begins with has thousands of entries, all alike.
        """
        tied = np.flatnonzero(distances == distances[-1])
        for cluster in clusters.tolist():
            entries, codes = self._listed(cluster)
            last = np.flatnonzero(entries == ids[-1])
            if len(last):
                alike = entries[(codes == codes[last[0]]).all(axis=1)]
                newest = alike[np.argsort(-self._places(alike))]
                replaced = tied[np.isin(ids[tied], alike)]
                ids[replaced] = newest[: len(replaced)]
                return

    def _listed(self, cluster: int) -> tuple[Ints, NDArray[np.uint8]]:
        """Return the ids and codes of a cluster's entries: views of FAISS's own storage."""
        lists, size = self._index.invlists, self._index.code_size
        n = lists.list_size(cluster)
        ids = faiss.rev_swig_ptr(lists.get_ids(cluster), n)
        return ids, faiss.rev_swig_ptr(lists.get_codes(cluster), n * size).reshape(n, size)

    def _places(self, ids: Ints) -> Ints:
        """Return how many entries are older, for each id."""
        places: Ints = ((ids >> 32) - self._oldest) % _SEQUENCES
        return places

    def _set_probes(self) -> None:
        """Look into more clusters while they hold few entries."""
        clusters = self._index.nlist
        enough = -(-_LOOK_AT * self.settings.neighbours * clusters // max(1, len(self)))
        self._index.nprobe = int(min(clusters, max(self.settings.probes, enough)))

    def _forget(self, count: int) -> None:
        """Drop the oldest entries."""
        first, last = self._oldest, self._oldest + count
        # The order starts again at zero, so that the oldest may lie at both of its ends.
        for start, stop in ((first, min(last, _SEQUENCES)), (0, last - _SEQUENCES)):
            if stop > start:
                self._index.remove_ids(faiss.IDSelectorRange(start << 32, stop << 32))
        self._items.drop(count)
        self._oldest = last % _SEQUENCES


def code_width(codes: str, dimension: int) -> int:
    """Return the least number of dimensions, from `dimension` on, that such codes are made for.

    Examples
    --------
    >>> code_width("PQ8", 100)
    104
    """
    for width in range(dimension, dimension + 257):
        try:
            index = faiss.index_factory(width, f"IVF1,{codes}")
        except RuntimeError:
            continue
        if isinstance(index, faiss.IndexIVF):
            return width
    raise BadInputError(
        f"memory codes {codes!r} are none that FAISS keeps in an inverted file; PQ8, PQ16, SQ8 and "
        "Flat are"
    )


def _new_index(settings: MemorySettings, keys: int, width: int) -> InvertedFile:
    """Return an index to train on so many keys."""
    clusters = min(settings.clusters, keys // _KEYS_PER_CLUSTER)
    factory = f"IVF{clusters},{settings.codes}"
    index: InvertedFile = faiss.index_factory(width, factory)
    index.cp.max_points_per_centroid = _SAMPLE
    index.cp.niter = _ROUNDS
    if isinstance(index, faiss.IndexIVFPQ):
        # Orders the code words for a search by Hamming distance, which takes most of the training.
        index.do_polysemous_training = False
        index.pq.cp.max_points_per_centroid = _SAMPLE
        index.pq.cp.niter = _ROUNDS
    return index
