"""Figure 4: HR@5 over the number of events tested."""

from __future__ import annotations

import numpy as np

from nextclick.evaluation.metrics import hits
from nextclick.evaluation.prequential import Evaluation
from nextclick.experiments.comparison import Result
from nextclick.experiments.figures import hit_rate_over_time
from nextclick.experiments.report import Figure, Table
from nextclick.experiments.study import Study
from nextclick.experiments.tables.layout import MISSING, NOT_YET, number

LINES = {
    "ablation/narm-fixed": "NARM-Fixed",
    "ablation/man-narm-fixed": "MAN-Fixed",
    "narm-letter": "NARM",
    "man-narm": "MAN-NARM",
    "man-plus-narm": "MAN+-NARM",
}
"""The cells, the most important last."""

TENTHS = 10


def parts(study: Study) -> list[Figure | Table]:
    """Return the figure, and its lines in numbers."""
    there = {name: study.evaluation(name) for name in LINES}
    results = [Result(LINES[name], one) for name, one in there.items() if one is not None]
    title = "4. HR@5 over the events tested"
    note = (
        "NARM and MAN-NARM by the letter; MAN+-NARM is this project's recipe. Fixed: the network "
    )
    note += "(and the gate) stay as they were before the test; of MAN-Fixed the memory grows."
    parts: list[Figure | Table] = []
    if results:
        window = max(100, len(results[0].evaluation) // 20)
        figure = hit_rate_over_time(results, window, cutoff=5)
        parts.append(Figure(title, figure, f"Over the {window:,} tests before each point. {note}"))
    return [*parts, _table(title, there, note)]


def _table(title: str, there: dict[str, Evaluation | None], note: str) -> Table:
    longest = max((len(one) for one in there.values() if one is not None), default=0)
    rows = []
    for tenth in range(TENTHS):
        stretch = slice(longest * tenth // TENTHS, longest * (tenth + 1) // TENTHS)
        shown = [_hit_rate(one, stretch) for one in there.values()]
        rows.append([f"{stretch.stop:,}", *shown])
    incomplete = any(MISSING in row for row in rows)
    return Table(
        f"{title}: in numbers",
        ["events", *LINES.values()],
        rows,
        note=f"Each over a tenth of the tests. {note} {NOT_YET if incomplete else ''}".strip(),
    )


def _hit_rate(evaluation: Evaluation | None, stretch: slice) -> str:
    if evaluation is None or stretch.stop > len(evaluation):
        return MISSING
    ranks = evaluation.ranks[stretch].astype(np.int64)
    return number(float(hits(ranks, 5).mean())) if len(ranks) else MISSING
