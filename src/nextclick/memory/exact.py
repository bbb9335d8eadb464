"""A memory that keeps its keys as they are, and looks at all of them.

FAISS's flat search is not used: an answer must not depend on how queries are batched, and an exact
repeat must be at distance zero, but FAISS changes its formula with the shape of its arguments, and
some of its formulas leave a rounding error larger than the distances of the nearest entries. Here a
matrix product finds candidates, generously; what is returned are the distances of these, computed
from the differences of the coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from nextclick.clicks import Floats, Ints
from nextclick.memory.base import (
    Memory,
    MemorySettings,
    Neighbours,
    State,
    Vectors,
    normalised,
)
from nextclick.memory.window import Window

SAME = 1e-10
"""Keys this near, as a squared distance relative to the query's squared length, are the same.

An encoder gives a context the same representation up to about 1e-6 of its length, whichever batch
it comes in; different contexts are further apart by orders of magnitude.
"""


class ExactMemory(Memory):
    """All keys in one array; of entries at the same distance, the newer come first.

    The matrix product runs in numpy's BLAS, whose threads the environment sets (OMP_NUM_THREADS).

    Examples
    --------
    >>> memory = ExactMemory(MemorySettings(kind="exact", size=2, normalise=False), dimension=1)
    >>> entries = np.array([[1], [5], [9]], dtype=np.float32)
    >>> memory.add(entries, np.array([10, 11, 12]), np.array([0, 0, 0]))
    >>> found = memory.search(np.array([[8]], dtype=np.float32), k=3)
    >>> found.items.tolist(), found.distances.tolist()
    ([[12, 11, -1]], [[1.0, 9.0, inf]])
    """

    def __init__(self, settings: MemorySettings, dimension: int, threads: int = 1) -> None:
        super().__init__(settings, dimension, threads)
        self._keys = Window.empty(np.float32, dimension)
        self._squares = Window.empty(np.float32)
        self._items = Window.empty(np.int32)
        self._sessions = Window.empty(np.int32)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def nbytes(self) -> int:
        """How many bytes the entries occupy."""
        windows = (self._keys, self._squares, self._items, self._sessions)
        return sum(window.values.nbytes for window in windows)

    def state(self) -> State:
        """Return the entries, oldest first."""
        return {
            "keys": self._keys.values,
            "items": self._items.values,
            "sessions": self._sessions.values,
        }

    def restore(self, state: State) -> None:
        """Take up what `state` returned."""
        self._keys = Window(state["keys"])
        self._squares = Window(_squares(state["keys"]))
        self._items = Window(state["items"])
        self._sessions = Window(state["sessions"])

    def _train(self, keys: Vectors) -> None:
        """Learn nothing: all keys are looked at."""

    def _add(self, keys: Vectors, items: Ints, sessions: Ints) -> None:
        size = self.settings.size
        excess = 0 if size is None else max(0, len(self) + len(keys) - size)
        rows: list[tuple[Window, NDArray[Any]]] = [
            (self._keys, keys),
            (self._squares, _squares(keys)),
            (self._items, items),
            (self._sessions, sessions),
        ]
        for window, new in rows:
            window.drop(excess)
            window.append(new)

    def _search(self, queries: Vectors, k: int) -> Neighbours:
        keys = self._keys.values
        if self.settings.normalise:
            queries = normalised(queries)
        rows, entries = candidates(queries, keys, self._squares.values, min(k, len(self)))
        distances: Vectors = _measured(queries, keys, rows, entries)
        order = np.lexsort((-entries, distances, rows))
        rows, entries, distances = rows[order], entries[order], distances[order]
        rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
        near = rank < k
        place, entries = (rows[near], rank[near]), entries[near]
        found = Neighbours.none(len(queries), k)
        found.distances[place] = distances[near]
        found.items[place] = self._items.values[entries]
        found.sessions[place] = self._sessions.values[entries]
        found.ages[place] = len(self) - 1 - entries
        return found


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Queries and entries that may be neighbours, and how near they seem."""

    rows: Ints
    entries: Ints
    nearness: Floats

    def __len__(self) -> int:
        return len(self.rows)

    def and_(self, more: _Pairs) -> _Pairs:
        """Return these pairs and more."""
        return _Pairs(
            np.concatenate([self.rows, more.rows]),
            np.concatenate([self.entries, more.entries]),
            np.concatenate([self.nearness, more.nearness]),
        )

    def best(self, k: int, margin: Floats) -> tuple[_Pairs, Floats]:
        """Return the pairs that may be among the `k` nearest, and each query's k-th nearness."""
        order = np.lexsort((self.nearness, self.rows))
        kth = np.flatnonzero(np.diff(self.rows[order], prepend=-1)) + k - 1
        bound = self.nearness[order[kth]]
        near = self.nearness <= (bound + margin)[self.rows]
        return _Pairs(self.rows[near], self.entries[near], self.nearness[near]), bound


def candidates(queries: Vectors, keys: Vectors, squares: Floats, k: int) -> tuple[Ints, Ints]:
    """Return pairs of query and entry, among them every query's `k` nearest and all ties with them.

    Goes by `|x|² - 2qx`, which orders entries as their distances do, up to rounding.

    Parameters
    ----------
    queries, keys
        A vector in each row.
    squares
        The squared lengths of the keys.
    k
        At most the number of keys.

    Examples
    --------
    >>> keys = np.array([[0], [1], [5]], dtype=np.float32)
    >>> rows, entries = candidates(keys[2:], keys, (keys**2)[:, 0], k=1)
    >>> rows.tolist(), entries.tolist()
    ([0], [2])
    """
    n = len(queries)
    lengths = np.sqrt(_squares(queries).astype(np.float64))
    chunk = max(k, 4096, 2**16 // n)
    pairs = _Pairs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    bound = np.full(n, np.inf)
    limit = 4 * k * n
    longest = 0.0
    for start in range(0, len(keys), chunk):
        part = slice(start, start + chunk)
        nearness = squares[part] - 2 * _products(queries, keys[part])
        longest = max(longest, float(np.sqrt(squares[part].max())))
        # A bound on the rounding of two float32 dot products, for each of the two compared.
        rounding = 4 * keys.shape[1] * float(np.finfo(np.float32).eps)
        margin = rounding * longest * (lengths + longest)
        if start == 0:
            bound = np.partition(nearness, min(k, nearness.shape[1]) - 1)[:, k - 1].astype(
                np.float64
            )
        rows, entries = np.nonzero(nearness <= (bound + margin)[:, None])
        near = nearness[rows, entries].astype(np.float64)
        pairs = pairs.and_(_Pairs(rows, entries + start, near))
        if len(pairs) > limit:
            pairs, bound = pairs.best(k, margin)
            limit = max(limit, 2 * len(pairs))
    return pairs.rows, pairs.entries


def _products(queries: Vectors, keys: Vectors) -> Vectors:
    """Return the dot product of every query and key."""
    # For one query BLAS takes twice as long as reading the keys does.
    one = len(queries) == 1
    products: Vectors = np.einsum("ij,kj->ki", keys, queries) if one else queries @ keys.T
    return products


def _squares(vectors: Vectors) -> Vectors:
    """Return the squared length of each row."""
    squares: Vectors = np.einsum("ij,ij->i", vectors, vectors)
    return squares


@numba.njit(cache=True, fastmath={"reassoc", "contract"})
def _measured(queries: Vectors, keys: Vectors, rows: Ints, entries: Ints) -> Vectors:
    """Return the squared distance of every pair; of pairs that are the same, zero."""
    distances = np.empty(len(rows), dtype=np.float32)
    for pair in range(len(rows)):
        query = queries[rows[pair]]
        key = keys[entries[pair]]
        length = np.float32(0)
        distance = np.float32(0)
        for dimension in range(len(query)):
            difference = query[dimension] - key[dimension]
            distance += difference * difference
            length += query[dimension] * query[dimension]
        distances[pair] = distance if distance > SAME * length else 0.0
    return distances
