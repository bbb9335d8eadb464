"""`nextclick serve`: the HTTP service."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nextclick.cli.options import Device, Threads, runtime_of
from nextclick.cli.output import AsJson, print_json
from nextclick.cli.settings import MethodSettingsFile
from nextclick.errors import BadInputError

if TYPE_CHECKING:
    from nextclick.recommender import Recommender
    from nextclick.runtime import Runtime
    from nextclick.serving.demonstration import Demonstration
    from nextclick.serving.engine import Engine
    from nextclick.serving.limits import Limits
    from nextclick.serving.settings import EngineSettings

EXAMPLE = """\b
Examples:
  nextclick serve --demo
  nextclick serve model --state state
  nextclick serve model --state state --keep-log 30d --memory-size 500000

\b
From a settings file, which holds options of this command and, in tables, more
about the engine and the limits (nextclick serve model --settings serve.toml):
  state = "state"
  [engine]
  write_every = 10
  [limits]
  body_bytes = 200_000
"""

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def serve(
    context: typer.Context,
    model_path: Annotated[
        Path | None,
        typer.Argument(metavar="MODEL", help="A model, for a state that begins."),
    ] = None,
    *,
    state: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where clicks and all that is learned are kept."),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="A synthetic shop with simulated visitors.")
    ] = False,
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    shadow: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="A second model, which learns and is compared."),
    ] = None,
    keep_log: Annotated[
        str, typer.Option(metavar="TIME", help="How long clicks are kept: 12h, 30d, for-ever.")
    ] = "30d",
    memory_size: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="The model's memory keeps the newest N entries."),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=1, metavar="N", help="Requests a second, for each key.")
    ] = None,
    threads: Threads = None,
    device: Device = "auto",
    file: MethodSettingsFile = None,
    as_json: AsJson = False,
) -> None:
    """Serve recommendations over HTTP, and learn from every click.

    A state that is there already is taken up as it was left, with its own model; MODEL and
    --memory-size are for a state that begins. Without API keys (nextclick keys) the service
    listens on this machine only. Ctrl-C stops it in order.
    """
    from nextclick.serving.process import serve as serve_until_stopped

    engine_settings, limits = _settings(context.obj or {}, file, keep_log, rate)
    runtime = runtime_of(threads=threads, device=device)
    with _place(state, demo=demo) as folder:
        shop = _shop(runtime) if demo else None
        opening = _opening(folder, engine_settings, runtime, model_path, shadow, memory_size, shop)
        serve_until_stopped(
            opening,
            state=folder,
            host=host,
            port=port,
            limits=limits,
            beside=None if shop is None else shop.visit,
            announce=_announcer(folder, model_path, demo=demo, as_json=as_json),
        )


def _settings(
    tables: dict[str, Any], file: Path | None, keep_log: str, rate: float | None
) -> tuple[EngineSettings, Limits]:
    from nextclick.methods import validated
    from nextclick.serving.limits import Limits
    from nextclick.serving.settings import EngineSettings

    unknown = set(tables) - {"engine", "limits"}
    if unknown:
        raise BadInputError(
            f"{file}: {min(unknown)}: unknown key; there are the options of this command, and the "
            "tables [engine] and [limits]"
        )
    engine = {"keep_log": duration(keep_log), **tables.get("engine", {})}
    limits = dict(tables.get("limits", {}))
    if rate is not None:
        limits["rate"] = rate
    return (
        validated(EngineSettings, engine, source=f"{file}: engine"),  # type: ignore[return-value] # of this type
        validated(Limits, limits, source=f"{file}: limits"),
    )


def duration(text: str) -> float | None:
    """Return how many seconds a time like ``30d`` has, `None` for ever.

    Examples
    --------
    >>> duration("12h"), duration("for-ever")
    (43200.0, None)
    """
    if text == "for-ever":
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    if match is None:
        raise BadInputError(
            f"--keep-log {text}: write a number and s, m, h or d, as in 12h or 30d; or for-ever"
        )
    return float(match[1]) * UNITS[match[2]]


@contextmanager
def _place(state: Path | None, *, demo: bool) -> Iterator[Path]:
    if state is not None:
        if state.exists() and not state.is_dir():
            raise BadInputError(f"--state {state}: not a directory")
        yield state
    elif demo:
        with tempfile.TemporaryDirectory(prefix="nextclick-demo-") as folder:
            yield Path(folder)
    else:
        raise BadInputError("--state is needed: a directory in which clicks are kept")


def _shop(runtime: Runtime) -> Demonstration:
    from nextclick.serving.demonstration import Demonstration

    return Demonstration.open(runtime)


def _opening(
    state: Path,
    settings: EngineSettings,
    runtime: Runtime,
    model_path: Path | None,
    shadow: Path | None,
    memory_size: int | None,
    shop: Demonstration | None,
) -> Callable[[], Engine]:
    """Return what starts the engine; what can be refused at once, is."""
    from nextclick import persistence
    from nextclick.serving.engine import Engine

    begins = not _has_state(state)
    if shop is not None and model_path is not None:
        raise BadInputError("--demo brings its own model; leave MODEL out")
    if shop is not None and (state / "keys.json").exists():
        raise BadInputError(
            f"{state}: there are API keys, and --demo's visitors have none; leave --state out"
        )
    if begins and shop is None and model_path is None:
        raise BadInputError(f"{state}: no state is there yet; give a MODEL to begin with")
    for path in (model_path if begins else None, shadow):
        if path is not None:
            persistence.read_config(path)

    def model() -> Recommender | Path | None:
        if not begins:
            return None
        if shop is not None:
            return _bounded(shop.model(runtime), memory_size)
        if model_path is None or memory_size is None:
            return model_path
        return _bounded(persistence.load(model_path, runtime), memory_size)

    return lambda: Engine.open(state, settings, model=model(), runtime=runtime, shadow=shadow)


def _has_state(state: Path) -> bool:
    return (state / "clicks.db").exists()


def _bounded(model: Recommender, memory_size: int | None) -> Recommender:
    """Return a model whose memory keeps the newest entries only."""
    if memory_size is None:
        return model
    from nextclick.methods import merged

    given = model.settings.model_dump(mode="json")
    if "memory" not in given:
        raise BadInputError(f"--memory-size: {model.label} has no memory; leave it out")
    settings = merged(given, {"memory": {"size": memory_size}})
    other = type(model)(model.settings_type.model_validate(settings), model.runtime)
    return other.restore(model.catalog, model.state())


def _announcer(
    state: Path, model_path: Path | None, *, demo: bool, as_json: bool
) -> Callable[[str], None]:
    passed_over = model_path is not None and _has_state(state)

    def announce(address: str) -> None:
        keys = (state / "keys.json").exists()
        if as_json:
            print_json({"address": address, "state": str(state), "keys": keys})
            return
        typer.echo(f"nextclick listens at {address}")
        if demo:
            typer.echo("It trains a model on a synthetic shop first: half a minute or so.")
        if passed_over:
            typer.echo(f"It goes on with what is in {state}, where {model_path} is not looked at.")
        if not keys:
            typer.echo("There are no API keys: it answers this machine only.")
        typer.echo("Ctrl-C stops it.")

    return announce
