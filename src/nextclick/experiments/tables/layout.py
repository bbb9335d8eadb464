"""How numbers are written, and figures of the paper set beside ours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from nextclick.experiments.report import Table

MISSING = "…"
"""Stands for a result that is not there yet."""

NOT_YET = f"{MISSING}: not yet run."

NONE = "-"
"""Stands for a figure that there is none of."""


def number(value: float | None) -> str:
    """Return a metric as it is read.

    Examples
    --------
    >>> number(0.12345), number(math.nan), number(None)
    ('0.123', '-', '…')
    """
    if value is None:
        return MISSING
    return NONE if math.isnan(value) else f"{value:.3f}"


def signed(value: float | None) -> str:
    """Return a difference of metrics as it is read.

    Examples
    --------
    >>> signed(-0.0004), signed(0.0123)
    ('0.000', '+.012')
    """
    if value is None:
        return MISSING
    if math.isnan(value):
        return NONE
    text = f"{value:+.3f}".replace("0.", ".")
    return "0.000" if text in ("+.000", "-.000") else text


def probability(value: float | None) -> str:
    """Return a p as it is read.

    Examples
    --------
    >>> probability(0.0009995), probability(0.25)
    ('<.001', '0.250')
    """
    if value is None:
        return MISSING
    return "<.001" if value < 0.001 else f"{value:.3f}"


def beside(
    title: str,
    heading: str,
    metrics: Sequence[str],
    rows: Sequence[tuple[str, Sequence[float] | None, Mapping[str, float] | None]],
    note: str = "",
) -> Table:
    """Return a table of the paper's figures, ours, and the difference, metric by metric.

    Parameters
    ----------
    title, note
        What stands above and below.
    heading
        What the rows are.
    metrics
        The metrics, each a group of three columns.
    rows
        The label, the paper's figures if it has any, and ours if they are there yet.
    """
    cells = []
    for label, paper, ours in rows:
        row = [label]
        for place, metric in enumerate(metrics):
            theirs = None if paper is None else paper[place]
            mine = None if ours is None else ours[metric]
            row += [
                NONE if theirs is None else number(theirs),
                number(mine),
                NONE if theirs is None else signed(None if mine is None else mine - theirs),
            ]
        cells.append(row)
    return Table(
        title,
        [heading, *(column for _ in metrics for column in ("paper", "ours", "diff"))],
        cells,
        groups=["", *(metric for metric in metrics for _ in range(3))],
        note=f"{note} {NOT_YET}" if any(MISSING in row for row in cells) else note,
    )


def plain(
    title: str,
    headings: Sequence[str],
    columns: Sequence[str],
    rows: Sequence[tuple[Sequence[str], Mapping[str, float] | None]],
    note: str = "",
    *,
    emphasise: bool = True,
) -> Table:
    """Return a table of metrics, a row for each of some results.

    Parameters
    ----------
    title, note
        What stands above and below.
    headings
        What stands over the columns of text.
    columns
        The metrics.
    rows
        What names each row, and its metrics by name, if they are there yet.
    emphasise
        Whether the best of each column is to stand out.
    """
    cells = [
        [*names, *(number(None if values is None else values[column]) for column in columns)]
        for names, values in rows
    ]
    strong = set()
    for column in range(len(headings), len(headings) + len(columns)):
        shown = [row[column] for row in cells if row[column] not in (MISSING, NONE)]
        if emphasise and len(shown) > 1:
            best = max(shown, key=float)
            strong |= {(n, column) for n, row in enumerate(cells) if row[column] == best}
    return Table(
        title,
        [*headings, *columns],
        cells,
        strong=frozenset(strong),
        text_columns=len(headings),
        note=f"{note} {NOT_YET}".strip() if any(MISSING in row for row in cells) else note,
    )
