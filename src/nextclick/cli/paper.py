"""`nextclick paper`: every table and figure of the paper, on the data that it used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nextclick.cli.options import Seed, Threads, runtime_of
from nextclick.cli.output import AsJson, print_json, print_table, printable, seconds
from nextclick.cli.settings import SettingsFile

if TYPE_CHECKING:
    from nextclick.experiments.report import Figure, Table, Text
    from nextclick.experiments.schedule import Done
    from nextclick.experiments.study import Study

EXAMPLE = """\b
Examples:
  nextclick paper diginetica --data ../shared/data/diginetica --workers 2
  nextclick paper diginetica --only man-narm --only learning-rate
  nextclick paper yoochoose --quick
"""

FAILED = 1
INTERRUPTED = 130
WIDTH = 80


def paper(
    data_set: Annotated[
        Literal["diginetica", "yoochoose"], typer.Argument(metavar="DATA", help="Which data set.")
    ],
    *,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Its period files; if not given, data/DATA."),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where to write the two reports.")
    ] = Path("nextclick-paper"),
    cache: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where results are kept; the user's cache by default."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="CELL", help="Compute this cell or group only; repeatable."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Everything on a twentieth of the sessions.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Test on the first N clicks only.")
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, metavar="N", help="Processes that compute, with one thread each.")
    ] = 1,
    list_: Annotated[
        bool, typer.Option("--list", help="List the cells and whether each is there; no more.")
    ] = False,
    as_is: Annotated[
        bool, typer.Option("--as-is", help="Compute nothing; report what is there.")
    ] = False,
    seed: Seed = 0,
    threads: Threads = None,
    file: SettingsFile = None,  # noqa: ARG001 - its callback does all there is to do
    as_json: AsJson = False,
) -> None:
    """Repeat the evaluation of the MAN paper, and report it beside the paper.

    Every result is kept as soon as it is there: the same command goes on where it was
    interrupted, and is instant when all is there. The last lines name the reports.
    """
    from nextclick.experiments import paper as experiment
    from nextclick.experiments.plan import chosen
    from nextclick.experiments.store import Store, default_store

    request = experiment.Request(data_set, data, quick=quick, limit=limit, seed=seed)
    wanted = chosen(request.cells(), only) if only else request.cells()
    runtime = runtime_of(seed=seed, threads=threads)
    study = experiment.open_study(request, Store(cache or default_store()), runtime)
    jobs = experiment.left(study, wanted)
    if list_:
        _list(study, list(wanted), as_json=as_json)
        return
    errors = {}
    if not as_is:
        try:
            errors = experiment.run(jobs, study, workers, runtime, _tell)
        except KeyboardInterrupt:
            typer.echo("what is done is kept: the same command goes on from there", err=True)
            raise typer.Exit(INTERRUPTED) from None
    parts = experiment.contents(study)
    files = experiment.write(study, parts, out)
    if as_json:
        print_json(_summary(study, list(wanted), files, errors))
    else:
        if only:
            _list(study, list(wanted), as_json=False)
        else:
            for part in parts:
                show(part)
        typer.echo("The reports:")
        for path in files:
            typer.echo(path)
    if errors:
        for name, error in errors.items():
            typer.echo(f"error: {name}: {error}", err=True)
        raise typer.Exit(FAILED)


def show(part: Text | Table | Figure) -> None:
    """Print a part of a report; a table that is too wide in pieces, a figure not at all."""
    from textwrap import fill

    from nextclick.experiments.report import Figure, Text

    if isinstance(part, Figure):
        return
    if isinstance(part, Text):
        typer.echo(f"\n{part.title}\n")
        for text in part.paragraphs:
            typer.echo(fill(printable(text), WIDTH, subsequent_indent="  "))
        return
    for piece, columns in enumerate(_pieces(part)):
        heading = [_heading(part, column) for column in columns]
        print_table(
            heading,
            [[row[column] for column in columns] for row in part.rows],
            title=part.title if piece == 0 else None,
            text_columns=part.text_columns,
        )
    if part.note:
        typer.echo(fill(printable(part.note), WIDTH))


def _pieces(table: Table) -> list[list[int]]:
    """Return the columns of pieces that fit: those of text in each, a group's together if it can.

    Examples
    --------
    >>> from nextclick.experiments.report import Table
    >>> wide = Table("", ["a", *"bcde"], [["1" * 30] * 5], groups=["", "x", "x", "y", "y"])
    >>> _pieces(wide)
    [[0, 1], [0, 2], [0, 3], [0, 4]]
    """
    texts = list(range(table.text_columns))
    widths = [
        2
        + max(
            [len(line) for line in _heading(table, n).split("\n")]
            + [len(row[n]) for row in table.rows]
        )
        for n in range(len(table.columns))
    ]
    room = WIDTH - 1 - sum(widths[: table.text_columns])
    pieces: list[list[int]] = [[]]
    for group in _groups(table):
        taken = sum(widths[n] for n in pieces[-1])
        if pieces[-1] and taken + sum(widths[n] for n in group) > room:
            pieces.append([])
        for column in group:
            if pieces[-1] and sum(widths[n] for n in [*pieces[-1], column]) > room:
                pieces.append([])
            pieces[-1].append(column)
    return [texts + piece for piece in pieces]


def _groups(table: Table) -> list[list[int]]:
    groups: list[list[int]] = []
    names = table.groups or [""] * len(table.columns)
    for column in range(table.text_columns, len(table.columns)):
        alike = names[column] and column > table.text_columns
        if alike and names[column] == names[column - 1]:
            groups[-1].append(column)
        else:
            groups.append([column])
    return groups


def _heading(table: Table, column: int) -> str:
    if not any(table.groups):
        return table.columns[column]
    first = table.groups[column] != table.groups[column - 1] if column else True
    # A group's name may be wider than a figure: it is broken at spaces.
    group = table.groups[column] if first else ""
    return f"{group.replace(' ', chr(10)) if len(group) > 8 else group}\n{table.columns[column]}"


def _tell(done: Done, n_done: int, n_jobs: int) -> None:
    said = "failed" if done.error else seconds(done.seconds)
    typer.echo(f"[{n_done}/{n_jobs}] {done.job.name}: {said}", err=True)


def _list(study: Study, names: Sequence[str], *, as_json: bool) -> None:
    rows = []
    for name in names:
        figures = study.figures(name)
        rows.append(
            [name, *(f"{v:.3f}" for v in figures.values())] if figures else [name, *["…"] * 4]
        )
    if as_json:
        print_json({row[0]: study.figures(row[0]) for row in rows})
        return
    from nextclick.experiments.study import METRICS

    print_table(["cell", *METRICS], rows)


def _summary(
    study: Study, names: Sequence[str], files: Sequence[Path], errors: dict[str, str]
) -> dict[str, object]:
    return {
        "cells": {name: study.figures(name) for name in names},
        "failed": errors,
        "reports": [str(path) for path in files],
    }
