"""`nextclick demo`: the main job on an embedded default."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nextclick.cli.options import Device, Seed, Threads, runtime_of
from nextclick.cli.output import AsJson, print_json, print_table, printable
from nextclick.cli.recommend import show_recommended
from nextclick.cli.settings import SettingsFile

if TYPE_CHECKING:
    from nextclick.experiments.comparison import Comparison
    from nextclick.experiments.demo import Demo

EXAMPLE = """\b
Example:
  nextclick demo --seed 7 --out my-demo
"""


def demo(
    *,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where to leave the report, the data and the model.")
    ] = Path("nextclick-demo"),
    sessions: Annotated[int, typer.Option(min=1, help="The size of the synthetic shop.")] = 12_000,
    seed: Seed = 0,
    threads: Threads = None,
    device: Device = "auto",
    file: SettingsFile = None,  # noqa: ARG001 - its callback does all there is to do
    as_json: AsJson = False,
) -> None:
    """Make a synthetic shop, compare five methods on it, and write a report.

    Takes a few minutes. The last line names the report, an HTML file.
    """
    from nextclick.experiments.demo import run

    done = run(out, sessions, runtime_of(seed=seed, threads=threads, device=device))
    if as_json:
        print_json(_summary(done))
    else:
        _show(done)


def _show(done: Demo) -> None:
    show_comparison(done.comparison)
    ids = " ".join(_quoted(item.id) for item in done.clicked)
    typer.echo("A session of the test part clicked:")
    for item in done.clicked:
        typer.echo(printable(f"  {item.id}  {item.title or ''}"))
    typer.echo(f"\nWhat {done.results[-1].label} recommends next:")
    show_recommended(done.recommended)
    typer.echo(f"Ask again:  nextclick recommend {done.model} {ids}")
    typer.echo("The report:")
    typer.echo(done.report)


def show_comparison(comparison: Comparison) -> None:
    """Print methods beside each other, the figures for new items in the columns marked so."""
    new = ["new " if group == "new items" else "" for group in comparison.groups]
    headings = [f"{mark}\n{column}" for mark, column in zip(new, comparison.columns, strict=True)]
    print_table(
        ["\nmethod", *headings],
        [
            [label, *cells]
            for label, cells in zip(comparison.labels, comparison.cells(), strict=True)
        ],
    )


def _summary(done: Demo) -> dict[str, Any]:
    return {
        "results": {result.label: result.evaluation.to_json() for result in done.results},
        "report": str(done.report),
        "model": str(done.model),
        "data": str(done.shop),
    }


def _quoted(id_: str) -> str:
    import shlex

    return shlex.quote(printable(id_))
