"""Beyond the paper's tables: GRU4Rec by the three losses, on the validation and the test part."""

from __future__ import annotations

from nextclick.experiments.plan import LOSSES
from nextclick.experiments.report import Table
from nextclick.experiments.study import METRICS, Study
from nextclick.experiments.tables.layout import plain

JUDGED_BY = "HR@5"
"""What the paper tunes by."""


def parts(study: Study) -> list[Table]:
    """Return the table, and say which loss validation prefers, and which the row uses."""
    rows = []
    for loss in LOSSES:
        for part in ("validation", "test"):
            name = f"loss/{loss}" + ("-validation" if part == "validation" else "")
            rows.append(([loss, part], study.figures(name)))
    used = study.cells["gru4rec"].settings["training"]["loss"]["kind"]
    on_validation = {loss: study.figures(f"loss/{loss}-validation") for loss in LOSSES}
    known = {loss: values[JUDGED_BY] for loss, values in on_validation.items() if values}
    said = ""
    if len(known) == len(LOSSES):
        best = max(known, key=known.__getitem__)
        said = f" The validation part prefers {best} in {JUDGED_BY}"
        said += "." if best == used else f", so the row GRU4Rec, which uses {used}, is to change."
    return [
        plain(
            "GRU4Rec by three losses",
            ["trained with", "part"],
            METRICS,
            rows,
            "TOP1-max and BPR-max rank against the batch's items and extra items sampled by "
            "popularity, with inner products for scores, which suit them better than cosines; they "
            "give no probabilities, which a temperature fitted to the validation part makes of "
            f"their scores. Online all go on with cross-entropy.{said}",
            emphasise=False,
        )
    ]
