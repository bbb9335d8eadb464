"""An inverted file of FAISS as a store of entries."""

from __future__ import annotations

from typing import Any, TypeAlias

import faiss
import numpy as np

from nextclick.clicks import Ints
from nextclick.memory.base import MemorySettings, Neighbours, State, Vectors, normalised
from nextclick.memory.codes import parts_of, rotation, spread, turned
from nextclick.memory.product_search import ROUNDING, ProductSearch
from nextclick.memory.search_kernels import SEQUENCES, put_newest, read, smallest
from nextclick.memory.window import Window

Index: TypeAlias = Any
"""A `faiss.IndexIVF`, whose type stubs know the C++ methods only, not those that Python has."""

_KEYS_PER_CLUSTER = 39
"""FAISS's own bound, below which it doubts the clusters."""

_SAMPLE = 64
"""Keys for each cluster, and for each code word, that k-means looks at."""

_ROUNDS = 10
"""Rounds of k-means."""

_LOOK_AT = 8
"""At least so many entries are looked at for each neighbour that is asked for, as far as can be
foreseen; else a memory with few entries would seldom find as many as it has."""


class InvertedFile:
    """A trained inverted file of FAISS, and the items of its entries.

    FAISS keeps 8 bytes beside each code, its id. The upper half is the entry's place in the order
    of writing, which finds its item and tells who is the oldest; the lower half is the session.

    Parameters
    ----------
    settings
        Of the memory.
    index
        The trained index of FAISS.
    matrix
        What keys and queries are multiplied with before FAISS sees them.
    """

    INDEX = "clusters/index"

    def __init__(self, settings: MemorySettings, index: Index, matrix: Vectors) -> None:
        self.settings = settings
        self._index = index
        self._matrix = matrix
        flat: Any = faiss.downcast_index(index.quantizer)
        centroids = faiss.rev_swig_ptr(flat.get_xb(), index.nlist * index.d)
        self._centroids: Vectors = centroids.reshape(index.nlist, index.d)
        self._centroid_squares = np.einsum("ij,ij->i", self._centroids, self._centroids)
        self._products: ProductSearch | None = None
        if ProductSearch.fits(index):
            self._products = ProductSearch(index, matrix, self._centroids, self._centroid_squares)
        self._items = Window.empty(np.int32)
        self._oldest = 0
        self._probes = 1

    @classmethod
    def trained(cls, settings: MemorySettings, keys: Vectors) -> InvertedFile:
        """Return an empty one, its clusters and codes fitted to these keys."""
        parts = parts_of(settings.codes)
        if settings.rotate and parts > 1:
            matrix = rotation(keys, parts)
        else:
            matrix = spread(keys.shape[1], parts)
        index = _new_index(settings, len(keys), matrix.shape[1])
        index.train(turned(keys, matrix))
        return cls(settings, index, matrix)

    @classmethod
    def restored(cls, settings: MemorySettings, state: State) -> InvertedFile:
        """Return what `state` returned."""
        index = faiss.deserialize_index(state[cls.INDEX], faiss.IO_FLAG_SKIP_PRECOMPUTE_TABLE)
        if isinstance(index, faiss.IndexIVFPQ):
            _spare_table(index)
        restored = cls(settings, index, state["matrix"])
        restored._items = Window(state["items"])
        restored._oldest = int(state["oldest"])
        restored._set_probes()
        return restored

    def state(self) -> State:
        """Return everything there is."""
        return {
            self.INDEX: faiss.serialize_index(self._index),
            "matrix": self._matrix,
            "items": self._items.values,
            "oldest": np.array(self._oldest),
        }

    def __len__(self) -> int:
        return len(self._items)

    @property
    def nbytes(self) -> int:
        """How many bytes the entries occupy, and the tables to find and to read them with."""
        entries = len(self) * (self._index.code_size + 8 + self._items.values.itemsize)
        return int(entries + self._centroids.nbytes + self._code_words + self._matrix.nbytes)

    @property
    def _code_words(self) -> int:
        """How many bytes the code words of all parts occupy: together they are as wide as a key."""
        is_product = isinstance(self._index, faiss.IndexIVFPQ)
        return 4 * self._index.d * self._index.pq.ksub if is_product else 0

    def add(self, keys: Vectors, items: Ints, sessions: Ints) -> None:
        """Write at least one and at most `size` entries."""
        size = self.settings.size
        if size is not None:
            self._forget(max(0, len(self) + len(keys) - size))
        sequences = (self._oldest + len(self) + np.arange(len(keys))) % SEQUENCES
        ids = (sequences << 32) | (sessions.astype(np.int64) & 0xFFFFFFFF)
        keys = turned(keys, self._matrix)
        if self._products is None:
            self._index.add_with_ids(keys, ids)
        else:
            self._products.add(keys, ids)
        self._items.append(items)
        self._set_probes()

    def search(
        self, queries: Vectors, k: int, *, threads: int = 1, normalise: bool = False
    ) -> Neighbours:
        """Return the entries nearest to each query, as far as the codes tell.

        FAISS may use so many threads. The queries may be normalised first.
        """
        if self._products is not None:
            how = self._probes, self._oldest, normalise
            return self._products.search(queries, k, how, self._items.values)
        if normalise:
            queries = normalised(queries)
        faiss.omp_set_num_threads(threads)
        queries = turned(queries, self._matrix)
        squares = np.einsum("ij,ij->i", queries, queries)[:, None]
        near, gaps = self._nearest_clusters(queries, squares)
        distances, ids = self._index.search_preassigned(queries, k, near, gaps)
        distances[distances <= ROUNDING * squares] = 0
        if k > 1:
            for row in np.flatnonzero((ids[:, -1] >= 0) & (distances[:, -2] == distances[:, -1])):
                self._prefer_new(ids[row], distances[row], near[row])
        columns = np.empty_like(ids), np.empty_like(ids), np.empty_like(ids)
        read(ids, self._oldest, self._items.values, distances, columns)
        return Neighbours(distances, *columns)

    def _nearest_clusters(self, queries: Vectors, squares: Vectors) -> tuple[Ints, Vectors]:
        """Return the clusters to look into, nearest first, and their squared distances.

        FAISS could do this, but would measure a batch by another formula than one query, and so
        give one query two answers.
        """
        gaps = self._centroid_squares - 2 * turned(queries, self._centroids.T)
        near = np.empty((len(queries), self._probes), dtype=np.int64)
        distances = np.empty(near.shape, dtype=np.float32)
        smallest(gaps, near, distances)
        return near, np.maximum(0, distances + squares)

    def _prefer_new(self, ids: Ints, distances: Vectors, clusters: Ints) -> None:
        """Of the entries with the code of the furthest one found, put the newest into its place.

        FAISS keeps those that it came upon first, which are the oldest. A context that everybody
        begins with has thousands of entries, all alike.
        """
        lists, size = self._index.invlists, self._index.code_size
        for cluster in clusters.tolist():
            n = lists.list_size(cluster)
            if not n:
                continue  # FAISS's view of nothing is one of floats
            # Views of FAISS's own storage.
            entries = faiss.rev_swig_ptr(lists.get_ids(cluster), n)
            codes = faiss.rev_swig_ptr(lists.get_codes(cluster), n * size).reshape(n, size)
            if put_newest(entries, codes, self._oldest, distances, ids):
                return

    def _set_probes(self) -> None:
        """Look into more clusters while they hold few entries."""
        clusters = self._index.nlist
        enough = -(-_LOOK_AT * self.settings.neighbours * clusters // max(1, len(self)))
        self._probes = int(min(clusters, max(self.settings.probes, enough)))
        self._index.nprobe = self._probes

    def _forget(self, count: int) -> None:
        """Drop the oldest entries."""
        first, last = self._oldest, self._oldest + count
        # The order starts again at zero, so that the oldest may lie at both of its ends.
        for start, stop in ((first, min(last, SEQUENCES)), (0, last - SEQUENCES)):
            if stop > start:
                self._index.remove_ids(faiss.IDSelectorRange(start << 32, stop << 32))
        if self._products is not None:
            self._products.forget()
        self._items.drop(count)
        self._oldest = last % SEQUENCES


def _new_index(settings: MemorySettings, keys: int, width: int) -> Index:
    """Return an index to train on so many keys."""
    clusters = min(settings.clusters, keys // _KEYS_PER_CLUSTER)
    index: Index = faiss.index_factory(width, f"IVF{clusters},{settings.codes}")
    index.cp.max_points_per_centroid = _SAMPLE
    index.cp.niter = _ROUNDS
    if isinstance(index, faiss.IndexIVFPQ):
        index.pq.cp.max_points_per_centroid = _SAMPLE
        index.pq.cp.niter = _ROUNDS
        _spare_table(index)
        # Sorting code words for a search by Hamming distance takes most of the training otherwise.
        product: Index = index
        product.do_polysemous_training = False
    return index


def _spare_table(index: Index) -> None:
    """Leave out the table of every cluster's distances to every code word.

    It takes as much memory as the codes of a million entries, and saves a hundredth of a
    millisecond.
    """
    index.use_precomputed_table = -1
