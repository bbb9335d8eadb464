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
from nextclick.memory.base import Neighbours, Vectors, fill_normalised
from nextclick.memory.nearest_centres import Centres, nearest_centres, prepared
from nextclick.memory.search_kernels import place_of
from nextclick.selection import keep_smallest

WORDS = 256
"""Code words of each part: what a byte can tell apart."""

ROUNDING = 1e-6
"""Of distances computed from codes, relative to the query's squared length."""

_SPARE = 4
"""Entries held for each that is wanted, before the furthest are dropped."""

_DEEP, _WIDE = 8, 16
"""Distances of a group that are compared to find a limit, and groups that are so at once."""


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
        self._tables = matrix, prepared(centroids, squares), by_coordinate
        self._lists = Lists.of(index)
        # As a named tuple it takes numba longer to know the types than to search.
        self._places = self._lists.codes, self._lists.ids, self._lists.sizes

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
        self, queries: Vectors, k: int, how: tuple[int, int, bool], items: NDArray[np.int32]
    ) -> Neighbours:
        """Return the entries nearest to each query, of entries alike the newest.

        Parameters
        ----------
        queries
            Not turned.
        k
            How many entries to find.
        how
            In how many clusters to look; the number of the oldest entry; whether queries are to be
            normalised.
        items
            The items of all entries in the order of writing.
        """
        shape = len(queries), k
        found = (
            np.empty(shape, dtype=np.float32),
            np.empty(shape, dtype=np.int64),
            np.empty(shape, dtype=np.int64),
            np.empty(shape, dtype=np.int64),
        )
        _search(queries, self._tables, self._places, how, items, found)
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
    tables: tuple[Vectors, Centres, NDArray[np.float32]],
    lists: tuple[Ints, Ints, Ints],
    how: tuple[int, int, bool],
    items: NDArray[np.int32],
    found: tuple[Vectors, Ints, Ints, Ints],
) -> None:
    matrix, centres, words = tables
    probes, oldest, normalise = how
    k = found[0].shape[1]
    keys = queries
    if normalise:
        keys = np.empty_like(queries)
        fill_normalised(queries, keys)
    query = np.empty(matrix.shape[1], dtype=np.float32)
    near = np.empty(probes, dtype=np.int64)
    held = np.empty(_SPARE * k, dtype=np.uint64), np.empty(_SPARE * k, dtype=np.int64)
    for row in range(len(queries)):
        _turn(keys[row], matrix, query)
        zero = np.float32(ROUNDING) * _square(query)
        nearest_centres(query, centres, near)
        distances = _measured(query, near, centres[0], words, lists)
        n = _hold(distances, zero, near, lists, (oldest, len(items)), k, held)
        _read(held, n, items, found, row)


@numba.njit(cache=True, nogil=True)
def _measured(
    query: Vectors,
    near: Ints,
    centroids: Vectors,
    words: NDArray[np.float32],
    lists: tuple[Ints, Ints, Ints],
) -> Vectors:
    """Return the distances of all entries of some clusters."""
    all_codes, _, sizes = lists
    parts = len(words)
    entries = 0
    for cluster in near:
        entries += sizes[cluster]
    distances = np.empty(entries, dtype=np.float32)
    table = np.empty(parts * WORDS, dtype=np.float32)
    start = 0
    for cluster in near:
        size = sizes[cluster]
        if not size:
            continue
        codes = carray(_pointer(all_codes[cluster]), (size * parts,), np.uint8)
        _tabulate(query, centroids[cluster], words, table)
        _look_up(table, codes, parts, distances[start : start + size])
        start += size
    return distances


@numba.njit(cache=True, nogil=True)
def _hold(
    distances: Vectors,
    zero: np.float32,
    near: Ints,
    lists: tuple[Ints, Ints, Ints],
    order: tuple[int, int],
    k: int,
    held: tuple[NDArray[np.uint64], Ints],
) -> int:
    """Hold the nearest entries of some clusters, hardly more than `k`; return how many are held."""
    _, all_ids, sizes = lists
    oldest, entries = order
    # What counts as zero is no further than an entry at zero.
    chosen = _within(distances, max(zero, _enough(distances, k)))
    n = at = start = 0
    for cluster in near:
        size = sizes[cluster]
        if not size:
            continue
        ids = carray(_pointer(all_ids[cluster]), (size,), np.int64)
        while at < len(chosen) and chosen[at] < start + size:
            distance, id_ = distances[chosen[at]], ids[chosen[at] - start]
            if distance <= zero:
                distance = np.float32(0)
            age = entries - 1 - place_of(id_, oldest)
            held[0][n], held[1][n] = _rank(distance, age), id_
            at += 1
            n += 1
            if n == len(held[0]):
                keep_smallest(held[0], held[1], n, k)
                n = k
        start += size
    return n


@numba.njit(cache=True, nogil=True)
def _within(distances: Vectors, limit: np.float32) -> NDArray[np.int32]:
    """Return which distances are within a limit."""
    chosen = np.empty(len(distances) + 1, dtype=np.int32)
    n = 0
    for entry in range(len(distances)):  # without a branch, which processors would guess wrongly
        chosen[n] = entry
        n += distances[entry] <= limit
    return chosen[:n]


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
        keep_smallest(ranks, ids, n, k)
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
def _enough(distances: Vectors, k: int) -> np.float32:
    """Return a distance that at least `k` are within, hardly more of them than that.

    If so many groups have one within it, there are as many. Groups are 8 that lie 16 apart:
    compared 16 at once, as numbers, which are ordered as floats from 0 on are.
    """
    chunks = len(distances) // (_DEEP * _WIDE)
    if chunks * _WIDE < k:
        return np.float32(np.inf)
    numbers = distances.view(np.int32)
    least = np.full(chunks * _WIDE, 2**31 - 1, dtype=np.int32)
    for chunk in range(chunks):
        own = least[chunk * _WIDE : (chunk + 1) * _WIDE]
        for deep in range(_DEEP):
            start = (chunk * _DEEP + deep) * _WIDE
            some = numbers[start : start + _WIDE]
            for place in range(_WIDE):
                own[place] = min(own[place], some[place])
    keep_smallest(least, None, len(least), k)
    enough: np.float32 = least[k - 1 : k].view(np.float32)[0]
    return enough
