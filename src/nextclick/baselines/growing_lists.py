"""Many lists of integers in one array, to be read and appended to by compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nextclick.baselines.compiled import NOTHING, compiled
from nextclick.clicks import Ints, ragged_index
from nextclick.growing import Growing
from nextclick.recommender import State


class Lists(NamedTuple):
    """The lists as compiled code sees them.

    A list is the stretch of `pool` that begins at ``bounds[row, 0]`` and is ``bounds[row, 1]``
    long. Its room is the least power of two that holds it, and at least `smallest`; when that is
    full, the list moves to the end of what is used, ``used[0]``, into twice the room.
    """

    bounds: Ints
    pool: NDArray[Any]
    used: Ints
    smallest: int


class GrowingLists:
    """Many lists of integers in one array, growing in any order.

    An entry costs between two and four times its eight bytes, with the places that lists moved
    away from.

    Parameters
    ----------
    dtype
        The type of the entries.
    smallest
        The room that a list has from its first entry on, a power of two.

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

    def __init__(self, dtype: DTypeLike = np.int64, *, smallest: int = 8) -> None:
        self._smallest = smallest
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
        return Lists(self._bounds.values, self._pool.values, self._used, self._smallest)

    def resize(self, n_lists: int) -> None:
        """Add empty lists until there are this many."""
        self._bounds.resize(n_lists)

    def make_room(self) -> None:
        """Make room for more entries, and for about as many as there are."""
        self._pool.resize(2 * len(self._pool) + 1024)

    def state(self, n_lists: int | None = None) -> State:
        """Return the length of each list, and all entries, list by list.

        Parameters
        ----------
        n_lists
            How many of the lists; all by default.
        """
        starts, lengths = self._bounds.values[:n_lists].T
        return {
            "lengths": lengths.copy(),
            "entries": self._pool.values[ragged_index(starts, lengths)],
        }

    @classmethod
    def restored(cls, state: State, *, smallest: int = 8) -> GrowingLists:
        """Return lists with these entries."""
        lengths = state["lengths"]
        powers = np.ceil(np.log2(np.maximum(lengths, smallest))).astype(np.int64)
        rooms = np.where(lengths > 0, 1 << powers, 0)
        starts = np.cumsum(rooms) - rooms
        lists = cls(state["entries"].dtype, smallest=smallest)
        lists._bounds.append(np.column_stack([starts, lengths]))
        lists._pool.resize(int(rooms.sum()))
        lists._pool.values[ragged_index(starts, lengths)] = state["entries"]
        lists._used[0] = rooms.sum()
        return lists


def fill(go_on: Callable[[int], int], n: int, make_room: Callable[[], None]) -> None:
    """Let compiled code append until all is done, with more room whenever it runs out of it.

    Parameters
    ----------
    go_on
        Does what there is to do from this one on, and returns where it ran out of room; `n` if it
        did not.
    n
        How many there are to do.
    make_room
        Makes more room.
    """
    done = go_on(0)
    while done < n:
        make_room()
        done = go_on(done)


@compiled
def can_append(lists: Lists, row: int) -> bool:
    """Whether there is room for one more entry of this list."""
    return fits(lists, room_for(lists, row, 1))


@compiled
def fits(lists: Lists, room: int) -> bool:
    """Whether so much of the pool is free."""
    return bool(lists.used[0] + room <= len(lists.pool))


@compiled
def room_for(lists: Lists, row: int, n_entries: int) -> int:
    """Return how much of the pool so many more entries of this list take."""
    room = 0
    length = lists.bounds[row, 1]
    for more in range(n_entries):
        if _is_full(lists, length + more):
            room += _next_room(lists, length + more)
    return room


@compiled
def append(lists: Lists, row: int, value: int) -> None:
    """Add an entry to a list; there must be room for it."""
    start, length = lists.bounds[row]
    if _is_full(lists, length):
        moved = lists.used[0]
        lists.used[0] += _next_room(lists, length)
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
def _is_full(lists: Lists, length: int) -> bool:
    return length == 0 or (length >= lists.smallest and length & (length - 1) == 0)


@compiled
def _next_room(lists: Lists, full: int) -> int:
    return max(lists.smallest, 2 * full)
