"""Table 2: HR@5 of NARM by its online learning rate."""

from __future__ import annotations

from nextclick.experiments.plan import RATES
from nextclick.experiments.report import Table
from nextclick.experiments.study import Study
from nextclick.experiments.tables.layout import MISSING, NOT_YET, number, signed


def parts(study: Study) -> list[Table]:
    """Return the table of rates."""
    paper = dict(zip(RATES, study.paper["learning_rate"][study.data_set], strict=True))
    rows, tests = [], 0
    for rate in RATES:
        evaluation = study.evaluation(f"learning-rate/{rate}", study.scale.rates)
        ours = None if evaluation is None else evaluation.metrics()["HR@5"]
        tests = max(tests, 0 if evaluation is None else len(evaluation))
        gap = None if ours is None else ours - paper[rate]
        rows.append([rate, number(paper[rate]), number(ours), signed(gap)])
    note = (
        f"NARM by the letter: one Adam for everything. Ours over the first {tests:,} transitions; "
        "at 0 nothing is learned after training, the validation part neither."
    )
    incomplete = any(MISSING in row for row in rows)
    return [
        Table(
            "2. The online learning rate of NARM (HR@5)",
            ["rate", "paper", "ours", "diff"],
            rows,
            note=f"{note} {NOT_YET}" if incomplete else note,
        )
    ]
