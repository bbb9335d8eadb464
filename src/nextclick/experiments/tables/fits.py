"""How far our figures are from the paper's, and which order of the sessions is nearer to them."""

from __future__ import annotations

from nextclick.experiments.rows import Row
from nextclick.experiments.study import METRICS, Study

SAME = 0.01
"""Distances that differ by less do not tell the orders apart."""

TIME, HASH, ALIKE, UNKNOWN = "time", "item-hash", "both alike", "…"


def distance(paper: list[float], ours: dict[str, float]) -> float:
    """Return the mean distance over the four metrics.

    Examples
    --------
    >>> round(distance([0.1, 0.2, 0.3, 0.4], dict.fromkeys(METRICS, 0.2)), 3)
    0.1
    """
    gaps = [abs(ours[metric] - theirs) for metric, theirs in zip(METRICS, paper, strict=True)]
    return sum(gaps) / len(gaps)


def distances(study: Study, row: Row) -> tuple[float, float] | None:
    """Return how far the paper's row is from ours in time order, and in item-hash order."""
    paper = study.overall(row.paper)
    time, wrong = study.figures(row.name), study.figures(study.in_wrong_order(row.name))
    if paper is None or time is None or wrong is None:
        return None
    return distance(paper, time), distance(paper, wrong)


def fitting(study: Study, row: Row) -> str:
    """Return which order a row of the paper fits: time, item-hash, or both alike."""
    found = distances(study, row)
    if found is None:
        return UNKNOWN
    here, there = found
    if abs(here - there) < SAME:
        return ALIKE
    return TIME if here < there else HASH
