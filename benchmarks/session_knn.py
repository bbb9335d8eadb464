"""Session kNN beside a plain version with dictionaries and sets, in the same run.

Both learn DIGINETICA's training and validation parts, and are then tested and taught on the first
of the test part, batch by batch; one after the other, so that neither runs on the other's caches.
The data is looked for in the folder that NEXTCLICK_DATA names, or beside the repository; where it
is not, a synthetic shop takes its place.
Every ranking and every score must be the same. Times are processor times of one thread, on which
other programs on the machine have little influence.

    python benchmarks/session_knn.py [--transitions 5000] [--kind s-sknn|sknn]
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from math import sqrt
from pathlib import Path
from time import thread_time
from typing import Any, TypeAlias

import numpy as np

from nextclick.baselines.session_knn import SessionKNN, SessionKNNSettings
from nextclick.clicks import Contexts, Transitions
from nextclick.datasets import ShopSettings, prepare, synthetic_shop
from nextclick.recommender import LEARNING_BATCH, Recommendations
from nextclick.runtime import Runtime

Ranking: TypeAlias = list[tuple[int, float]]
UNIT = 2**32
DATA = Path(os.environ.get("NEXTCLICK_DATA", Path(__file__).parents[2] / "shared" / "data"))


class PlainSessionKNN:
    """What one writes first: a set of items per session, a dictionary of sessions per item."""

    def __init__(self, settings: SessionKNNSettings) -> None:
        self.settings = settings
        self.items_of: dict[int, set[int]] = defaultdict(set)
        self.sessions_of: dict[int, dict[int, int]] = defaultdict(dict)
        self.last_entered: dict[int, int] = {}
        self.clock = 0

    def learn(self, transitions: Transitions) -> None:
        """Put the clicks of each transition into its session."""
        sessions = transitions.contexts.sessions.tolist()
        for session, (context, target) in zip(sessions, transitions, strict=True):
            for item in [*context.tolist(), int(target)]:
                if item not in self.items_of[session]:
                    self.items_of[session].add(item)
                    self.sessions_of[item][session] = self.last_entered[item] = self.clock
                    self.clock += 1

    def recommend(self, contexts: Contexts, k: int = 20) -> list[Ranking]:
        """Return the best items and their scores for each context."""
        rows = zip(contexts.sessions.tolist(), contexts, strict=True)
        return [self._ranking(session, context.tolist(), k) for session, context in rows]

    def _ranking(self, session: int, context: list[int], k: int) -> Ranking:
        context = [item for item in context if item in self.sessions_of]
        sums: dict[int, int] = defaultdict(int)
        emphasis = self.settings.emphasis if self.settings.kind == "s-sknn" else 0.0
        for similarity, shared, items in self._nearest(session, context):
            position = max(i + 1 for i, item in enumerate(context) if item in shared)
            vote = int(similarity * (position / len(context)) ** emphasis + 0.5)
            for item in items:
                sums[item] += vote
        best = sorted(sums, key=lambda item: (-sums[item], -self.last_entered[item]))[:k]
        total = sum(sums.values())
        return [(item, sums[item] / total) for item in best]

    def _nearest(self, session: int, context: list[int]) -> list[tuple[int, set[int], set[int]]]:
        current = set(context)
        recency: dict[int, int] = {}
        for item in current:
            for other, when in self.sessions_of[item].items():
                recency[other] = max(when, recency.get(other, -1))
        recency.pop(session, None)
        recent = sorted(recency, key=lambda other: -recency[other])[: self.settings.sample_size]
        compared = []
        for other in recent:
            items = self.items_of[other]
            shared = current & items
            similarity = int(len(shared) / sqrt(len(current) * len(items)) * UNIT + 0.5)
            compared.append((similarity, shared, items))
        compared.sort(key=lambda row: -row[0])  # stable: of equals, the more recent stays first
        return compared[: self.settings.k]


def main() -> None:
    """Run both, compare every answer, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--transitions", type=int, default=5000)
    parser.add_argument("--kind", choices=["s-sknn", "sknn"], default="s-sknn")
    given = parser.parse_args()
    settings = SessionKNNSettings(kind=given.kind)
    real = (DATA / "diginetica").is_dir()
    made = ShopSettings(sessions=60_000)
    data = prepare(DATA / "diginetica") if real else synthetic_shop(made)
    test = data.test.transitions()[: given.transitions]

    runtime = Runtime(threads=1, show_progress=False)
    # Compiling, or loading what was compiled before, is done on a model that is thrown away.
    _ = SessionKNN(settings, runtime).fit(data.validation).recommend(test[:1].contexts)
    started = thread_time()
    fast = SessionKNN(settings, runtime).fit(data.train, validation=data.validation)
    fast_fit = thread_time() - started
    started = thread_time()
    plain = PlainSessionKNN(settings)
    plain.learn(data.train.transitions())
    plain.learn(data.validation.transitions())
    plain_fit = thread_time() - started

    alone = _seconds_alone(fast, test)
    answers, *fast_times = _run(fast, test)
    rankings, *plain_times = _run(plain, test)
    compared = _compare(answers, rankings)

    where = "DIGINETICA" if real else "a synthetic shop of 60,000 sessions"
    print(f"{fast.label} on {where}, {compared:,} rankings, all equal")
    print(f"{'':34}{'nextclick':>12}{'plain':>12}{'ratio':>9}")
    _print_row("learning what came before, s", fast_fit, plain_fit)
    _print_row("a recommendation, µs (median)", fast_times[0], plain_times[0])
    _print_row("a transition learned, µs (median)", fast_times[1], plain_times[1])
    print(f"{'one call for one context, µs':34}{alone:12.2f}")


def _run(model: Any, test: Transitions) -> tuple[list[Any], float, float]:
    """Test and teach a model batch by batch; return its answers and its median times in µs."""
    answers, recommending, learning = [], [], []
    for batch in test.batches(LEARNING_BATCH):
        started = thread_time()
        answers.append(model.recommend(batch.contexts))
        recommending.append((thread_time() - started) / len(batch))
        started = thread_time()
        model.learn(batch)
        learning.append((thread_time() - started) / len(batch))
    return answers, 1e6 * float(np.median(recommending)), 1e6 * float(np.median(learning))


def _compare(answers: list[Recommendations], rankings: list[list[Ranking]]) -> int:
    """Refuse two answers that differ; return how many were compared.

    Contexts without a known item are left out: for these nextclick recommends what is popular.
    """
    compared = 0
    for answer, expected in zip(answers, rankings, strict=True):
        for row in np.flatnonzero(~answer.cold).tolist():
            pairs = zip(answer.items[row].tolist(), answer.scores[row].tolist(), strict=True)
            got = [(item, score) for item, score in pairs if item >= 0]
            assert got == expected[row], f"{got} is not {expected[row]}"
            compared += 1
    return compared


def _seconds_alone(model: SessionKNN, test: Transitions) -> float:
    seconds = []
    for row in range(min(2000, len(test))):
        context = test.contexts[row : row + 1]
        started = thread_time()
        model.recommend(context)
        seconds.append(thread_time() - started)
    return 1e6 * float(np.median(seconds))


def _print_row(what: str, ours: float, theirs: float) -> None:
    print(f"{what:34}{ours:12.2f}{theirs:12.2f}{theirs / ours:8.1f}x")


if __name__ == "__main__":
    main()
