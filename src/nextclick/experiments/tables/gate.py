"""Figure 6: what the gate relies on, for old and for new items."""

from __future__ import annotations

import numpy as np

from nextclick.clicks import Mask
from nextclick.evaluation.prequential import Evaluation
from nextclick.experiments.figures import gate_weights
from nextclick.experiments.report import Figure, Table
from nextclick.experiments.rows import PLUS
from nextclick.experiments.study import Study
from nextclick.experiments.tables.layout import MISSING, NOT_YET, number

GATES = ("man-gru4rec", "man-narm", f"{PLUS}gru4rec", f"{PLUS}narm", f"{PLUS}mix")
DRAWN = ("man-narm", f"{PLUS}narm")
QUANTILES = (0.1, 0.5, 0.9)


def parts(study: Study) -> list[Figure | Table]:
    """Return the distributions of two gates, and of all in numbers."""
    figures: list[Figure | Table] = []
    for name in DRAWN:
        evaluation = study.evaluation(name)
        if evaluation is not None:
            label = study.label(name)
            figures.append(Figure(f"6. The gate of {label}", gate_weights(evaluation)))
    rows = []
    for row in study.rows:
        if row.name in GATES:
            rows += _rows(row.label, study.evaluation(row.name))
    note = "The weight of the neural part; the gate cannot see which item comes next."
    incomplete = any(MISSING in row for row in rows)
    table = Table(
        "6. The gate's weight for old and for new next items",
        ["method", "next item", "mean", *(f"{q:.0%} below" for q in QUANTILES), "w < 0.5"],
        rows,
        text_columns=2,
        note=f"{note} {NOT_YET}" if incomplete else note,
    )
    return [*figures, table]


def _rows(label: str, evaluation: Evaluation | None) -> list[list[str]]:
    if evaluation is None:
        return [[label, kind, *[MISSING] * (len(QUANTILES) + 2)] for kind in ("old", "new")]
    return [
        [label, kind, *_figures(evaluation, where)]
        for kind, where in (("old", ~evaluation.new), ("new", evaluation.new))
    ]


def _figures(evaluation: Evaluation, where: Mask) -> list[str]:
    weights = evaluation.weights[where & ~np.isnan(evaluation.weights)].astype(np.float64)
    if not len(weights):
        return ["-"] * (len(QUANTILES) + 2)
    quantiles = np.quantile(weights, QUANTILES).tolist()
    return [
        number(float(weights.mean())),
        *map(number, quantiles),
        f"{np.count_nonzero(weights < 0.5) / len(weights):.1%}",
    ]
