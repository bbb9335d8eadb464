"""Lists of items, each with a number: how often it was counted, say."""

from __future__ import annotations

from nextclick.baselines.compiled import NOTHING, compiled
from nextclick.baselines.growing_lists import Lists, append

NUMBER_BITS = 32
"""How many bits of an entry are its number, below those of its item."""


@compiled
def entry(item: int, number: int) -> int:
    """Return an item and a number as an entry of a list."""
    return item << NUMBER_BITS | number


@compiled
def item_of(entry: int) -> int:
    """Return the item of an entry."""
    return entry >> NUMBER_BITS


@compiled
def number_of(entry: int) -> int:
    """Return the number of an entry."""
    return entry & ((1 << NUMBER_BITS) - 1)


@compiled
def number_for(lists: Lists, row: int, item: int) -> int:
    """Return the number that a list has for an item, `NOTHING` if it does not have the item."""
    place = _place(lists, row, item)
    return NOTHING if place == NOTHING else number_of(lists.pool[place])


@compiled
def count(lists: Lists, row: int, item: int) -> None:
    """Count an item once more in a list; there must be room for one more entry."""
    place = _place(lists, row, item)
    if place == NOTHING:
        append(lists, row, entry(item, 1))
    else:
        lists.pool[place] += 1


@compiled
def _place(lists: Lists, row: int, item: int) -> int:
    start, length = lists.bounds[row]
    for place in range(start, start + length):
        if item_of(lists.pool[place]) == item:
            return int(place)
    return NOTHING
