"""`nextclick evaluate`: how good a model is on the clicks that came after its training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nextclick.cli.options import Device, Threads, runtime_of
from nextclick.cli.output import AsJson, print_facts, print_json, print_table, seconds, share
from nextclick.cli.settings import SettingsFile
from nextclick.errors import BadInputError

if TYPE_CHECKING:
    from nextclick.clicks import Mask
    from nextclick.evaluation.prequential import Evaluation
    from nextclick.recommender import Recommender

EXAMPLE = """\b
Examples:
  nextclick evaluate model shop --out result.json
  nextclick evaluate model shop --update memory --limit 20000 --json
"""


def evaluate(
    model_path: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A model from `nextclick train`.")
    ],
    data: Annotated[
        Path, typer.Argument(metavar="DIR", help="Data from `nextclick data prepare`.")
    ],
    *,
    update: Annotated[
        str, typer.Option(help="What learns: all, none, or some of neural,gate,memory.")
    ] = "all",
    batch: Annotated[
        int, typer.Option(min=1, help="How many clicks are tested before they are learned.")
    ] = 100,
    write_every: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Write to the memory after every N clicks; else a batch at once.",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Test on the first N clicks only.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the results to this JSON file.")
    ] = None,
    threads: Threads = None,
    device: Device = "auto",
    file: SettingsFile = None,  # noqa: ARG001 - its callback does all there is to do
    as_json: AsJson = False,
) -> None:
    """Evaluate a model on the clicks that came after its training.

    Those are the test part of prepared data. Every click is predicted before it is learned, in time
    order. The model on disk stays as it is.
    """
    from nextclick import persistence
    from nextclick.datasets.prepared import PreparedData
    from nextclick.experiments.runs import evaluate_on, parts_named, record

    if out is not None and out.is_dir():
        raise BadInputError(f"{out} is a directory; give the name of a file")
    model = persistence.load(model_path, runtime_of(threads=threads, device=device))
    parts = parts_named(update, model)
    prepared = PreparedData.load(data)
    evaluation = evaluate_on(
        prepared, model, parts=parts, batch=batch, write=write_every, limit=limit
    )
    result = record(evaluation, model, prepared, parts=parts, write=write_every, limit=limit)
    if out is not None:
        _write(result, out)
    if as_json:
        print_json(result)
    else:
        _show(evaluation, model, parts, out)


def _write(result: dict[str, Any], out: Path) -> None:
    from nextclick.files import new_file

    with new_file(out) as aside:
        aside.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _show(
    evaluation: Evaluation, model: Recommender, parts: tuple[str, ...], out: Path | None
) -> None:
    print_table(
        [f"Next items of {model.label}", "tests", *evaluation.metrics()],
        [
            _row("all", evaluation, ~evaluation.new | evaluation.new),
            _row("new (not in the training part)", evaluation, evaluation.new),
        ],
    )
    facts = {
        "learning": " ".join(parts) or "nothing",
        "a recommendation": seconds(evaluation.seconds_per_recommendation),
    }
    if parts:
        facts["a learning step"] = seconds(evaluation.seconds_per_learning_step)
    if out is not None:
        facts["results"] = str(out)
    print_facts(facts)


def _row(name: str, evaluation: Evaluation, where: Mask) -> list[str]:
    metrics = evaluation.metrics(where)
    return [name, f"{where.sum():,}", *map(share, metrics.values())]
