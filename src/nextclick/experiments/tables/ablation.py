"""Table 5: what each part of MAN is worth."""

from __future__ import annotations

from nextclick.experiments.report import Table
from nextclick.experiments.rows import PLUS
from nextclick.experiments.study import METRICS, Study
from nextclick.experiments.tables.layout import beside, plain

VARIANTS = {"": "", "-shallow": "-Shallow", "-50k": "-50k", "-10k": "-10k"}


def parts(study: Study) -> list[Table]:
    """Return the paper's ablation, and the same with all metrics for both recipes."""
    figures = study.paper["ablation"][study.data_set]
    compared = [
        (f"MAN{label}", figures[f"MAN{label}"], study.figures(_cell("man-narm", variant)))
        for variant, label in VARIANTS.items()
    ]
    rows = []
    for recipe, row in (("MAN-NARM", "man-narm"), ("MAN+-NARM", f"{PLUS}narm")):
        for variant, label in {**VARIANTS, "-fixed": "-Fixed"}.items():
            evaluation = study.evaluation(_cell(row, variant))
            values = None
            if evaluation is not None:
                new = evaluation.metrics(evaluation.new)["HR@20"]
                values = evaluation.metrics() | {"new HR@20": new}
            rows.append(([f"{recipe}{label}"], values))
    return [
        beside(
            "5. Ablation",
            "method",
            METRICS[:2],
            compared,
            "MAN-NARM by the paper's recipe; Shallow: one weight for all, tuned on the validation "
            "part; 50k and 10k: a memory of the newest so many entries.",
        ),
        plain(
            "Ablation of both recipes",
            ["method"],
            [*METRICS, "new HR@20"],
            rows,
            "Fixed: network and gate stay as they were before the test, the memory grows.",
        ),
    ]


def _cell(row: str, variant: str) -> str:
    return f"ablation/{row}{variant}" if variant else row
