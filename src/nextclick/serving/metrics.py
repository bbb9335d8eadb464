"""What Prometheus reads, and what the page shows of the last minutes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from time import perf_counter

import numpy as np
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from nextclick.serving.messages import Figures, LearnerStats, Stats

BUCKETS = (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1, 5)
"""Seconds; fine where the service's promises are."""

RECENT = 4_096
"""Of how many of the last requests the page shows percentiles."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counts requests, and tells what the engine tells.

    Parameters
    ----------
    stats
        Returns the engine's figures, `None` as long as it is starting.
    connections
        Returns how many connections are open.
    """

    def __init__(self, stats: Callable[[], Stats | None], connections: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "nextclick_requests",
            "Requests answered",
            ["endpoint", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "nextclick_request_seconds",
            "Time from a request's headers to its answer",
            ["endpoint"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "nextclick_requests_in_flight", "Requests being answered", registry=self.registry
        )
        Gauge(
            "nextclick_open_connections", "Open connections", registry=self.registry
        ).set_function(connections)
        self.registry.register(_EngineFigures(stats))
        ProcessCollector(registry=self.registry)  # memory, processor time, open files
        self._recent: deque[tuple[float, float]] = deque(maxlen=RECENT)
        self._children: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def count(self, endpoint: str, status: int, seconds: float, *, shown: bool) -> None:
        """Count a request that was answered.

        Parameters
        ----------
        endpoint, status, seconds
            Which, with what, and after how long.
        shown
            Whether it belongs to what the page calls latency.
        """
        children = self._children.get((endpoint, status))
        if children is None:
            children = (
                self._requests.labels(endpoint, str(status)),
                self._seconds.labels(endpoint),
            )
            self._children[endpoint, status] = children
        children[0].inc()
        children[1].observe(seconds)
        if shown:
            self._recent.append((perf_counter(), seconds))

    def percentiles(self, over: float = 60) -> dict[str, float | None]:
        """Return percentiles, in seconds, of the last requests within so many seconds."""
        since = perf_counter() - over
        times = [seconds for when, seconds in tuple(self._recent) if when >= since]
        if not times:
            return {"p50": None, "p90": None, "p99": None}
        values = np.percentile(times, (50, 90, 99)).tolist()
        return dict(zip(("p50", "p90", "p99"), values, strict=True))

    def text(self) -> bytes:
        """Return what Prometheus reads."""
        return generate_latest(self.registry)


class _EngineFigures:
    """Tells the engine's figures whenever somebody asks."""

    def __init__(self, stats: Callable[[], Stats | None]) -> None:
        self._stats = stats

    def describe(self) -> list[Metric]:
        """Say nothing in advance: the engine may not have started."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every figure."""
        stats = self._stats()
        if stats is None:
            return
        for name, help_, value in (
            ("clicks", "Clicks in the log since the state began", stats.clicks),
            ("duplicate_clicks", "Clicks sent again, since this start", stats.duplicates),
            ("refused_clicks", "Clicks that could not be kept", stats.refused),
            ("recommendations", "Answers since this start", stats.recommendations),
            ("learning_steps", "Learning steps of the model", stats.model.steps),
        ):
            yield CounterMetricFamily(f"nextclick_{name}", help_, value=value)
        for name, help_, figure in (
            ("open_sessions", "Sessions that may go on", stats.sessions),
            ("queue", "Questions waiting for an answer", stats.queue),
            ("lag_clicks", "Records of the log that are not learned yet", stats.lag_clicks),
            ("lag_seconds", "Age of the oldest click not learned yet", stats.lag_seconds),
            ("model_version", "One more with each model loaded", stats.model_version),
            ("items", "Items that the model knows", stats.model.items),
            ("memory_entries", "Transitions in memory", stats.model.memory_entries),
            ("snapshot_time_seconds", "When the newest snapshot was written", stats.snapshot_time),
            ("learning_failed", "Whether the learner stopped", float(bool(stats.learning_error))),
            ("broken", "Whether it has to be started again", float(bool(stats.defects))),
            ("writing_failed", "Whether no clicks are taken", float(bool(stats.writing_error))),
        ):
            if figure is not None:
                yield GaugeMetricFamily(f"nextclick_{name}", help_, value=figure)
        yield from _quality(stats)


def _quality(stats: Stats) -> Iterator[Metric]:
    labels = ["model", "part", "over"]
    hit_rate = GaugeMetricFamily("nextclick_live_hr20", "HR@20 of live clicks", labels=labels)
    mrr = GaugeMetricFamily("nextclick_live_mrr20", "MRR@20 of live clicks", labels=labels)
    tests = GaugeMetricFamily("nextclick_live_tests", "Clicks tested", labels=labels)
    for model, learner in (("served", stats.model), ("shadow", stats.shadow)):
        for part, over, figures in _figures(learner):
            tests.add_metric([model, part, over], figures.tests)
            if figures.hit_rate is not None and figures.reciprocal_rank is not None:
                hit_rate.add_metric([model, part, over], figures.hit_rate)
                mrr.add_metric([model, part, over], figures.reciprocal_rank)
    yield from (hit_rate, mrr, tests)


def _figures(learner: LearnerStats | None) -> Iterator[tuple[str, str, Figures]]:
    if learner is None:
        return
    for over, quality in (("hour", learner.hour), ("start", learner.start)):
        for part, figures in (
            ("all", quality.model),
            ("neural", quality.neural),
            ("memory", quality.memory),
            ("new_items", quality.new),
        ):
            if figures is not None:
                yield part, over, figures
