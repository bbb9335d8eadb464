"""Many lists of integers in one array, to be read and appended to by compiled code."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nextclick.baselines.compiled import NOTHING, compiled
from nextclick.clicks import Ints, ragged_index
from nextclick.growing import Growing
from nextclick.recommender import State

SMALLEST = 8
"""The room that a list has from its first entry on."""


class Lists(NamedTuple):
    """The lists as compiled code sees them.

    A list is the stretch of `pool` that begins at ``bounds[row, 0]`` and is ``bounds[row, 1]``
    long. Its room is the least power of two that holds it, and at least `SMALLEST`; when that is
    full, the list moves to the end of what is used, ``used[0]``, into twice the room.
    """

    bounds: Ints
    pool: NDArray[Any]
    used: Ints


class GrowingLists:
    """Many lists of integers in one array, growing in any order.

    An entry costs between two and four times its eight bytes, with the places that lists moved
    away from.

    Examples
    --------
    >>> lists = GrowingLists()
    >>> lists.resize(3)
    >>> for row, value in [(2, 7), (0, 5), (2, 8)]:
    ...     while not can_append(lists.arrays, row):
    ...         lists.make_room()
    ...     append(lists.arrays, row, value)
    >>> [lists[row].tolist() for row in range(3)]
    [[5], [], [7, 8]]
    """

    def __init__(self, dtype: DTypeLike = np.int64) -> None:
        self._bounds: Growing[np.int64] = Growing(np.zeros((0, 2), np.int64))
        self._pool: Growing[Any] = Growing(np.zeros(0, dtype))
        self._used = np.zeros(1, np.int64)

    def __len__(self) -> int:
        return len(self._bounds)

    def __getitem__(self, row: int) -> Ints:
        """Return a list's entries."""
        start, length = self._bounds.values[row]
        return self._pool.values[start : start + length]

    @property
    def arrays(self) -> Lists:
        """The lists for compiled code: views, good until there is more room or a further list."""
        return Lists(self._bounds.values, self._pool.values, self._used)

    def resize(self, n_lists: int) -> None:
        """Add empty lists until there are this many."""
        self._bounds.resize(n_lists)

    def make_room(self) -> None:
        """Make room for more entries, and for about as many as there are."""
        self._pool.resize(2 * len(self._pool) + 1024)

    def state(self) -> State:
        """Return the length of each list, and all entries, list by list."""
        starts, lengths = self._bounds.values.T
        return {
            "lengths": lengths.copy(),
            "entries": self._pool.values[ragged_index(starts, lengths)],
        }

    @classmethod
    def restored(cls, state: State) -> GrowingLists:
        """Return lists with these entries."""
        lengths = state["lengths"]
        powers = np.ceil(np.log2(np.maximum(lengths, SMALLEST))).astype(np.int64)
        rooms = np.where(lengths > 0, 1 << powers, 0)
        starts = np.cumsum(rooms) - rooms
        lists = cls(state["entries"].dtype)
        lists._bounds.append(np.column_stack([starts, lengths]))
        lists._pool.resize(int(rooms.sum()))
        lists._pool.values[ragged_index(starts, lengths)] = state["entries"]
        lists._used[0] = rooms.sum()
        return lists


@compiled
def can_append(lists: Lists, row: int) -> bool:
    """Whether there is room for one more entry of this list."""
    length = lists.bounds[row, 1]
    return not _is_full(length) or lists.used[0] + _next_room(length) <= len(lists.pool)


@compiled
def append(lists: Lists, row: int, value: int) -> None:
    """Add an entry to a list; there must be room for it."""
    start, length = lists.bounds[row]
    if _is_full(length):
        moved = lists.used[0]
        lists.used[0] += _next_room(length)
        for i in range(length):
            lists.pool[moved + i] = lists.pool[start + i]
        lists.bounds[row, 0] = start = moved
    lists.pool[start + length] = value
    lists.bounds[row, 1] = length + 1


@compiled
def find(lists: Lists, row: int, value: int) -> int:
    """Return where in the pool a list has this entry, `NOTHING` if it has not."""
    start, length = lists.bounds[row]
    for i in range(start, start + length):
        if lists.pool[i] == value:
            return int(i)
    return NOTHING


@compiled
def move_to_end(lists: Lists, row: int, place: int) -> None:
    """Make the entry at this place of the pool the last of its list."""
    end = lists.bounds[row, 0] + lists.bounds[row, 1]
    value = lists.pool[place]
    for i in range(place, end - 1):
        lists.pool[i] = lists.pool[i + 1]
    lists.pool[end - 1] = value


@compiled
def _is_full(length: int) -> bool:
    return length == 0 or (length >= SMALLEST and length & (length - 1) == 0)


@compiled
def _next_room(full: int) -> int:
    return max(SMALLEST, 2 * full)
