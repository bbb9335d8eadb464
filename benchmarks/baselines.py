"""The baselines beside plain versions with dictionaries and sets, in the same run.

Both learn DIGINETICA's training and validation parts, and are then tested and taught on the first
of the test part, batch by batch; one after the other, so that neither runs on the other's caches.
The data is looked for in the folder that NEXTCLICK_DATA names, or beside the repository; where it
is not, a synthetic shop takes its place.
Every ranking and every score must be the same; where sums of fractions were added in another order,
up to their last digits, so that items that are equal up to these may change places. Times are
processor times of one thread, on which other programs on the machine have little influence.

    python benchmarks/baselines.py [--transitions 5000] [METHOD ...]
"""

from __future__ import annotations

import argparse
import os
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import isclose, sqrt
from pathlib import Path
from time import thread_time
from typing import Any, TypeAlias

import numpy as np

from nextclick.baselines.context_tree import ContextTreeSettings
from nextclick.baselines.item_knn import ItemKNNSettings
from nextclick.baselines.session_knn import SessionKNNSettings
from nextclick.clicks import Contexts, Transitions
from nextclick.datasets import PreparedData, ShopSettings, prepare, synthetic_shop
from nextclick.methods import create
from nextclick.recommender import LEARNING_BATCH, Recommendations, Recommender
from nextclick.runtime import Runtime

Scores: TypeAlias = dict[int, float]
Ranking: TypeAlias = list[tuple[int, float]]
UNIT = 2**32
SAME = 1e-9
"""How much two scores may differ, relatively, that were added up in another order."""

DATA = Path(os.environ.get("NEXTCLICK_DATA", Path(__file__).parents[2] / "shared" / "data"))


def rows(transitions: Transitions) -> Iterator[tuple[int, list[int], int]]:
    """Yield the session, the context and the next item of each transition."""
    sessions = transitions.contexts.sessions.tolist()
    for session, (context, target) in zip(sessions, transitions, strict=True):
        yield session, context.tolist(), int(target)


class Plain(ABC):
    """What one writes first: dictionaries of everything."""

    last_click: dict[int, int]

    @abstractmethod
    def learn(self, transitions: Transitions) -> None:
        """Learn transitions, one after the other."""

    @abstractmethod
    def scores(self, session: int, context: list[int], k: int) -> Scores:
        """Return the scores of all items that might be among the best `k`."""

    def recommend(self, contexts: Contexts, k: int = 20) -> list[Ranking]:
        """Return the best items and their scores for each context."""
        answers = []
        for session, context in zip(contexts.sessions.tolist(), contexts, strict=True):
            scores = self.scores(session, context.tolist(), k)
            best = sorted(scores, key=lambda item: (-scores[item], -self.last_click[item]))
            answers.append([(item, scores[item]) for item in best[:k]])
        return answers


class PlainSessionKNN(Plain):
    """What one writes first: a set of items per session, a dictionary of sessions per item."""

    def __init__(self, settings: SessionKNNSettings) -> None:
        self.settings = settings
        self.items_of: dict[int, set[int]] = defaultdict(set)
        self.sessions_of: dict[int, dict[int, int]] = defaultdict(dict)
        self.last_click: dict[int, int] = {}
        self.clock = 0

    def learn(self, transitions: Transitions) -> None:
        """Put the clicks of each transition into its session."""
        for session, context, target in rows(transitions):
            for item in [*context, target]:
                if item not in self.items_of[session]:
                    self.items_of[session].add(item)
                    self.sessions_of[item][session] = self.last_click[item] = self.clock
                    self.clock += 1

    def scores(self, session: int, context: list[int], k: int) -> Scores:  # noqa: ARG002 - as all
        """Return the shares of all votes."""
        context = [item for item in context if item in self.sessions_of]
        sums: dict[int, int] = defaultdict(int)
        emphasis = self.settings.emphasis if self.settings.kind == "s-sknn" else 0.0
        for similarity, shared, items in self._nearest(session, context):
            position = max(i + 1 for i, item in enumerate(context) if item in shared)
            vote = int(similarity * (position / len(context)) ** emphasis + 0.5)
            for item in items:
                sums[item] += vote
        total = sum(sums.values())
        return {item: votes / total for item, votes in sums.items()}

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


class PlainItemKNN(Plain):
    """A dictionary of companions for each item."""

    def __init__(self, settings: ItemKNNSettings) -> None:
        self.regularization = settings.regularization
        self.items_of: dict[int, list[int]] = defaultdict(list)
        self.together: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        self.n_sessions: dict[int, int] = defaultdict(int)
        self.last_click: dict[int, int] = {}
        self.clock = 0

    def learn(self, transitions: Transitions) -> None:
        """Count each item that is new in its session together with those before it."""
        for session, context, target in rows(transitions):
            items = self.items_of[session]
            for item in [*context, target]:
                if item not in items:
                    for other in items[-20:]:
                        self.together[item][other] += 1
                        self.together[other][item] += 1
                    items.append(item)
                    self.n_sessions[item] += 1
                    self.last_click[item] = self.clock
                    self.clock += 1

    def scores(self, session: int, context: list[int], k: int) -> Scores:  # noqa: ARG002 - as all
        """Return the shares of all similarities."""
        last = next((item for item in reversed(context) if item in self.n_sessions), None)
        if last is None:
            return {}
        items = self.items_of.get(session, [])
        place = items.index(last) if last in items else None
        own = set() if place is None else set(items[max(place - 20, 0) : place + 21])
        cosines = {}
        for item, count in self.together.get(last, {}).items():
            here = item in own
            if count > here:
                of_item = self.n_sessions[item] - here + self.regularization
                cosines[item] = (count - here) / sqrt(of_item)
        total = sum(cosines.values())
        return {item: cosine / total for item, cosine in cosines.items()}


class PlainContextTree(Plain):
    """A dictionary of counts, and a weight, for each suffix."""

    def __init__(self, settings: ContextTreeSettings) -> None:
        self.rules = settings
        self.counts: dict[tuple[int, ...], dict[int, int]] = {(): {}}
        self.totals: dict[tuple[int, ...], int] = {(): 0}
        self.weights: dict[tuple[int, ...], float] = {}
        self.last_click: dict[int, int] = {}
        self.n_items = 0
        self.popular: list[int] = []

    def learn(self, transitions: Transitions) -> None:
        """Weigh the experts of each transition's suffixes, and count it with them."""
        for _, context, target in rows(transitions):
            path = self._suffixes(context)
            self.n_items = max(self.n_items, target + 1, *(item + 1 for item in path[-1]))
            mixed = self._expert((), target)
            for suffix in path:
                if suffix in self.weights:
                    alone, weight = self._expert(suffix, target), self.weights[suffix]
                    mixed = weight * alone + (1 - weight) * mixed
                    weight *= alone / mixed
                    least = self.rules.least
                    self.weights[suffix] = min(max(weight, least), 1 - least)
                else:
                    self.weights[suffix] = self.rules.decay ** len(suffix)
                    self.counts[suffix], self.totals[suffix] = {}, 0
            for suffix in [(), *path]:
                self.counts[suffix][target] = self.counts[suffix].get(target, 0) + 1
                self.totals[suffix] += 1
            self.last_click[target] = self.totals[()]
        counts = self.counts[()]
        self.popular = sorted(counts, key=lambda item: -counts[item])

    def scores(self, session: int, context: list[int], k: int) -> Scores:  # noqa: ARG002 - as all
        """Return the probabilities of what followed the last click, and of what is popular."""
        context = [item for item in context if item < self.n_items]
        path = [suffix for suffix in self._suffixes(context) if suffix in self.weights]
        candidates = set(self.counts[path[0]]) if path else set()
        counts, enough = self.counts[()], k + len(candidates)
        for place, item in enumerate(self.popular):
            if place >= enough and counts[item] < counts[self.popular[place - 1]]:
                break
            candidates.add(item)
        scores = {}
        for item in candidates:
            mixed = self._expert((), item)
            for suffix in path:
                weight = self.weights[suffix]
                mixed = weight * self._expert(suffix, item) + (1 - weight) * mixed
            scores[item] = mixed
        return scores

    def _suffixes(self, context: list[int]) -> list[tuple[int, ...]]:
        longest = min(len(context), self.rules.depth)
        return [tuple(context[len(context) - n :]) for n in range(1, longest + 1)]

    def _expert(self, suffix: tuple[int, ...], item: int) -> float:
        smoothing = self.rules.smoothing
        count = self.counts[suffix].get(item, 0) + smoothing / self.n_items
        return count / (self.totals[suffix] + smoothing)


PLAIN: Mapping[str, Any] = {
    "sknn": PlainSessionKNN,
    "s-sknn": PlainSessionKNN,
    "item-knn": PlainItemKNN,
    "ct": PlainContextTree,
}


def main() -> None:
    """Run each method and its plain version, compare every answer, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("methods", nargs="*", metavar="METHOD", help=f"of {', '.join(PLAIN)}")
    parser.add_argument("--transitions", type=int, default=5000)
    given = parser.parse_args()
    if unknown := set(given.methods) - set(PLAIN):
        parser.error(f"no plain version of {', '.join(unknown)}; there are {', '.join(PLAIN)}")
    real = (DATA / "diginetica").is_dir()
    made = ShopSettings(sessions=60_000)
    data = prepare(DATA / "diginetica") if real else synthetic_shop(made)
    print("DIGINETICA" if real else "a synthetic shop of 60,000 sessions")
    test = data.test.transitions()[: given.transitions]
    for method in given.methods or PLAIN:
        _benchmark(method, data, test)


def _benchmark(method: str, data: PreparedData, test: Transitions) -> None:
    runtime = Runtime(threads=1, show_progress=False)
    # Compiling, or loading what was compiled before, is done on a model that is thrown away.
    _ = create(method, runtime=runtime).fit(data.validation).recommend(test[:1].contexts)
    fast = create(method, runtime=runtime)
    started = thread_time()
    fast.fit(data.train, validation=data.validation)
    fast_fit = thread_time() - started
    plain = PLAIN[method](fast.settings)
    started = thread_time()
    plain.learn(data.train.transitions())
    plain.learn(data.validation.transitions())
    plain_fit = thread_time() - started

    alone = _seconds_alone(fast, test)
    answers, *fast_times = _run(fast, test)
    rankings, *plain_times = _run(plain, test)
    compared, tied = _compare(answers, rankings)

    print(f"{fast.label}: {compared:,} rankings, all equal ({tied} places tied up to rounding)")
    print(f"{'':34}{'nextclick':>12}{'plain':>12}{'ratio':>9}")
    _print_row("learning what came before, s", fast_fit, plain_fit)
    _print_row("a recommendation, µs (median)", fast_times[0], plain_times[0])
    _print_row("a transition learned, µs (median)", fast_times[1], plain_times[1])
    print(f"{'one call for one context, µs':34}{alone:12.2f}", flush=True)


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


def _compare(answers: list[Recommendations], rankings: list[list[Ranking]]) -> tuple[int, int]:
    """Refuse two answers that differ; return how many were compared, and the places in a tie.

    Contexts without a known item are left out: for these nextclick recommends what is popular.
    """
    compared = tied = 0
    for answer, expected in zip(answers, rankings, strict=True):
        for row in np.flatnonzero(~answer.cold).tolist():
            pairs = zip(answer.items[row].tolist(), answer.scores[row].tolist(), strict=True)
            got = [(item, score) for item, score in pairs if item >= 0]
            theirs = dict(expected[row])
            last = expected[row][-1][1] if expected[row] else 0.0
            assert len(got) == len(expected[row]), f"{got} is not {expected[row]}"
            for (item, score), (other, value) in zip(got, expected[row], strict=True):
                # Of a tie for the last place the one may have this item, and the other that.
                same = item == other or isclose(theirs.get(item, last), value, rel_tol=SAME)
                same &= isclose(score, value, rel_tol=SAME)
                assert same, f"{got} is not {expected[row]}"
                tied += item != other
            compared += 1
    return compared, tied


def _seconds_alone(model: Recommender, test: Transitions) -> float:
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
