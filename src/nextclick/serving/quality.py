"""Live quality: how good recommendations were just before each click, over time."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from nextclick.clicks import Floats, Ints, Mask
from nextclick.evaluation.metrics import (
    hit_rate,
    hits,
    mean_reciprocal_rank,
    rank_counts,
    reciprocal_ranks,
)
from nextclick.serving.messages import Figures, Quality

CUTOFF = 20
"""HR and MRR are given at this list length."""

MINUTE = 60.0

_KEPT_MINUTES = 24 * 60

_SERIES = ("model", "neural", "memory", "new")
_N = 3 * len(_SERIES) + 4
"""Tests, hits and reciprocal ranks of each series; sums and numbers of two kinds of weights."""


class LiveQuality:
    """Sums by the minute, and since the start.

    Examples
    --------
    >>> live = LiveQuality()
    >>> live.add(
    ...     arrived=np.array([0.0, 90.0]),
    ...     ranks={"model": np.array([1, 0])},
    ...     new=np.array([False, True]),
    ...     weights=np.array([0.5, np.nan]),
    ... )
    >>> live.start.model.hit_rate, live.last_hour(now=3_690).model.hit_rate
    (0.5, 0.0)
    """

    def __init__(self) -> None:
        self._total = np.zeros(_N)
        self._counts = np.zeros((len(_SERIES), CUTOFF + 1), dtype=np.int64)
        self._minutes: deque[tuple[int, Floats]] = deque(maxlen=_KEPT_MINUTES)

    def add(self, arrived: Floats, ranks: dict[str, Ints], new: Mask, weights: Floats) -> None:
        """Count tests.

        Parameters
        ----------
        arrived
            When the clicks arrived that recommendations were tested on.
        ranks
            The clicks' ranks in what each of the series recommended; 0 for a miss.
        new
            Which clicks are on new items.
        weights
            The gate's weights, NaN where there is no gate.
        """
        rows = np.zeros((len(arrived), _N))
        for place, series in enumerate(_SERIES):
            counted = new if series == "new" else np.ones(len(arrived), dtype=np.bool_)
            of = ranks.get("model" if series == "new" else series)
            if of is not None:
                self._counts[place] += rank_counts(of[counted], CUTOFF)
                rows[:, 3 * place] = counted
                rows[:, 3 * place + 1] = counted & hits(of, CUTOFF)
                rows[:, 3 * place + 2] = counted * reciprocal_ranks(of, CUTOFF)
        gated = ~np.isnan(weights)
        for column, kind in ((_N - 4, ~new), (_N - 2, new)):
            rows[:, column] = np.where(gated & kind, weights, 0)
            rows[:, column + 1] = gated & kind
        minutes = (arrived // MINUTE).astype(np.int64)
        for minute in np.unique(minutes).tolist():
            self._add_to(minute, rows[minutes == minute].sum(axis=0))

    @property
    def start(self) -> Quality:
        """Over everything that was tested, to the last digit as `metrics_at` has it."""
        return _quality(self._total, [_exact_figures(counts) for counts in self._counts])

    def last_hour(self, now: float) -> Quality:
        """Over the clicks of the 60 minutes before the one that `now` is in, and of that one."""
        first = int(now // MINUTE) - 60
        return _quality(sum((s for minute, s in self._minutes if minute >= first), np.zeros(_N)))

    def curve(self) -> list[tuple[float, Quality]]:
        """Return when each minute with tests began, and its figures; the last day's."""
        return [(minute * MINUTE, _quality(sums)) for minute, sums in list(self._minutes)]

    def state(self) -> dict[str, Any]:
        """Return everything as what JSON takes, to the last bit."""
        return {
            "total": self._total.tolist(),
            "ranks": self._counts.tolist(),
            "minutes": [[minute, sums.tolist()] for minute, sums in self._minutes],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `state` returned."""
        self._total = np.array(state["total"])
        self._counts = np.array(state["ranks"])
        self._minutes.clear()
        self._minutes.extend((minute, np.array(sums)) for minute, sums in state["minutes"])

    def _add_to(self, minute: int, sums: Floats) -> None:
        self._total = self._total + sums
        if self._minutes and self._minutes[-1][0] >= minute:
            last, before = self._minutes[-1]
            self._minutes[-1] = (last, before + sums)
        else:
            self._minutes.append((minute, sums))


def _quality(sums: Floats, exact: list[Figures] | None = None) -> Quality:
    figures = exact or [_figures(*sums[3 * n : 3 * n + 3]) for n in range(len(_SERIES))]
    model, neural, memory, new = figures
    has_parts = neural.tests > 0
    return Quality(
        model,
        neural if has_parts else None,
        memory if has_parts else None,
        new,
        _mean(sums[-4], sums[-3]),
        _mean(sums[-2], sums[-1]),
    )


def _figures(tests: float, n_hits: float, reciprocal: float) -> Figures:
    return Figures(int(tests), _mean(n_hits, tests), _mean(reciprocal, tests))


def _exact_figures(counts: Ints) -> Figures:
    n = int(counts.sum())
    return (
        Figures(n, hit_rate(counts), mean_reciprocal_rank(counts)) if n else Figures(0, None, None)
    )


def _mean(total: float, number: float) -> float | None:
    return float(total / number) if number else None
