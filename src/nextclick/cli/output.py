"""What verbs print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def print_json(value: Any) -> None:
    """Print a value as JSON, in ASCII, so that every terminal and every program can read it."""
    typer.echo(json.dumps(value, indent=1))


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str | None = None,
    text_columns: int = 1,
) -> None:
    """Print a table that fits the terminal, or 80 columns where there is none.

    Parameters
    ----------
    columns
        The headings; a line break in one puts it on two lines.
    rows
        The cells, as they are to be shown.
    title
        A line above the table.
    text_columns
        How many of the first columns are text, which is set left and may be cut; the others are
        numbers, set right and never cut.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 0, 0, 1)
    )
    for number, heading in enumerate(columns):
        if number < text_columns:
            table.add_column(heading, overflow="ellipsis", no_wrap=True)
        else:
            table.add_column(heading, justify="right", no_wrap=True, min_width=_width(heading))
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console().print(table)


def print_facts(facts: Mapping[str, str]) -> None:
    """Print names and values, aligned.

    Examples
    --------
    >>> print_facts({"sessions": "12,000", "items": "800"})
    sessions  12,000
    items     800
    """
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        typer.echo(f"{name:{width}}  {printable(value)}")


def printable(text: str) -> str:
    r"""Return text in which nothing can break a line or command the terminal.

    Examples
    --------
    >>> printable("two\nlines, 靴下")
    'two\\nlines, 靴下'
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def seconds(value: float) -> str:
    """Return a time as people write it.

    Examples
    --------
    >>> seconds(0.00123), seconds(2.5), seconds(200)
    ('1.23 ms', '2.5 s', '3 min 20 s')
    """
    if value < 1:
        return f"{1000 * value:.3g} ms"
    if value < 60:
        return f"{value:.3g} s"
    return f"{int(value + 0.5) // 60} min {int(value + 0.5) % 60} s"


def share(value: float) -> str:
    """Return a metric with three digits, or a dash where there is none.

    Examples
    --------
    >>> share(0.1234), share(float("nan"))
    ('0.123', '-')
    """
    return "-" if math.isnan(value) else f"{value:.3f}"


def _width(heading: str) -> int:
    return max(map(len, heading.split("\n")))
