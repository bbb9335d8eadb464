"""Whether one method is better than another beyond chance: a paired bootstrap over sessions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nextclick.clicks import Floats, Mask
from nextclick.errors import BadInputError
from nextclick.evaluation.metrics import hits, reciprocal_ranks
from nextclick.evaluation.prequential import Evaluation

RESAMPLES = 2_000
"""How often the sessions are drawn anew: the smallest p that can be told is 2 in this many."""

NOTHING = 1e-12
"""What rounding can make of no difference."""


@dataclass(frozen=True)
class Difference:
    """By how much one method's metric is above another's, and how sure that is.

    Parameters
    ----------
    value
        The difference over all tests.
    low, high
        Where 95 % of the differences of the resamples lie.
    p
        Two-sided: how likely so large a difference is if there is none.
    """

    value: float
    low: float
    high: float
    p: float


def paired_bootstrap(
    one: Evaluation,
    other: Evaluation,
    *,
    where: Mask | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Difference]:
    """Return by how much each metric of `one` is above that of `other`, on the same tests.

    Sessions are drawn with replacement, as many as there are, and each drawn session brings all of
    its tests, for both methods: tests of a session hang together, and hard sessions are hard for
    both.

    Parameters
    ----------
    one, other
        Two evaluations of the same tests.
    where
        Which tests to compare on; all by default.
    resamples
        How often to draw.
    seed
        What the draws are derived from.

    Examples
    --------
    >>> from nextclick.baselines.popularity import Popularity
    >>> from nextclick.clicks import ClickLog
    >>> from nextclick.evaluation.prequential import evaluate
    >>> log = ClickLog.of([(s, (s + n) % 3, 4 * s + n) for s in range(30) for n in range(3)])
    >>> once, again = (evaluate(Popularity().fit(log), log.transitions()) for _ in range(2))
    >>> paired_bootstrap(once, again)["HR@5"]
    Difference(value=0.0, low=0.0, high=0.0, p=1.0)
    """
    _check_paired(one, other)
    chosen = np.ones(len(one), dtype=np.bool_) if where is None else where
    if not chosen.any():
        raise BadInputError("there are no tests to compare two methods on")
    differences = _figures(one)[chosen] - _figures(other)[chosen]
    _, session = np.unique(one.sessions[chosen], return_inverse=True)
    n_sessions = int(session.max()) + 1
    sums = np.zeros((n_sessions, differences.shape[1] + 1))
    np.add.at(sums, session, np.column_stack([differences, np.ones(len(differences))]))
    drawn = _drawn(sums, resamples, np.random.default_rng(seed))
    metrics = _names(one)
    return {
        name: _difference(float(differences[:, column].mean()), drawn[:, column])
        for column, name in enumerate(metrics)
    }


def _drawn(sums: Floats, resamples: int, generator: np.random.Generator) -> Floats:
    """Return the mean differences of each resample; the last column of `sums` counts tests."""
    n_sessions = len(sums)
    means = np.empty((resamples, sums.shape[1] - 1))
    for row in means:
        times = np.bincount(generator.integers(n_sessions, size=n_sessions), minlength=n_sessions)
        totals = times @ sums
        row[:] = totals[:-1] / totals[-1]
    return means


def _difference(value: float, drawn: Floats) -> Difference:
    low, high = np.quantile(drawn, [0.025, 0.975])
    # The difference that was found counts as one of the resamples: no p is zero.
    tail = min(np.count_nonzero(drawn <= NOTHING), np.count_nonzero(drawn >= -NOTHING)) + 1
    return Difference(value, float(low), float(high), min(1.0, 2 * tail / (len(drawn) + 1)))


def _names(evaluation: Evaluation) -> list[str]:
    return [f"{metric}@{k}" for k in evaluation.cutoffs for metric in ("HR", "MRR")]


def _figures(evaluation: Evaluation) -> Floats:
    """Return what each test adds to each metric, a column for each."""
    ranks = evaluation.ranks.astype(np.int64)
    columns = [f(ranks, k) for k in evaluation.cutoffs for f in (hits, reciprocal_ranks)]
    return np.column_stack(columns).astype(np.float64)


def _check_paired(one: Evaluation, other: Evaluation) -> None:
    same = np.array_equal(one.items, other.items) and np.array_equal(one.sessions, other.sessions)
    if not same or one.cutoffs != other.cutoffs:
        raise BadInputError(
            "two methods can be compared only on the same tests, in the same order, with lists of "
            "the same length"
        )
