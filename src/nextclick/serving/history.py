"""What the page draws: samples of the last half hour, and the rates between them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import msgspec

from nextclick.serving.messages import Figures, LearnerStats, Quality, Stats

EVERY = 2.0
"""Seconds between two samples."""

KEPT = 900
"""How many samples are kept."""


class Sample(msgspec.Struct):
    """How things stood at one moment; rates and percentiles are those of the time before it."""

    time: float
    clicks_per_second: float
    recommendations_per_second: float
    p50: float | None
    p90: float | None
    p99: float | None
    memory_entries: int | None
    lag_clicks: int
    hit_rate: dict[str, float | None]
    reciprocal_rank: dict[str, float | None]


@dataclass
class History:
    """The samples, newest last."""

    def __post_init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=KEPT)
        self._before: tuple[float, int, int] | None = None

    def add(self, time: float, stats: Stats, percentiles: dict[str, float | None]) -> None:
        """Take a sample."""
        counts = (time, stats.clicks, stats.recommendations)
        before, self._before = self._before, counts
        if before is None or time <= before[0]:
            return
        seconds = time - before[0]
        parts = _parts(stats)
        self._samples.append(
            Sample(
                time,
                (stats.clicks - before[1]) / seconds,
                (stats.recommendations - before[2]) / seconds,
                **percentiles,
                memory_entries=stats.model.memory_entries,
                lag_clicks=stats.lag_clicks,
                hit_rate={name: figures.hit_rate for name, figures in parts.items()},
                reciprocal_rank={name: figures.reciprocal_rank for name, figures in parts.items()},
            )
        )

    def since(self, time: float) -> list[Sample]:
        """Return the samples after a moment."""
        return [sample for sample in self._samples if sample.time > time]


def _parts(stats: Stats) -> dict[str, Figures]:
    """Return the figures of the last hour, of all that is compared."""
    parts = _of(stats.model)
    if stats.shadow is not None:
        parts["shadow"] = stats.shadow.hour.model
    return parts


def _of(learner: LearnerStats) -> dict[str, Figures]:
    quality: Quality = learner.hour
    known: dict[str, Any] = {
        "model": quality.model,
        "neural": quality.neural,
        "memory": quality.memory,
    }
    return {name: figures for name, figures in known.items() if figures is not None}
