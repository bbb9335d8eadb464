"""Table 8: HR@5 in five buckets by how often the next item occurs in the training part."""

from __future__ import annotations

from functools import lru_cache

from nextclick.evaluation.prequential import Bucket, Evaluation
from nextclick.experiments.report import Table
from nextclick.experiments.rows import PLUS
from nextclick.experiments.study import Study
from nextclick.experiments.tables.layout import MISSING, NOT_YET, number, signed

BUCKETS = 5
COMPARED = {"MAN": "man-narm", "NARM": "narm-letter"}


def parts(study: Study) -> list[Table]:
    """Return the paper's table beside ours, and all rows by bucket."""
    return [_beside(study), _all(study)]


def _beside(study: Study) -> Table:
    figures = study.paper["frequency"][study.data_set]
    rows = []
    for bucket in range(BUCKETS):
        cells = [_name(study, bucket)]
        for label, name in COMPARED.items():
            theirs, ours = figures[label][bucket], hit_rate(study, name, bucket)
            gap = None if ours is None else ours - theirs
            cells += [number(theirs), number(ours), signed(gap)]
        rows.append(cells)
    return Table(
        "8. HR@5 by how often the next item occurs in the training part",
        ["clicks there", *["paper", "ours", "diff"] * 2],
        rows,
        groups=["", *["MAN-NARM"] * 3, *["NARM by the letter"] * 3],
        note=f"Buckets of about equal size. {_not_yet(rows)}".strip(),
    )


def _all(study: Study) -> Table:
    rows = [
        [row.label, *(number(hit_rate(study, row.name, bucket)) for bucket in range(BUCKETS))]
        for row in study.rows
    ]
    plus, base = f"{PLUS}narm", "narm"
    gains = []
    for bucket in range(BUCKETS):
        ours, theirs = hit_rate(study, plus, bucket), hit_rate(study, base, bucket)
        gains.append(signed(None if ours is None or theirs is None else ours - theirs))
    label = f"{study.label(plus)} over {study.label(base)}"
    return Table(
        "HR@5 of every row, by the same buckets",
        ["method", *(_name(study, bucket) for bucket in range(BUCKETS))],
        [*rows, [label, *gains]],
        note=_not_yet(rows),
    )


def hit_rate(study: Study, name: str, bucket: int) -> float | None:
    """Return HR@5 in a bucket; `None` if it is not there."""
    evaluation = study.evaluation(name)
    if evaluation is None:
        return None
    buckets = _buckets(evaluation)
    return buckets[bucket].metrics["HR@5"] if bucket < len(buckets) else float("nan")


@lru_cache(maxsize=64)
def _buckets(evaluation: Evaluation) -> list[Bucket]:
    """Return the buckets of an evaluation, which are asked for one by one."""
    return evaluation.buckets(BUCKETS)


def _name(study: Study, bucket: int) -> str:
    for row in study.rows:
        evaluation = study.evaluation(row.name)
        if evaluation is not None:
            buckets = _buckets(evaluation)
            if bucket < len(buckets):
                return f"{buckets[bucket].lowest}-{buckets[bucket].highest}"
    return f"bucket {bucket + 1}"


def _not_yet(rows: list[list[str]]) -> str:
    return NOT_YET if any(MISSING in row for row in rows) else ""
