"""Streaming prepared data through a service, as the shop it came from would have done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from nextclick.clicks import ClickLog
from nextclick.client import Client
from nextclick.datasets.prepared import PreparedData
from nextclick.errors import BadInputError
from nextclick.recommender import LEARNING_BATCH
from nextclick.runtime import Runtime

AT_ONCE = 100
"""Clicks to a request, as fast as can be."""

PATIENCE = 600
"""Seconds to wait for a service that learns nothing of what it was sent."""

LOOK_EVERY = 2.0
"""Seconds between two looks at the figures, for those who watch."""

PARTS = ("model", "neural", "memory", "new")


@dataclass(frozen=True)
class Replayed:
    """What a replay sent, and how good the service's recommendations were meanwhile.

    Parameters
    ----------
    clicks
        How many clicks were sent.
    seconds
        How long it took until all of them were learned.
    tests, hit_rate, reciprocal_rank
        For the model, its parts alone and new items: how many clicks tested it, HR@20 and MRR@20;
        the last two lack what nothing tested.
    write_every
        How many transitions the service tests together.
    early_groups
        How many such groups it closed before they were full, so that nobody waits; the last group
        does not count. If none, and the service had not tested anything before, the figures are
        those of an evaluation offline, to the last digit.
    alone
        Whether the service had not tested anything before.
    """

    clicks: int
    seconds: float
    tests: dict[str, int]
    hit_rate: dict[str, float]
    reciprocal_rank: dict[str, float]
    write_every: int
    early_groups: int
    alone: bool


def replay(
    data: PreparedData,
    client: Client,
    *,
    speed: float | None = None,
    limit: int | None = None,
    runtime: Runtime | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Replayed:
    """Send the test part's clicks in their order, and wait until they are learned.

    Parameters
    ----------
    data
        Prepared data, of which the service's model knows the training part.
    client
        Of the service.
    speed
        How many times as fast as they happened; as fast as can be, if not given.
    limit
        Send the first `limit` clicks only.
    runtime
        Whether to show progress.
    sleep
        What waits.
    """
    log = data.test
    n = len(log) if limit is None else min(limit, len(log))
    if not n:
        raise BadInputError("the data has no test part to replay; prepare it with one")
    before = client.stats()
    runtime = runtime or Runtime()
    started = looked = time.perf_counter()
    with runtime.progress("Replaying", n) as advance:
        sent, note = 0, ""
        for due, clicks in _requests(data, log, n, speed):
            wait = due - (time.perf_counter() - started)
            if wait > 0:
                sleep(wait)
            client.clicks(clicks)
            sent += len(clicks)
            if runtime.show_progress and time.perf_counter() - looked >= LOOK_EVERY:
                looked = time.perf_counter()
                note = _note(before, client.stats())
            advance(len(clicks), note)
    after = _learned(client, sleep)
    seconds = time.perf_counter() - started
    figures = _between(before["model"]["start"], after["model"]["start"])
    return Replayed(sent, seconds, *figures, **_circumstances(before, after))


def _note(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Return the model's figures so far, to be shown beside the progress."""
    _, hit_rate, reciprocal_rank = _between(before["model"]["start"], now["model"]["start"])
    if "model" not in hit_rate:
        return ""
    return f"HR@20 {hit_rate['model']:.3f} MRR@20 {reciprocal_rank['model']:.3f}"


def _requests(
    data: PreparedData, log: ClickLog, n: int, speed: float | None
) -> Iterator[tuple[float, list[dict[str, Any]]]]:
    """Yield clicks to be sent together, and when, in seconds from the start."""
    at_once = AT_ONCE if speed is None else 1
    for start in range(0, n, at_once):
        rows = slice(start, min(start + at_once, n))
        due = 0.0 if speed is None else (float(log.times[start]) - float(log.times[0])) / speed
        yield (
            due,
            [
                {
                    "session_id": f"{data.description.source}:{session}"[:1024],
                    "item_id": data.catalog.id(item),
                    "timestamp": when,
                }
                for session, item, when in zip(
                    log.sessions[rows].tolist(),
                    log.items[rows].tolist(),
                    log.times[rows].tolist(),
                    strict=True,
                )
            ],
        )


def _circumstances(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return what an evaluation offline needs to know to give the same figures."""
    tests = after["model"]["start"]["model"]["tests"]
    last_is_short = tests % LEARNING_BATCH % after["write_every"] > 0
    return {
        "write_every": after["write_every"],
        "early_groups": after["early_groups"] - before["early_groups"] - last_is_short,
        "alone": before["model"]["start"]["model"]["tests"] == 0,
    }


def _learned(client: Client, sleep: Callable[[float], None]) -> dict[str, Any]:
    """Wait until the service has learned all it was sent, and return its figures."""
    learned, until = -1, 0.0
    while True:
        sleep(1.1)  # figures are not older than a second
        stats = client.stats()
        if stats["learning_error"] is not None:
            raise BadInputError(f"the service stopped learning: {stats['learning_error']}")
        if stats["lag_clicks"] == 0 and stats["lag_seconds"] == 0:
            return stats
        if stats["learned_number"] > learned:
            learned, until = stats["learned_number"], time.perf_counter() + PATIENCE
        elif time.perf_counter() > until:
            raise BadInputError(f"the service has learned nothing for {PATIENCE} seconds")


def _between(
    before: dict[str, Any], after: dict[str, Any]
) -> tuple[dict[str, int], dict[str, float], dict[str, float]]:
    """Return the figures of what was tested between two states of the service."""
    tests: dict[str, int] = {}
    hit_rate: dict[str, float] = {}
    reciprocal_rank: dict[str, float] = {}
    for part in PARTS:
        first, last = before[part] or {"tests": 0}, after[part]
        if last is None:
            continue
        tests[part] = last["tests"] - first["tests"]
        if tests[part]:
            hit_rate[part] = _mean(first, last, "hit_rate")
            reciprocal_rank[part] = _mean(first, last, "reciprocal_rank")
    return tests, hit_rate, reciprocal_rank


def _mean(first: dict[str, Any], last: dict[str, Any], name: str) -> float:
    if not first["tests"]:
        return float(last[name])
    total = last["tests"] * last[name] - first["tests"] * first[name]
    return float(total / (last["tests"] - first["tests"]))
