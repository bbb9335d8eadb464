"""What the compiled parts of the baselines share: how to compile, hash tables, and rankings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from nextclick.clicks import Contexts, Ints

Function = TypeVar("Function", bound=Callable[..., Any])

NOTHING = -1
"""No item, no session, no slot."""


def compiled(function: Function) -> Function:
    """Compile a function when it is first called, and keep the result on disk.

    What is kept is renewed when the file of the function changes, not when that of a compiled
    function which it calls does: after editing such a one, touch the callers' files as well.
    """
    return cast(Function, numba.njit(cache=True, nogil=True)(function))


def read_only(array: Ints) -> Ints:
    """Return the array as numba always gets it: each other kind would be compiled for anew."""
    view = np.ascontiguousarray(array, dtype=np.int64).view()
    view.setflags(write=False)
    return view


def runs(contexts: Contexts) -> tuple[Ints, Ints, Ints]:
    """Return the items of contexts, and where each context starts and ends, for compiled code."""
    return read_only(contexts.items), read_only(contexts.starts), read_only(contexts.ends)


@compiled
def hash_table(n_keys: int) -> Ints:
    """Return an empty table for this many keys, at most half full."""
    size = 8
    while size < 2 * n_keys:
        size *= 2
    return np.full(size, NOTHING, np.int64)


@compiled
def slot_of(table: Ints, key: int) -> np.uint64:
    """Return the slot where a key is, or where it belongs."""
    mask = np.uint64(len(table) - 1)
    # The golden ratio's multiples are spread evenly; their upper bits are the best mixed.
    slot = (np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32) & mask
    while table[slot] != NOTHING and table[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return slot


@compiled
def rank(items: Ints, scores: NDArray[Any], item: int, score: float, last_click: Ints) -> None:
    """Put an item into a ranking, best first, if it is good enough.

    Most are not: callers compare with the last score before, which is cheaper than the call. Among
    items with equal scores the one that was clicked last is better. The places that are not taken
    hold `NOTHING`, and a score below all others.
    """
    place = len(items)
    while place > 0 and (
        score > scores[place - 1]
        or (score == scores[place - 1] and last_click[item] > last_click[items[place - 1]])
    ):
        if place < len(items):
            scores[place], items[place] = scores[place - 1], items[place - 1]
        place -= 1
    if place < len(items):
        scores[place], items[place] = score, item
