"""The tables everything else passes around: clicks, contexts and transitions.

Inside nextclick a session and an item are integers; `catalog` and the readers translate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

CONTEXT_LENGTH = 20
"""How many of a session's last clicks a recommendation looks at."""


class Click(NamedTuple):
    """One event: in which session, on which item, when (seconds)."""

    session: int
    item: int
    time: float


@dataclass(frozen=True, eq=False)
class Contexts:
    """What recommendations are asked for: one run of items per context, most recent last.

    A context is a stretch `items[starts[i]:ends[i]]` of one flat array, so that the contexts of a
    session, each a prefix of the next, share their storage. Two contexts with the same start are
    prefixes of the same clicks.

    Parameters
    ----------
    items
        The flat array of catalog numbers that all contexts are cut from.
    starts, ends
        Where each context begins and ends in `items`.
    sessions
        The session of each context, -1 where it is not known.
    times
        When each recommendation is asked for, in seconds; NaN where it is not known.

    Examples
    --------
    >>> contexts = Contexts.of([[3, 5, 5], [], [2]])
    >>> [context.tolist() for context in contexts]
    [[3, 5, 5], [], [2]]
    >>> contexts.padded(2).tolist()
    [[5, 5], [-1, -1], [2, -1]]
    """

    items: Ints
    starts: Ints
    ends: Ints
    sessions: Ints
    times: Floats

    @classmethod
    def of(
        cls,
        contexts: Sequence[ArrayLike],
        *,
        sessions: ArrayLike | None = None,
        times: ArrayLike | None = None,
    ) -> Contexts:
        """Make contexts from lists of catalog numbers."""
        arrays = [np.asarray(context, dtype=np.int64).reshape(-1) for context in contexts]
        ends = np.cumsum([len(array) for array in arrays], dtype=np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), ends])[: len(arrays)]
        items = np.concatenate([np.empty(0, np.int64), *arrays])
        return cls.cut(items, starts, ends, sessions=sessions, times=times)

    @classmethod
    def cut(
        cls,
        items: Ints,
        starts: Ints,
        ends: Ints,
        *,
        sessions: ArrayLike | None = None,
        times: ArrayLike | None = None,
    ) -> Contexts:
        """Cut contexts from a flat array; what is not known of them is filled in as unknown."""
        n = len(starts)
        return cls(
            items=items,
            starts=starts,
            ends=ends,
            sessions=np.full(n, -1) if sessions is None else np.asarray(sessions, dtype=np.int64),
            times=np.full(n, np.nan) if times is None else np.asarray(times, dtype=np.float64),
        )

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> Ints: ...
    @overload
    def __getitem__(self, index: slice | Ints | Mask) -> Contexts: ...
    def __getitem__(self, index: int | slice | Ints | Mask) -> Ints | Contexts:
        """Return one context's items, or a selection of the contexts."""
        if isinstance(index, int | np.integer):
            return self.items[self.starts[index] : self.ends[index]]
        return Contexts(
            self.items,
            self.starts[index],
            self.ends[index],
            self.sessions[index],
            self.times[index],
        )

    def __iter__(self) -> Iterator[Ints]:
        return (self[i] for i in range(len(self)))

    @property
    def lengths(self) -> Ints:
        """The number of clicks in each context."""
        return self.ends - self.starts

    def last(self, length: int = CONTEXT_LENGTH) -> Contexts:
        """Return the contexts cut to their last `length` clicks."""
        starts = np.maximum(self.starts, self.ends - length)
        return Contexts(self.items, starts, self.ends, self.sessions, self.times)

    def known(self, n_items: int) -> Contexts:
        """Return the contexts without clicks on items outside ``range(n_items)``."""
        lengths = self.lengths
        flat = self.items[ragged_index(self.starts, lengths)]
        keep = (flat >= 0) & (flat < n_items)
        if keep.all():
            return self
        kept_before = np.concatenate([np.zeros(1, np.int64), np.cumsum(keep)])
        ends = np.cumsum(lengths)
        return Contexts(
            flat[keep],
            kept_before[ends - lengths],
            kept_before[ends],
            self.sessions,
            self.times,
        )

    def padded(self, length: int | None = None, *, fill: int = -1) -> Ints:
        """Return the contexts as a matrix, left-aligned, filled up with `fill` behind."""
        clipped = self if length is None else self.last(length)
        lengths = clipped.lengths
        width = int(lengths.max(initial=0)) if length is None else length
        matrix = np.full((len(self), width), fill, dtype=np.int64)
        matrix[np.arange(width) < lengths[:, None]] = clipped.items[
            ragged_index(clipped.starts, lengths)
        ]
        return matrix


@dataclass(frozen=True, eq=False)
class Transitions:
    """What there is to learn and to be tested on: contexts, and the item clicked next.

    Examples
    --------
    >>> log = ClickLog.of([(0, 4, 1.0), (1, 7, 2.0), (0, 5, 3.0), (0, 6, 4.0)])
    >>> transitions = log.transitions()
    >>> [(context.tolist(), int(item)) for context, item in transitions]
    [([4], 5), ([4, 5], 6)]
    """

    contexts: Contexts
    items: Ints
    times: Floats

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: slice | Ints | Mask) -> Transitions:
        """Return a selection of the transitions."""
        return Transitions(self.contexts[index], self.items[index], self.times[index])

    def __iter__(self) -> Iterator[tuple[Ints, np.int64]]:
        return zip(self.contexts, self.items, strict=True)

    def batches(self, size: int) -> Iterator[Transitions]:
        """Cut the stream into runs of `size`, in order."""
        return (self[start : start + size] for start in range(0, len(self), size))

    @property
    def n_items(self) -> int:
        """One more than the largest item number among contexts and next items."""
        contexts = self.contexts
        flat = contexts.items[ragged_index(contexts.starts, contexts.lengths)]
        return int(max(flat.max(initial=-1), self.items.max(initial=-1))) + 1


@dataclass(frozen=True, eq=False)
class ClickLog:
    """Clicks in time order: the session, item and time of each.

    Parameters
    ----------
    sessions, items
        Integers; the clicks of a session need not be contiguous.
    times
        Seconds, or any number that grows with time; never decreasing.
    """

    sessions: Ints
    items: Ints
    times: Floats

    @classmethod
    def of(cls, clicks: Sequence[tuple[int, int, float]]) -> ClickLog:
        """Make a log from (session, item, time) triples, already in time order."""
        columns = list(zip(*clicks, strict=True)) or [(), (), ()]
        return cls(
            np.array(columns[0], dtype=np.int64),
            np.array(columns[1], dtype=np.int64),
            np.array(columns[2], dtype=np.float64),
        )

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Click]:
        columns = (self.sessions.tolist(), self.items.tolist(), self.times.tolist())
        return (Click(*row) for row in zip(*columns, strict=True))

    @property
    def n_items(self) -> int:
        """One more than the largest item number."""
        return int(self.items.max(initial=-1)) + 1

    @property
    def n_sessions(self) -> int:
        """The number of different sessions."""
        return len(np.unique(self.sessions))

    def whole_sessions(self) -> Contexts:
        """Return each session as the context after its last click, by first click."""
        order, starts, ends = self._by_session()
        first = np.argsort(order[starts], kind="stable")
        last_click = order[ends - 1] if len(ends) else ends
        return Contexts(
            self.items[order],
            starts[first],
            ends[first],
            self.sessions[order][starts[first]],
            self.times[last_click][first],
        )

    def transitions(self, length: int = CONTEXT_LENGTH) -> Transitions:
        """Return every click but a session's first as a transition, in time order."""
        order, starts, ends = self._by_session()
        lengths = ends - starts
        position = np.arange(len(order))
        session_start = np.repeat(starts, lengths)
        is_next = position > session_start
        stream = position[is_next][np.argsort(order[is_next], kind="stable")]
        items = self.items[order]
        times = self.times[order]
        contexts = Contexts(
            items,
            np.maximum(session_start[stream], stream - length),
            stream,
            self.sessions[order][stream],
            times[stream - 1],
        )
        return Transitions(contexts, items[stream], times[stream])

    def _by_session(self) -> tuple[Ints, Ints, Ints]:
        """Return a stable order by session, and where each session starts and ends in it."""
        order = np.argsort(self.sessions, kind="stable")
        ordered = self.sessions[order]
        change = np.flatnonzero(np.diff(ordered)) + 1
        starts = np.concatenate([np.zeros(min(1, len(order)), np.int64), change])
        ends = np.append(change, len(order)) if len(order) else change
        return order, starts, ends.astype(np.int64)


def ragged_index(starts: Ints, lengths: Ints) -> Ints:
    """Return the positions of all elements of runs that begin at `starts`.

    Examples
    --------
    >>> ragged_index(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before = np.cumsum(lengths) - lengths
    index: Ints = np.arange(lengths.sum()) + np.repeat(starts - before, lengths)
    return index
