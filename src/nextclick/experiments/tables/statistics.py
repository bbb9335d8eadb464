"""Table 1: what the data consists of."""

from __future__ import annotations

import numpy as np

from nextclick.datasets.prepared import PreparedData
from nextclick.experiments.report import Table
from nextclick.experiments.study import Study


def parts(study: Study) -> list[Table]:
    """Return the table of clicks, sessions and items."""
    data = study.data["time"]
    rows = [
        _row("training", data, ("train",)),
        _row("validation", data, ("validation",)),
        _row("training and validation", data, ("train", "validation")),
        _row("test", data, ("test",)),
    ]
    return [
        Table(
            "1. The data",
            ["part", "sessions", "clicks", "items", "transitions"],
            [*rows, *_published(study)],
            note=f"{data.description.split}. {_new(data)}",
        )
    ]


def _row(name: str, data: PreparedData, parts: tuple[str, ...]) -> list[str]:
    logs = [data.parts[part] for part in parts]
    clicks = sum(len(log) for log in logs)
    sessions = sum(log.n_sessions for log in logs)
    items = np.unique(np.concatenate([log.items for log in logs]))
    return [name, f"{sessions:,}", f"{clicks:,}", f"{len(items):,}", f"{clicks - sessions:,}"]


def _published(study: Study) -> list[list[str]]:
    counts = study.paper["statistics"].get(study.data_set, {})
    return [
        [
            f"the paper: {part}",
            *(f"{row[what]:,}" if what in row else "" for what in ("sessions", "clicks", "items")),
            "",
        ]
        for part, row in counts.items()
    ]


def _new(data: PreparedData) -> str:
    """Say how many test clicks are on items that are new."""
    in_training = np.isin(data.test.items, data.train.items)
    in_either = in_training | np.isin(data.test.items, data.validation.items)
    new, newer = 1 - in_training.mean(), 1 - in_either.mean()
    return (
        f"Of the test clicks {new:.1%} are on items that are not in the training part, "
        f"{newer:.1%} on items that are in neither part before. Every click but a session's first "
        "is a transition, and is tested."
    )
