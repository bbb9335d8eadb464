"""`nextclick tune`: settings of a row, chosen on the validation part."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from nextclick.cli.options import Seed, Threads, runtime_of
from nextclick.cli.output import AsJson, print_json, print_table
from nextclick.cli.settings import SettingsFile

EXAMPLE = """\b
Examples:
  nextclick tune diginetica s-sknn --trials 40 --out s-sknn.toml
  nextclick tune yoochoose narm --data ../shared/data/yoochoose --limit 20000
"""

INTERRUPTED = 130


def tune(
    data_set: Annotated[
        Literal["diginetica", "yoochoose"], typer.Argument(metavar="DATA", help="Which data set.")
    ],
    row: Annotated[
        str, typer.Argument(metavar="ROW", help="A row of `nextclick paper`, such as s-sknn.")
    ],
    *,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Its period files; if not given, data/DATA."),
    ] = None,
    trials: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many trials the study is to have.")
    ] = 30,
    study: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where the study is kept; beside the results."),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where results are kept; the user's cache by default."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Test on the first N clicks only.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the row's settings to this file.")
    ] = None,
    seed: Seed = 0,
    threads: Threads = None,
    file: SettingsFile = None,  # noqa: ARG001 - its callback does all there is to do
    as_json: AsJson = False,
) -> None:
    """Search the settings of a row on the validation part, test by test.

    The test part is not looked at. What is searched in is in the package, in search.toml. The same
    command goes on where it was interrupted.
    """
    from nextclick.datasets.preparing import prepare
    from nextclick.experiments.store import Store, default_store
    from nextclick.experiments.tuning import search_space, to_toml
    from nextclick.experiments.tuning import tune as search
    from nextclick.files import new_file

    search_space(row)  # so that a name that is none is refused before the data are read
    root = cache or default_store()
    runtime = runtime_of(seed=seed, threads=threads)
    prepared = prepare(data or data_set, runtime=runtime)
    try:
        found = search(
            data_set,
            row,
            prepared,
            trials=trials,
            study_file=study or root / "studies" / f"{data_set}-{row}.log",
            store=Store(root),
            runtime=runtime,
            limit=limit,
            tell=_tell,
        )
    except KeyboardInterrupt:
        typer.echo("the trials so far are kept: the same command goes on", err=True)
        raise typer.Exit(INTERRUPTED) from None
    text = to_toml(found.row.model_dump(mode="json", exclude_defaults=True))
    if out is not None:
        with new_file(out) as aside:
            aside.write_text(text, encoding="utf-8")
    if as_json:
        print_json({**found.row.model_dump(mode="json"), "before": found.before})
        return
    print_table(
        ["on the validation part", *found.before],
        [
            ["as the row is", *(f"{value:.4f}" for value in found.before.values())],
            ["the best found", *(f"{value:.4f}" for value in found.after.values())],
        ],
    )
    typer.echo(text if out is None else f"The settings: {out}")


def _tell(number: int, drawn: Mapping[str, object], value: float) -> None:
    shown = ", ".join(
        f"{name} {v:.4g}" if isinstance(v, float) else f"{name} {v}" for name, v in drawn.items()
    )
    typer.echo(f"[{number}] {value:.4f}  {shown}", err=True)
