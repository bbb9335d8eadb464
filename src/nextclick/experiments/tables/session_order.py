"""The second part: sessions in item-hash order, and which order the paper's figures fit."""

from __future__ import annotations

from nextclick.experiments.report import Table, Text
from nextclick.experiments.rows import IN_WRONG_ORDER, PLUS, Row
from nextclick.experiments.study import METRICS, Study
from nextclick.experiments.tables.fits import ALIKE, HASH, TIME, distances, fitting
from nextclick.experiments.tables.layout import beside, number


def parts(study: Study) -> list[Table | Text]:
    """Return the rows in item-hash order, what fits, and what others published for both orders."""
    if "item-hash" not in study.data:
        return []
    rows = [row for row in study.rows if row.name in IN_WRONG_ORDER]
    in_wrong = [
        (row.label, study.overall(row.paper), study.figures(study.in_wrong_order(row.name)))
        for row in rows
    ]
    return [
        Text("Sessions in item-hash order", [WHY]),
        beside(
            "Overall results with sessions in item-hash order",
            "method",
            METRICS,
            in_wrong,
            "Results in this order are to be compared with no others.",
        ),
        _fits(study, [row for row in rows if row.paper]),
        _said(study, [row for row in rows if row.paper]),
        _elsewhere(study),
    ]


WHY = (
    "The raw file of DIGINETICA lists the clicks of a session grouped by item, in one global order "
    "of the items: who forgets to sort them by time hands every order-aware method the answer. The "
    "files used here are in time order and hold no other, so the effect is reproduced by another "
    "global order: in each session the items are sorted by a hash of their ids. Times, sessions "
    "and the split stay as they are."
)


VERDICTS = {
    TIME: "they fit time order",
    HASH: "they fit an order that is not time",
    ALIKE: "the two orders cannot be told apart by it",
}


def _fits(study: Study, rows: list[Row]) -> Table:
    cells = []
    for row in rows:
        paper, found = study.overall(row.paper), distances(study, row)
        time, wrong = study.figures(row.name), study.figures(study.in_wrong_order(row.name))
        here, there = found or (None, None)
        cells.append(
            [
                row.label,
                number(None if paper is None else paper[0]),
                number(None if time is None else time["HR@5"]),
                number(None if wrong is None else wrong["HR@5"]),
                number(here),
                number(there),
                fitting(study, row),
            ]
        )
    return Table(
        "Which order the paper's figures fit",
        ["method", "paper", "time", "hash", "time", "hash", "fits"],
        cells,
        groups=["", *["HR@5"] * 3, *["distance"] * 2, ""],
        note="Distance: the mean over the four metrics of how far ours is from the paper's.",
    )


def _said(study: Study, rows: list[Row]) -> Text:
    lines = []
    for row in rows:
        found = distances(study, row)
        if found is None:
            lines.append(f"{row.label}: not yet run in both orders.")
            continue
        here, there = found
        lines.append(
            f"{row.label}: the paper's figures are {here:.3f} from ours in time order and "
            f"{there:.3f} in item-hash order; {VERDICTS[fitting(study, row)]}."
        )
    best = study.best(plus=True, prefix=study.in_wrong_order(""))
    letter = study.figures(study.in_wrong_order("man-narm"))
    paper = study.overall("MAN-NARM")
    for label, ours in (
        ("MAN-NARM by the paper's recipe", letter),
        (
            best.label if best else f"{PLUS}*",
            study.figures(study.in_wrong_order(best.name)) if best else None,
        ),
    ):
        if ours is not None and paper is not None:
            reached = [m for m, theirs in zip(METRICS, paper, strict=True) if ours[m] >= theirs]
            said = "all four" if len(reached) == len(METRICS) else ", ".join(reached) or "none"
            lines.append(f"{label} in item-hash order reaches the paper's MAN-NARM in: {said}.")
    return Text("Row by row", lines)


def _elsewhere(study: Study) -> Table:
    orders = study.paper["orders"]
    rows = [
        [method, name, *map(number, figures)]
        for method in orders["time"]
        for name, figures in (
            ("time", orders["time"][method]),
            ("raw file", orders["wrong"][method]),
        )
    ]
    return Table(
        "What others published for both orders",
        ["method", "order", *METRICS],
        rows,
        text_columns=2,
        note=f"{orders['source']}: other test parts, to be compared within this table only.",
    )
