"""What had been clicked before each entry of a memory, so that it can be said why it is there."""

from __future__ import annotations

import numpy as np

from nextclick.clicks import CONTEXT_LENGTH, Contexts, Ints, ragged_index
from nextclick.memory.base import State
from nextclick.memory.window import Window


class PastContexts:
    """The contexts of a memory's entries, in the order these were written.

    Examples
    --------
    >>> past = PastContexts()
    >>> past.add(Contexts.of([[3, 4], [5], [5, 6, 7]]))
    >>> past.keep(2)
    >>> [context.tolist() for context in past.aged(np.array([0, 1, -1, 2]))]
    [[5, 6, 7], [5], [], []]
    """

    def __init__(self) -> None:
        self._items = Window.empty(np.int32)
        self._lengths = Window.empty(np.uint8)
        # Where each context ends among all items there ever were, and how many of these are gone.
        self._ends = Window.empty(np.int64)
        self._gone = 0

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, contexts: Contexts) -> None:
        """Write down the contexts of new entries."""
        last = contexts.last(CONTEXT_LENGTH)
        self._append(last.items[ragged_index(last.starts, last.lengths)], last.lengths)

    def keep(self, entries: int) -> None:
        """Forget all but those of the newest `entries` entries."""
        surplus = len(self) - entries
        if surplus > 0:
            items = int(self._lengths.values[:surplus].sum(dtype=np.int64))
            self._items.drop(items)
            self._lengths.drop(surplus)
            self._ends.drop(surplus)
            self._gone += items

    def aged(self, ages: Ints) -> Contexts:
        """Return the contexts of entries, by how many entries were written after each.

        Those that are not known, and those of negative ages, are empty. Good until the next change.
        """
        places = len(self) - 1 - ages
        known = (ages >= 0) & (places >= 0)
        ends, lengths = np.zeros(len(ages), dtype=np.int64), np.zeros(len(ages), dtype=np.int64)
        ends[known] = self._ends.values[places[known]] - self._gone
        lengths[known] = self._lengths.values[places[known]]
        return Contexts.cut(self._items.values, ends - lengths, ends)

    def state(self) -> State:
        """Return everything there is."""
        return {"items": self._items.values, "lengths": self._lengths.values}

    def restore(self, state: State) -> None:
        """Take up what `state` returned; of what an older version wrote, nothing is known."""
        if state:
            self._append(state["items"], state["lengths"])

    def _append(self, items: Ints, lengths: Ints) -> None:
        before = self._gone + len(self._items)
        self._items.append(items)
        self._lengths.append(lengths)
        self._ends.append(before + np.cumsum(lengths, dtype=np.int64))
