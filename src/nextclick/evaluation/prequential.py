"""Test, then learn: every click is predicted before it is learned."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextclick.clicks import ClickLog, Floats, Ints, Mask, Transitions
from nextclick.errors import BadInputError
from nextclick.evaluation.metrics import CUTOFFS, Metrics, hits, metrics_at, ranks_of
from nextclick.evaluation.metrics import reciprocal_ranks as reciprocal
from nextclick.evaluation.slices import frequency_buckets, training_frequencies
from nextclick.recommender import LEARNING_BATCH, PARTS, Recommender, Tested
from nextclick.runtime import Runtime


@dataclass(frozen=True)
class Bucket:
    """The tests whose next items occur `lowest` to `highest` times in the training part."""

    lowest: int
    highest: int
    tests: int
    metrics: Metrics


@dataclass(frozen=True, eq=False)
class Curve:
    """How good recommendations were, over the number of tests so far.

    Parameters
    ----------
    tests
        How many tests had been made at each point of the curve.
    hit_rate, reciprocal_rank
        HR and MRR over all tests up to there.
    recent_hit_rate, recent_reciprocal_rank
        HR and MRR over the last `window` tests up to there.
    window
        How many tests count as recent.
    """

    tests: Ints
    hit_rate: Floats
    reciprocal_rank: Floats
    recent_hit_rate: Floats
    recent_reciprocal_rank: Floats
    window: int


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What came of a prequential evaluation: one entry per test, in the order of the tests.

    Two evaluations on the same transitions are paired test by test, and `sessions` says which tests
    hang together; both are what a paired comparison needs.

    Parameters
    ----------
    ranks
        The next item's position in the list that was recommended, counted from 1; 0 for a miss.
    items, sessions
        The next item, and the session it was clicked in.
    weights
        The gate's weight of the neural part; NaN where there is no gate.
    cold
        True where nothing in the context was known, and what is popular was recommended.
    frequencies
        How often the next item was clicked in the training part, if that was given.
    k
        How many recommendations were asked for.
    batch
        How many tests there were to a batch.
    recommend_seconds, learn_seconds
        The time that each batch took to recommend for, and each learning step took.
    by_part
        The ranks in what each part of the method would have recommended alone, if that was asked.
    """

    ranks: NDArray[np.int16]
    items: Ints
    sessions: Ints
    weights: NDArray[np.float32]
    cold: Mask
    frequencies: Ints | None
    k: int
    batch: int
    recommend_seconds: Floats
    learn_seconds: Floats
    by_part: Mapping[str, NDArray[np.int16]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ranks)

    @property
    def new(self) -> Mask:
        """Which next items are not in the training part (even if they were learned since)."""
        absent: Mask = self._frequencies == 0
        return absent

    @property
    def cutoffs(self) -> tuple[int, ...]:
        """The list lengths that metrics are given at: 5, 20 and `k`, up to `k`."""
        return tuple(sorted({cutoff for cutoff in (*CUTOFFS, self.k) if cutoff <= self.k}))

    def first(self, n: int) -> Evaluation:
        """Return the evaluation as it would be, had it ended after `n` tests.

        What comes later changes nothing about what was before: that is what prequential means.
        """
        batches = -(-n // self.batch)
        return replace(
            self,
            ranks=self.ranks[:n],
            items=self.items[:n],
            sessions=self.sessions[:n],
            weights=self.weights[:n],
            cold=self.cold[:n],
            frequencies=None if self.frequencies is None else self.frequencies[:n],
            recommend_seconds=self.recommend_seconds[:batches],
            learn_seconds=self.learn_seconds[:batches],
            by_part={part: ranks[:n] for part, ranks in self.by_part.items()},
        )

    def metrics(self, where: Mask | None = None) -> Metrics:
        """Return HR and MRR over all tests, or over those for which `where` is true."""
        ranks = self.ranks if where is None else self.ranks[where]
        return metrics_at(ranks.astype(np.int64), self.cutoffs)

    def buckets(self, n_buckets: int = 5) -> list[Bucket]:
        """Return the metrics by how often the next item occurs in the training part."""
        of_test = frequency_buckets(self._frequencies, n_buckets)
        return [self._bucket(of_test == number) for number in np.unique(of_test)]

    def curve(self, *, cutoff: int | None = None, window: int = 5_000, points: int = 200) -> Curve:
        """Return the metrics over the number of tests.

        Parameters
        ----------
        cutoff
            The list length to look at; by default 20, or `k` if that is less.
        window
            How many tests count as recent.
        points
            How many points to give, at most, evenly spaced; the last is at the last test.
        """
        ranks = self.ranks.astype(np.int64)
        cutoff = min(self.k, 20) if cutoff is None else cutoff
        n_points = min(points, len(ranks))
        tests = np.ceil(np.arange(1, n_points + 1) * len(ranks) / max(n_points, 1)).astype(np.int64)
        all_hits, recent_hits = _averages(hits(ranks, cutoff), tests, window)
        all_reciprocal, recent_reciprocal = _averages(reciprocal(ranks, cutoff), tests, window)
        return Curve(tests, all_hits, all_reciprocal, recent_hits, recent_reciprocal, window)

    def mean_weight(self, where: Mask | None = None) -> float:
        """Return the gate's mean weight; NaN where there is no gate."""
        weights = self.weights if where is None else self.weights[where]
        gated = weights[~np.isnan(weights)]
        return float(gated.mean(dtype=np.float64)) if len(gated) else math.nan

    @property
    def seconds_per_recommendation(self) -> float:
        """The time a recommendation takes: the median over the batches, each shared out evenly.

        The median, so that what is done once (compiling, filling caches) does not count.
        """
        return _median(self.recommend_seconds / self._batch_sizes)

    @property
    def seconds_per_learning_step(self) -> float:
        """The median time of learning a batch; NaN if nothing was learned."""
        return _median(self.learn_seconds)

    def to_json(self) -> dict[str, Any]:
        """Return the results as what `json.dumps` takes; a value that does not exist is `None`."""
        curve = self.curve()
        report = {
            "tests": len(self),
            "k": self.k,
            "batch": self.batch,
            "metrics": self.metrics(),
            "cold": int(self.cold.sum()),
            "gate_weight": self.mean_weight(),
            "seconds": self._times(),
            "curve": {name: _listed(value) for name, value in vars(curve).items()},
        }
        if self.frequencies is not None:
            report["new"] = self._new_items()
            report["buckets"] = [vars(bucket) for bucket in self.buckets()]
        return dict(_without_nan(report))

    @property
    def _frequencies(self) -> Ints:
        if self.frequencies is None:
            raise BadInputError(
                "this evaluation was not told what the training part is; give evaluate(training=…) "
                "to tell new items from old ones"
            )
        return self.frequencies

    @property
    def _batch_sizes(self) -> Ints:
        starts = np.arange(0, len(self), self.batch)
        return np.minimum(starts + self.batch, len(self)) - starts

    def _bucket(self, where: Mask) -> Bucket:
        inside = self._frequencies[where]
        return Bucket(int(inside.min()), int(inside.max()), len(inside), self.metrics(where))

    def _times(self) -> dict[str, float]:
        return {
            "recommending": float(self.recommend_seconds.sum()),
            "learning": float(self.learn_seconds.sum()),
            "per_recommendation": self.seconds_per_recommendation,
            "per_learning_step": self.seconds_per_learning_step,
        }

    def _new_items(self) -> dict[str, Any]:
        return {
            "tests": int(self.new.sum()),
            "metrics": self.metrics(self.new),
            "gate_weight": self.mean_weight(self.new),
            "gate_weight_of_others": self.mean_weight(~self.new),
        }


def evaluate(
    model: Recommender,
    transitions: Transitions,
    *,
    training: ClickLog | None = None,
    parts: Collection[str] | None = None,
    batch: int = LEARNING_BATCH,
    write: int | None = None,
    k: int = 20,
    limit: int | None = None,
    by_part: bool = False,
    after: Callable[[Ints], None] | None = None,
    runtime: Runtime | None = None,
) -> Evaluation:
    """Predict every transition before it is learned, in time order, in batches.

    For each batch the model recommends for all contexts, is scored, and then learns the batch. The
    model is changed by it; evaluate a `clone` to keep the original.

    Parameters
    ----------
    model
        A fitted recommender.
    transitions
        What happened after the model's training, in time order.
    training
        The training part, by which next items are called new or old and put into buckets. Items of
        a validation part that the model has learned remain new.
    parts
        Which of the model's parts learn: all by default; none at all, if empty, which evaluates
        the model as it is.
    batch
        How many transitions are tested before they are learned, together.
    write
        How many of a batch are tested before these are remembered (written to the memory, say),
        ahead of the gradient step on the batch; by default the whole batch. A service remembers
        each click at once: 1.
    k
        How many recommendations to ask for.
    limit
        Evaluate on the first `limit` transitions only.
    by_part
        Whether to rank also what each part of the method would have recommended alone.
    after
        Called after each batch was learned, with the ranks of all tests so far.
    runtime
        Whether to show progress; the model's own by default.

    Examples
    --------
    >>> from nextclick.baselines.popularity import Popularity
    >>> training = ClickLog.of([(0, 0, 1), (0, 1, 2), (1, 0, 3)])
    >>> test = ClickLog.of([(2, 1, 4), (2, 0, 5), (2, 5, 6), (2, 5, 7)])
    >>> model = Popularity().fit(training)
    >>> result = evaluate(model, test.transitions(), training=training, batch=1)
    >>> result.ranks.tolist()
    [1, 0, 3]
    >>> result.metrics(result.new)["HR@5"]
    0.5
    """
    _check(parts, batch, write, limit)
    transitions = transitions[:limit]
    n = len(transitions)
    ranks = np.zeros(n, dtype=np.int16)
    weights = np.full(n, np.nan, dtype=np.float32)
    cold = np.zeros(n, dtype=np.bool_)
    alone: dict[str, NDArray[np.int16]] = {}
    recommending: list[float] = []
    learning: list[float] = []
    runtime = model.runtime if runtime is None else runtime
    learns = parts is None or len(parts) > 0
    n_hits = tested = 0
    with runtime.progress(f"Evaluating {model.label}", n) as advance:
        for learned in transitions.batches(batch):
            moments: list[Tested] = []
            recommending.append(0.0)
            learning.append(0.0)
            for piece in learned.batches(write or batch):
                started = perf_counter()
                # What learns, and what is asked part by part, has to be tested; for the rest, the
                # lessons would be made in vain.
                tests = learns or by_part
                moment = model.test(piece, k, by_part=by_part) if tests else None
                answer = moment.recommendations if moment else model.recommend(piece.contexts, k)
                recommending[-1] += perf_counter() - started

                now = slice(tested, tested + len(piece))
                tested = now.stop
                ranks[now] = ranks_of(piece.items, answer.items)
                weights[now], cold[now] = answer.weights, answer.cold

                for part, items in moment.by_part.items() if moment else ():
                    ranks_alone = alone.setdefault(part, np.zeros(n, dtype=np.int16))
                    ranks_alone[now] = ranks_of(piece.items, items)

                if moment and learns:
                    started = perf_counter()
                    model.remember(piece, moment, parts=parts)
                    learning[-1] += perf_counter() - started
                    moments.append(moment)
            if learns:
                started = perf_counter()
                model.step(learned, moments, parts=parts)
                learning[-1] += perf_counter() - started
            n_hits += int(np.count_nonzero(ranks[tested - len(learned) : tested]))
            advance(len(learned), f"HR@{k} {n_hits / tested:.3f}")
            if after:
                after(ranks[:tested].astype(np.int64))
    items = transitions.items
    return Evaluation(
        ranks=ranks,
        items=items,
        sessions=transitions.contexts.sessions,
        weights=weights,
        cold=cold,
        frequencies=None if training is None else training_frequencies(items, training),
        k=k,
        batch=batch,
        recommend_seconds=np.array(recommending),
        learn_seconds=np.array(learning if learns else []),
        by_part=alone,
    )


def _check(parts: Collection[str] | None, batch: int, write: int | None, limit: int | None) -> None:
    unknown = set(parts or ()) - set(PARTS)
    if unknown:
        raise BadInputError(
            f"no part is called {', '.join(sorted(map(repr, unknown)))}; "
            f"what can learn is {', '.join(PARTS)}"
        )
    if batch < 1:
        raise BadInputError(f"batch is {batch}; there is at least one transition to a batch")
    if write is not None and not 1 <= write <= batch:
        raise BadInputError(f"write is {write}; remember 1 to {batch} (the whole batch) at a time")
    if limit is not None and limit < 1:
        raise BadInputError(f"limit is {limit}; evaluate on at least one transition")


def _averages(values: Floats | Mask, tests: Ints, window: int) -> tuple[Floats, Floats]:
    """Return the averages of the first `tests` values, and of the last `window` of these."""
    sums = np.concatenate([np.zeros(1), np.cumsum(values, dtype=np.float64)])
    before = np.maximum(tests - window, 0)
    return sums[tests] / tests, (sums[tests] - sums[before]) / (tests - before)


def _median(values: Floats) -> float:
    return float(np.median(values)) if len(values) else math.nan


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _without_nan(value: Any) -> Any:
    """Return the same with `None` for NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {name: _without_nan(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and math.isnan(value) else value
