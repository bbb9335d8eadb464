"""How every figure came to be: settings, deviations, commands, times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from nextclick.experiments.report import Table, Text
from nextclick.experiments.rows import row_settings
from nextclick.experiments.study import Study
from nextclick.experiments.tables.layout import MISSING, NONE

DEVIATIONS = (
    "The networks are trained as this project trains them (cosine scores, one learning-rate cycle "
    "of few epochs), once for every row that uses them; the paper trains for up to 30 epochs in "
    "batches of 512. The rows by the letter follow the paper in all that happens online.",
    "Sessions longer than 20 clicks stay, as the paper's counts include them; contexts are the "
    "last 20 clicks.",
    "The validation part is learned, online, before the test begins, by every method alike.",
    "A context in which nothing is known gets what is popular, from every method alike.",
    "The rank is the place in the list that was recommended; nothing is scored that was not.",
)


def parts(study: Study) -> list[Text | Table]:
    """Return the deviations, where settings come from, and the command and time of each cell."""
    deviations = list(DEVIATIONS)
    if study.data_set == "yoochoose":
        deviations.insert(0, "The paper used another stretch of the same log.")
    return [
        Text("Deviations from the paper", deviations),
        Text(
            "Where the settings come from",
            [
                f"{row.label}: {row_settings(study.data_set, row.name).chosen}."
                for row in study.rows
            ],
        ),
        _networks(study),
        _cells(study),
    ]


def _networks(study: Study) -> Table:
    rows, seen = [], set()
    for name, cell in study.cells.items():
        if cell.network is None:
            continue
        key = cell.network.key(study.fingerprints[cell.order])
        if key in seen:
            continue
        seen.add(key)
        facts = study.network_facts(name)
        rows.append(
            [
                f"{cell.network.encoder['kind']}, {cell.network.training['loss']['kind']}",
                cell.order,
                f"{facts['seconds']:,.0f}" if facts else MISSING,
                _processor(facts),
                f"{facts['threads']}" if facts else MISSING,
                "yes" if facts and facts["resumed"] else "no" if facts else MISSING,
            ]
        )
    return Table(
        "The networks",
        ["network", "order", "seconds", "of a core", "threads", "resumed"],
        rows,
        text_columns=2,
        note="Of a core: the seconds in which it computed, however busy the machine was. Of a "
        "training that was resumed, only the last stretch is counted.",
    )


def _cells(study: Study) -> Table:
    rows = []
    for name in study.cells:
        outcome = study.outcomes.get(name)
        if outcome is None:
            rows.append([name, *[MISSING] * 3])
            continue
        facts = outcome.facts
        seconds = f"{sum(facts['seconds'].values()):,.0f}"
        rows.append([name, f"{len(outcome.evaluation):,}", seconds, _processor(facts)])
    there = len(study.outcomes)
    return Table(
        "Every cell",
        ["cell", "tests", "seconds", "of a core"],
        rows,
        note=f"{there} of {len(study.cells)} are there. Each is computed by: nextclick paper "
        f"{study.data_set} --only CELL, and kept; what is there is not computed again. Cells that "
        f"are the same share one computation. {_in_all(study)}",
    )


def _processor(facts: Mapping[str, Any] | None) -> str:
    """Return the seconds that a core computed, which other work on the machine does not change."""
    if facts is None:
        return MISSING
    return f"{facts['processor_seconds']:,.0f}" if "processor_seconds" in facts else NONE


def _in_all(study: Study) -> str:
    """Return what all that is there took, by the order of the sessions."""
    sums = []
    for order in study.data:
        facts: dict[str, Mapping[str, Any]] = {}
        for name, outcome in study.outcomes.items():
            if study.cells[name].order == order:
                facts[study.key(name)] = outcome.facts
                network = study.network_facts(name)
                if network:
                    facts[str(network["network"])] = network
        sums.append(f"{order} order {sum(map(_seconds, facts.values())) / 60:,.0f} minutes")
    return f"In all, networks included: {', '.join(sums)} of a core."


def _seconds(facts: Mapping[str, Any]) -> float:
    """Return the seconds of a core; those that went by where they were not counted."""
    gone = facts["seconds"]
    known: float = sum(gone.values()) if isinstance(gone, Mapping) else gone
    used: float = facts.get("processor_seconds", known)
    return used


def circumstances(study: Study) -> str:
    """Return versions, seeds, threads and the machine, as far as results are there."""
    facts = [outcome.facts for outcome in study.outcomes.values()]
    if not facts:
        return "Nothing has been run yet."
    versions = facts[0]["versions"]
    same = all(one["versions"] == versions for one in facts)
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    seeds = sorted({one["cell"]["seed"] for one in facts})
    threads = Counter(one["threads"] for one in facts)
    text = f"{named}{'' if same else ' (and others)'}; seed {', '.join(map(str, seeds))}; "
    text += f"{facts[0]['system']}; threads a cell: {', '.join(map(str, sorted(threads)))}."
    return text
