"""`nextclick train`: from prepared data to a model."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from nextclick.cli.options import Device, Seed, Threads, runtime_of
from nextclick.cli.output import AsJson, print_facts, print_json, seconds
from nextclick.cli.settings import MethodSettingsFile, nested
from nextclick.errors import BadInputError

if TYPE_CHECKING:
    from nextclick.datasets.prepared import PreparedData
    from nextclick.recommender import Recommender
    from nextclick.runtime import Runtime

MethodName = Literal[
    "man",
    "man-mix",
    "narm",
    "gru4rec",
    "s-sknn",
    "sknn",
    "v-sknn",
    "stan",
    "vstan",
    "item-knn",
    "ct",
    "popularity",
]

EXAMPLE = """\b
Example:
  nextclick train shop --method man --memory-size 50000 --out model

\b
The same from a settings file, which holds options of this command and, in
tables, the method's own settings (nextclick train shop --settings man.toml):
  method = "man"
  out = "model"
  [memory]
  size = 50000
"""

INTERRUPTED = 130


def train(
    context: typer.Context,
    data: Annotated[
        Path, typer.Argument(metavar="DIR", help="Data from `nextclick data prepare`.")
    ],
    *,
    out: Annotated[
        Path, typer.Option(metavar="MODEL", help="The directory to write the model to.")
    ],
    method: Annotated[
        MethodName,
        typer.Option(metavar="METHOD", help=f"What to train: {', '.join(get_args(MethodName))}."),
    ] = "man",
    encoder: Annotated[
        Literal["narm", "gru4rec"] | None, typer.Option(help="The neural part of MAN.")
    ] = None,
    memory: Annotated[
        Literal["clustered", "exact"] | None, typer.Option(help="The index of MAN's memory.")
    ] = None,
    memory_size: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Keep only the newest N entries.")
    ] = None,
    gate: Annotated[
        Literal["learned", "fixed"] | None, typer.Option(help="What mixes MAN's two parts.")
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting of the method; repeatable."),
    ] = None,
    absorb: Annotated[
        bool, typer.Option(help="Learn the validation part as well, in online steps, at the end.")
    ] = True,
    seed: Seed = 0,
    threads: Threads = None,
    device: Device = "auto",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on after the last finished epoch.")
    ] = False,
    file: MethodSettingsFile = None,
    as_json: AsJson = False,
) -> None:
    """Train a model on prepared data.

    Ctrl-C leaves the last finished epoch beside MODEL; the same command with --resume goes on from
    there.
    """
    from nextclick import persistence
    from nextclick.datasets.prepared import PreparedData

    checkpoint = out.with_name(f"{out.name}.checkpoint")
    model = _recommender(
        method,
        context.obj or {},
        file,
        [_man_settings(method, encoder, memory, memory_size, gate), nested(assignments or [])],
        runtime_of(seed=seed, threads=threads, device=device, checkpoint=checkpoint),
    )
    persistence.check_target(out)
    prepared = PreparedData.load(data)
    _prepare_checkpoint(checkpoint, resume=resume)
    started = perf_counter()
    try:
        _fit(model, prepared, absorb=absorb)
    except KeyboardInterrupt:
        _say_how_to_go_on(checkpoint)
        raise typer.Exit(INTERRUPTED) from None
    took = perf_counter() - started
    persistence.save(model, out)
    checkpoint.unlink(missing_ok=True)
    if as_json:
        print_json(_summary(model, method, prepared, out, took))
    else:
        print_facts(_facts(model, prepared, out, took))


def _man_settings(
    method: str, encoder: str | None, memory: str | None, memory_size: int | None, gate: str | None
) -> dict[str, Any]:
    """Return what MAN's own flags stand for among its settings."""
    flags = {
        "--encoder": (encoder, ["neural", "encoder", "kind"]),
        "--memory": (memory, ["memory", "kind"]),
        "--memory-size": (memory_size, ["memory", "size"]),
        "--gate": (gate, ["gate", "kind"]),
    }
    settings: dict[str, Any] = {}
    for flag, (value, path) in flags.items():
        if value is None:
            continue
        if not method.startswith("man"):
            raise BadInputError(f"{flag} goes with --method man, not with {method}; leave it out")
        table = settings
        for name in path[:-1]:
            table = table.setdefault(name, {})
        table[path[-1]] = value
    return settings


def _recommender(
    method: str,
    from_file: dict[str, Any],
    file: Path | None,
    flags: list[dict[str, Any]],
    runtime: Runtime,
) -> Recommender:
    from nextclick.methods import create, merged

    create(method, from_file, source=str(file))  # so that its mistakes are laid to the file
    settings = reduce(merged, flags, from_file)
    return create(method, settings, runtime, source="--set")


def _prepare_checkpoint(checkpoint: Path, *, resume: bool) -> None:
    if not resume:
        checkpoint.unlink(missing_ok=True)
    elif not checkpoint.exists():
        typer.echo(f"{checkpoint}: not there, so training begins at the beginning", err=True)


def _fit(model: Recommender, data: PreparedData, *, absorb: bool) -> None:
    validation = data.validation if len(data.validation) else None
    model.fit(data.train, validation=validation, catalog=data.catalog, absorb=absorb)


def _say_how_to_go_on(checkpoint: Path) -> None:
    if checkpoint.exists():
        typer.echo(
            "the last finished epoch is kept: the same command with --resume goes on", err=True
        )
    else:
        typer.echo("no epoch was finished, and nothing was written", err=True)


def _summary(
    model: Recommender, method: str, data: PreparedData, out: Path, took: float
) -> dict[str, Any]:
    return {
        "model": str(out),
        "method": method,
        "settings": model.settings.model_dump(mode="json"),
        "seed": model.runtime.seed,
        "clicks": len(data.train),
        "validation_clicks": len(data.validation),
        "items": model.n_items,
        "seconds": took,
    }


def _facts(model: Recommender, data: PreparedData, out: Path, took: float) -> dict[str, str]:
    clicks = f"{len(data.train):,} (and {len(data.validation):,} for validation)"
    return {
        "method": model.label,
        "clicks": clicks,
        "items": f"{model.n_items:,}",
        "time": seconds(took),
        "model": str(out),
    }
