"""Table 7: how long training takes, and an answer; and how long each part of this run took."""

from __future__ import annotations

from nextclick.experiments.report import Table
from nextclick.experiments.rows import PLUS
from nextclick.experiments.study import Study
from nextclick.experiments.tables.layout import MISSING, NOT_YET

TIMED = {"narm-letter": "NARM", "man-narm": "MAN-NARM", "narm": "", f"{PLUS}narm": ""}
"""The rows, and which of the paper's each compares with."""


def parts(study: Study) -> list[Table]:
    """Return the times of the paper and ours, and of every row."""
    return [_beside(study), _all(study)]


def _beside(study: Study) -> Table:
    paper = study.paper["times"][study.data_set]
    rows = []
    for name, theirs in TIMED.items():
        place = {"NARM": 0, "MAN-NARM": 1}.get(theirs)
        minutes, milliseconds = _times(study, name)
        rows.append(
            [
                study.label(name),
                "-" if place is None else f"{paper['minutes'][place]:.1f}",
                MISSING if minutes is None else f"{minutes:.1f}",
                "-" if place is None else f"{paper['milliseconds'][place]:.1f}",
                MISSING if milliseconds is None else f"{milliseconds:.2f}",
            ]
        )
    incomplete = any(MISSING in row for row in rows)
    note = (
        "Training: the network and, of MAN, the memory and the gate, learning the validation part "
        "included. An answer: one context at a time, the mean over 100. The paper's on a GPU, ours "
        "on this CPU, with as many processes at work as the run was given."
    )
    return Table(
        "7. Time",
        ["method", "paper", "ours", "paper", "ours"],
        rows,
        groups=["", *["training, minutes"] * 2, *["an answer, ms"] * 2],
        note=f"{note} {NOT_YET}" if incomplete else note,
    )


def _times(study: Study, name: str) -> tuple[float | None, float | None]:
    outcome, network = study.outcomes.get(name), study.network_facts(name)
    if outcome is None:
        return None, None
    seconds = outcome.facts["seconds"]["building"] + (network["seconds"] if network else 0.0)
    return seconds / 60, 1000 * outcome.facts["answer_seconds"]


def _all(study: Study) -> Table:
    rows = []
    for row in study.rows:
        outcome, network = study.outcomes.get(row.name), study.network_facts(row.name)
        if outcome is None:
            rows.append([row.label, *[MISSING] * 6])
            continue
        evaluation, seconds = outcome.evaluation, outcome.facts["seconds"]
        rows.append(
            [
                row.label,
                f"{network['seconds']:,.0f}" if network else "-",
                f"{seconds['building']:,.0f}",
                f"{seconds['evaluation']:,.0f}",
                f"{1000 * outcome.facts['answer_seconds']:.3g}",
                f"{1000 * evaluation.seconds_per_recommendation:.3g}",
                f"{1000 * evaluation.seconds_per_learning_step:.3g}",
            ]
        )
    return Table(
        "Time of every row",
        ["method", "network", "building", "test", "alone", "in 100", "a step"],
        rows,
        groups=["", *["seconds"] * 3, *["an answer, ms"] * 2, "ms"],
        note="Rows with the same network share its training. Alone: a context at a time; in 100: "
        "the share of a batch, median; a step: learning a batch of 100, median.",
    )
