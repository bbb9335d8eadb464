"""`nextclick recommend`: what a session that clicked these items will want next."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextclick.cli.options import Device, Threads, runtime_of
from nextclick.cli.output import AsJson, print_json, print_table, printable
from nextclick.cli.settings import SettingsFile

if TYPE_CHECKING:
    from nextclick.recommender import Recommended, Recommender

SHOWN = 60
"""How much of an unknown id is repeated."""

EXAMPLE = """\b
Example:
  nextclick recommend model "red shoes" socks -k 5
"""


def recommend(
    model_path: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A model from `nextclick train`.")
    ],
    items: Annotated[
        list[str],
        typer.Argument(metavar="ITEM...", help="The ids of the items clicked, most recent last."),
    ],
    *,
    k: Annotated[int, typer.Option("-k", min=1, help="How many items to recommend.")] = 20,
    threads: Threads = None,
    device: Device = "auto",
    file: SettingsFile = None,  # noqa: ARG001 - its callback does all there is to do
    as_json: AsJson = False,
) -> None:
    """Recommend the next item of a session.

    The table says how much of each score came from the neural part and how much from memory, and
    how many past sessions in memory voted for the item. Ids that begin with a dash go after "--".
    """
    from nextclick import persistence

    model = persistence.load(model_path, runtime_of(threads=threads, device=device))
    _name_unknown(model, items)
    recommended = model.recommend_one(items, k)
    if as_json:
        print_json([asdict(one) for one in recommended])
    else:
        show_recommended(recommended)


def show_recommended(recommended: list[Recommended]) -> None:
    """Print recommendations, with what is known of them."""
    known = {
        name for one in recommended for name, value in asdict(one).items() if value is not None
    }
    columns = [name for name in ("title", "score", "neural", "memory", "sessions") if name in known]
    print_table(
        ["item", *columns],
        [[one.id, *(_cell(getattr(one, name)) for name in columns)] for one in recommended],
        text_columns=1 + ("title" in known),
    )


def _cell(value: str | float | None) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    return "" if value is None else str(value)


def _name_unknown(model: Recommender, items: list[str]) -> None:
    unknown = [item for item in items if item not in model.catalog]
    for item in unknown:
        typer.echo(f"the model does not know '{_short(item)}', and passes it over", err=True)
    if len(unknown) == len(items):
        typer.echo("it knows none of these items, so this is what is popular", err=True)


def _short(id_: str) -> str:
    return printable(id_ if len(id_) <= SHOWN else id_[:SHOWN] + "…")
