"""A search of product codes in one compiled pass, from the query to the items found.

FAISS trains the index, writes the codes and keeps them. For one query, though, most of the time of
a search of its own went to what is around the few thousand codes looked at: calls, copies, looking
for the newest of equals afterwards. Here the lists that FAISS keeps are read where they lie.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import faiss
import numba
import numpy as np
from numba import carray  # type: ignore[attr-defined] # made known to numba, not to mypy
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from nextclick.clicks import Ints
from nextclick.memory.base import Neighbours, Vectors
from nextclick.memory.search_kernels import place_of

WORDS = 256
"""Code words of each part: what a byte can tell apart."""

ROUNDING = 1e-6
"""Of distances computed from codes, relative to the query's squared length."""

_SPARE = 4
"""Entries held for each that is wanted, before the furthest are dropped."""


class Lists(NamedTuple):
    """Where FAISS keeps the lists of an inverted file: an address, and a length, for each.

    Parameters
    ----------
    codes, ids
        The addresses; 0 for a list of nothing.
    sizes
        How many entries each list has.
    """

    codes: Ints
    ids: Ints
    sizes: Ints

    @classmethod
    def of(cls, index: Any) -> Lists:
        """Look up all lists of an index."""
        lists = cls(*(np.zeros(index.nlist, dtype=np.int64) for _ in range(3)))
        lists.look_up(index, np.arange(index.nlist))
        return lists

    def look_up(self, index: Any, changed: Ints) -> None:
        """Look up lists again that were written to."""
        inverted = index.invlists
        for number in changed.tolist():
            size = inverted.list_size(number)
            self.sizes[number] = size
            self.codes[number] = int(inverted.get_codes(number)) if size else 0
            self.ids[number] = int(inverted.get_ids(number)) if size else 0


class ProductSearch:
    """Searches an index of FAISS whose codes are bytes, one for each part of what is coded.

    Parameters
    ----------
    index
        A trained `faiss.IndexIVFPQ`.
    matrix, centroids, squares
        What queries are turned by; the clusters' centres, and their squared lengths.
    """

    def __init__(self, index: Any, matrix: Vectors, centroids: Vectors, squares: Vectors) -> None:
        self._index = index
        words = faiss.vector_to_array(index.pq.centroids).reshape(index.pq.M, WORDS, index.pq.dsub)
        # All words' first coordinates together, then the second: 16 words are one instruction.
        by_coordinate = np.ascontiguousarray(words.transpose(0, 2, 1))
        self._tables = matrix, centroids, squares, by_coordinate
        self._lists = Lists.of(index)

    @classmethod
    def fits(cls, index: Any) -> bool:
        """Return whether this knows how to read the codes of an index."""
        return isinstance(index, faiss.IndexIVFPQ) and index.pq.nbits == 8 and index.by_residual

    def add(self, keys: Vectors, ids: Ints) -> None:
        """Write entries, their keys turned already."""
        index = self._index
        clusters = index.quantizer.search(keys, 1)[1][:, 0].copy()
        pointers = (faiss.swig_ptr(array) for array in (keys, ids, clusters))
        index.add_core(len(keys), *pointers)
        self._lists.look_up(index, np.unique(clusters))

    def forget(self) -> None:
        """Take notice that entries were removed."""
        self._lists.look_up(self._index, np.arange(self._index.nlist))

    def search(
        self, queries: Vectors, k: int, probes: int, items: NDArray[np.int32], oldest: int
    ) -> Neighbours:
        """Return the entries nearest to each query, of entries alike the newest.

        Parameters
        ----------
        queries
            As `Memory` prepares them: not turned.
        k, probes
            How many entries to find, and in how many clusters to look.
        items, oldest
            The items of all entries in the order of writing, and the number of the first.
        """
        shape = len(queries), k
        found = (
            np.empty(shape, dtype=np.float32),
            np.empty(shape, dtype=np.int64),
            np.empty(shape, dtype=np.int64),
            np.empty(shape, dtype=np.int64),
        )
        _search(queries, self._tables, self._lists, (probes, oldest), items, found)
        return Neighbours(*found)


def _as_pointer(context: Any, address: Any) -> Any:  # noqa: ARG001 - numba's
    """Return how an address is made a pointer: the types, and what generates the instruction."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001 - numba calls it
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


_pointer: Any = intrinsic(_as_pointer)

_SUM = {"reassoc", "contract", "nsz"}
"""Sums may be added up several terms at a time: of one length, always in the same way."""


@numba.njit(cache=True, nogil=True)
def _search(
    queries: Vectors,
    tables: tuple[Vectors, Vectors, Vectors, NDArray[np.float32]],
    lists: tuple[Ints, Ints, Ints],
    how: tuple[int, int],
    items: NDArray[np.int32],
    found: tuple[Vectors, Ints, Ints, Ints],
) -> None:
    matrix, centroids, squares, words = tables
    all_codes, all_ids, sizes = lists
    probes, oldest = how
    k, parts = found[0].shape[1], len(words)
    query = np.empty(matrix.shape[1], dtype=np.float32)
    gaps = np.empty(len(centroids), dtype=np.float32)
    near = np.empty(probes, dtype=np.int64)
    table = np.empty(parts * WORDS, dtype=np.float32)
    held = np.empty(_SPARE * k, dtype=np.uint64), np.empty(_SPARE * k, dtype=np.int64)
    distances = np.empty(sizes.max(), dtype=np.float32)
    for row in range(len(queries)):
        _turn(queries[row], matrix, query)
        zero = np.float32(ROUNDING) * _square(query)
        _gaps(query, centroids, squares, gaps)
        _nearest(gaps, near)
        n = 0
        limit = np.float32(np.inf)
        for cluster in near:
            size = sizes[cluster]
            if not size:
                continue
            codes = carray(_pointer(all_codes[cluster]), (size * parts,), np.uint8)
            ids = carray(_pointer(all_ids[cluster]), (size,), np.int64)
            _tabulate(query, centroids[cluster], words, table)
            _look_up(table, codes, parts, distances[:size])
            for entry in range(size):
                distance = distances[entry]
                if distance > limit:
                    continue
                if distance <= zero:
                    distance = np.float32(0)
                age = len(items) - 1 - place_of(ids[entry], oldest)
                held[0][n] = _rank(distance, age)
                held[1][n] = ids[entry]
                n += 1
                if n == len(held[0]):
                    _keep_smallest(held, n, k)
                    n = k
                    # What counts as zero is no further than an entry at zero.
                    limit = max(zero, _distance(held[0][k - 1]))
        _read(held, n, items, found, row)


@numba.njit(cache=True, nogil=True)
def _read(
    held: tuple[NDArray[np.uint64], Ints],
    n: int,
    items: NDArray[np.int32],
    found: tuple[Vectors, Ints, Ints, Ints],
    row: int,
) -> None:
    """Fill in a row with the nearest that are held, nearest first."""
    ranks, ids = held
    distances, found_items, found_sessions, found_ages = found
    k = distances.shape[1]
    if n > k:
        _keep_smallest(held, n, k)
        n = k
    order = np.argsort(ranks[:n])
    for place in range(n):
        rank, id_ = ranks[order[place]], ids[order[place]]
        age = np.int64(rank & np.uint64(0xFFFFFFFF))
        distances[row, place] = _distance(rank)
        found_items[row, place] = items[len(items) - 1 - age]
        found_sessions[row, place] = np.int32(id_ & 0xFFFFFFFF)
        found_ages[row, place] = age
    distances[row, n:] = np.inf
    found_items[row, n:] = -1
    found_sessions[row, n:] = -1
    found_ages[row, n:] = -1


@numba.njit(cache=True, nogil=True)
def _rank(distance: np.float32, age: int) -> np.uint64:
    """Return a number that is smaller the nearer an entry is, and of entries as near the newer."""
    bits = np.uint64(np.float32(distance).view(np.uint32))  # floats from 0 on are ordered as these
    rank: np.uint64 = (bits << np.uint64(32)) | np.uint64(age)
    return rank


@numba.njit(cache=True, nogil=True)
def _distance(rank: np.uint64) -> np.float32:
    distance: np.float32 = np.uint32(rank >> np.uint64(32)).view(np.float32)
    return distance


@numba.njit(cache=True, nogil=True)
def _turn(query: Vectors, matrix: Vectors, turned: Vectors) -> None:
    turned[:] = 0
    for row in range(len(query)):
        for column in range(len(turned)):
            turned[column] += query[row] * matrix[row, column]


@numba.njit(cache=True, nogil=True, fastmath=_SUM)
def _square(vector: Vectors) -> np.float32:
    square = np.float32(0)
    for value in vector:
        square += value * value
    return square


@numba.njit(cache=True, nogil=True, fastmath=_SUM)
def _gaps(query: Vectors, centroids: Vectors, squares: Vectors, gaps: Vectors) -> None:
    """Fill in how far each centre is, less what is the same for all."""
    for centroid in range(len(centroids)):
        product = np.float32(0)
        for dimension in range(len(query)):
            product += query[dimension] * centroids[centroid, dimension]
        gaps[centroid] = squares[centroid] - np.float32(2) * product


@numba.njit(cache=True, nogil=True)
def _nearest(gaps: Vectors, near: Ints) -> None:
    """Fill in where the smallest gaps are, ascending."""
    known = 0
    for place in range(len(gaps)):
        if known == len(near) and gaps[place] >= gaps[near[known - 1]]:
            continue
        known = min(known + 1, len(near))
        at = known - 1
        while at > 0 and gaps[place] < gaps[near[at - 1]]:
            near[at] = near[at - 1]
            at -= 1
        near[at] = place


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _tabulate(
    query: Vectors, centroid: Vectors, words: NDArray[np.float32], table: Vectors
) -> None:
    """Fill in each code word's squared distance to its part of what the centre leaves over."""
    parts, width = words.shape[0], words.shape[1]
    for part in range(parts):
        distances, start = table[part * WORDS : (part + 1) * WORDS], part * width
        distances[:] = 0
        if width % 2:
            left, coordinates = query[start] - centroid[start], words[part, 0]
            for word in range(WORDS):
                gap = left - coordinates[word]
                distances[word] = gap * gap
        for dimension in range(width % 2, width, 2):  # two at a time: half the loads and stores
            at = start + dimension
            one, other = query[at] - centroid[at], query[at + 1] - centroid[at + 1]
            ones, others = words[part, dimension], words[part, dimension + 1]
            for word in range(WORDS):
                gap, other_gap = one - ones[word], other - others[word]
                distances[word] += gap * gap + other_gap * other_gap


@numba.njit(cache=True, nogil=True)
def _look_up(table: Vectors, codes: NDArray[np.uint8], parts: int, distances: Vectors) -> None:
    """Fill in the distances that codes stand for.

    Each is added up in one order, whatever is beside it: entries alike are at the same distance.
    """
    words, four = np.uint64(WORDS), np.uint64(4)  # unsigned: no index is counted from the end
    whole = np.uint64(parts - parts % 4)
    for entry in range(len(distances)):
        start = np.uint64(entry * parts)
        first, second = np.float32(0), np.float32(0)
        third, fourth = np.float32(0), np.float32(0)
        for part in range(np.uint64(0), whole, four):
            at, code = part * words, start + part
            first += table[at + codes[code]]
            second += table[at + words + codes[code + np.uint64(1)]]
            third += table[at + np.uint64(2) * words + codes[code + np.uint64(2)]]
            fourth += table[at + np.uint64(3) * words + codes[code + np.uint64(3)]]
        for part in range(whole, np.uint64(parts)):
            first += table[part * words + codes[start + part]]
        distances[entry] = (first + second) + (third + fourth)


@numba.njit(cache=True, nogil=True)
def _keep_smallest(held: tuple[NDArray[np.uint64], Ints], n: int, k: int) -> None:
    """Bring the `k` smallest of the first `n` ranks to the front, the largest of them last."""
    ranks, ids = held
    low, high = 0, n - 1
    while low < high:
        pivot = ranks[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while ranks[left] < pivot:
                left += 1
            while ranks[right] > pivot:
                right -= 1
            if left <= right:
                ranks[left], ranks[right] = ranks[right], ranks[left]
                ids[left], ids[right] = ids[right], ids[left]
                left += 1
                right -= 1
        if k - 1 <= right:
            high = right
        elif k - 1 >= left:
            low = left
        else:
            break
