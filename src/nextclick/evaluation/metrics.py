"""Hit rate and reciprocal rank, from the ranks that the next items had."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from nextclick.clicks import Floats, Ints, Mask

Metrics: TypeAlias = dict[str, float]
"""Values by name (`HR@5`, `MRR@5`, …), in the order of the tables' columns."""

CUTOFFS = (5, 20)
"""The list lengths at which metrics are reported."""


def ranks_of(targets: Ints, recommended: Ints) -> Ints:
    """Return the position of each next item in its list, counted from 1; 0 if it is not there.

    Parameters
    ----------
    targets
        The item that was clicked, one per list; never negative.
    recommended
        The lists, of shape (targets, k), best first, filled up with -1.

    Examples
    --------
    >>> ranks_of(np.array([7, 7, 7]), np.array([[7, 3], [3, 7], [3, -1]])).tolist()
    [1, 2, 0]
    """
    found = recommended == targets[:, None]
    ranks: Ints = np.where(found.any(axis=1), found.argmax(axis=1) + 1, 0)
    return ranks


def hits(ranks: Ints, k: int) -> Mask:
    """Return which of the next items were among the first `k`.

    Examples
    --------
    >>> hits(np.array([0, 1, 5, 6]), 5).tolist()
    [False, True, True, False]
    """
    within: Mask = (ranks > 0) & (ranks <= k)
    return within


def reciprocal_ranks(ranks: Ints, k: int) -> Floats:
    """Return one over each rank, and 0 where the next item was not among the first `k`.

    Examples
    --------
    >>> reciprocal_ranks(np.array([0, 1, 4, 6]), 5).tolist()
    [0.0, 1.0, 0.25, 0.0]
    """
    return np.where(hits(ranks, k), 1.0 / np.maximum(ranks, 1), 0.0)


def rank_counts(ranks: Ints, k: int) -> Ints:
    """Return how many ranks there are of each up to `k`, and under 0 how many misses.

    Examples
    --------
    >>> rank_counts(np.array([0, 1, 4, 6, 1]), 5).tolist()
    [2, 2, 0, 0, 1, 0]
    """
    counts: Ints = np.bincount(np.where(hits(ranks, k), ranks, 0), minlength=k + 1)
    return counts


def hit_rate(counts: Ints) -> float:
    """Return HR of such counts; NaN of none.

    Examples
    --------
    >>> hit_rate(np.array([1, 2, 0, 1]))
    0.75
    """
    n = int(counts.sum())
    return (n - int(counts[0])) / n if n else math.nan


def mean_reciprocal_rank(counts: Ints) -> float:
    """Return MRR of such counts; NaN of none.

    By counts, so that it is the same to the last digit however the ranks were added up: all at once
    here, a few at a time in a service.

    Examples
    --------
    >>> mean_reciprocal_rank(np.array([1, 2, 0, 0, 1]))
    0.5625
    """
    n = int(counts.sum())
    total = math.fsum(count / rank for rank, count in enumerate(counts.tolist()) if rank)
    return total / n if n else math.nan


def metrics_at(ranks: Ints, cutoffs: tuple[int, ...] = CUTOFFS) -> Metrics:
    """Return HR@k and MRR@k for each cutoff `k`; NaN if there is nothing to average.

    Examples
    --------
    >>> metrics_at(np.array([0, 1, 4, 10]))
    {'HR@5': 0.5, 'MRR@5': 0.3125, 'HR@20': 0.75, 'MRR@20': 0.3375}
    """
    metrics = {}
    for k in cutoffs:
        counts = rank_counts(ranks, k)
        metrics[f"HR@{k}"], metrics[f"MRR@{k}"] = hit_rate(counts), mean_reciprocal_rank(counts)
    return metrics
