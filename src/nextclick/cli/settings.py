"""Settings of a verb, from a TOML file and from flags; flags come first."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from nextclick.errors import BadInputError


def read_toml(file: Path) -> dict[str, Any]:
    """Return what is in a TOML file, or say in which line it goes wrong.

    Examples
    --------
    >>> read_toml(Path("absent.toml"))
    Traceback (most recent call last):
        ...
    nextclick.errors.BadInputError: absent.toml: no such file
    """
    if not file.exists():
        raise BadInputError(f"{file}: no such file")
    if not file.is_file():
        raise BadInputError(f"{file}: not a file; settings are read from a TOML file")
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise BadInputError(f"{file}: not UTF-8 text; settings are read from a TOML file") from None
    except tomllib.TOMLDecodeError as error:
        raise BadInputError(f"{file}: not TOML: {error}") from None


def nested(assignments: list[str]) -> dict[str, Any]:
    """Return settings given as ``key.key=value``, values as in TOML, or text.

    Examples
    --------
    >>> nested(["memory.size=50_000", "memory.kind=exact"])
    {'memory': {'size': 50000, 'kind': 'exact'}}
    """
    settings: dict[str, Any] = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        *tables, key = path.strip().split(".")
        if not equals or not key or not all(tables):
            raise BadInputError(
                f"--set {assignment}: write --set key=value, or --set table.key=value"
            )
        table = settings
        for name in tables:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise BadInputError(f"--set {assignment}: {name} was given as a value before")
        table[key] = _toml_value(text.strip())
    return settings


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _only_options(context: typer.Context, file: Path | None) -> Path | None:
    """Take options of a verb from a file that may hold nothing else."""
    for key in _take_options(context, file):
        near = get_close_matches(key, _options(context), n=1)
        hint = (
            f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(_options(context))}"
        )
        raise BadInputError(f"{file}: {key}: unknown key; {hint}")
    return file


def _options_and_more(context: typer.Context, file: Path | None) -> Path | None:
    """Take options of a verb from a file, and leave the rest of it in `context.obj`."""
    context.obj = _take_options(context, file)
    return file


def _take_options(context: typer.Context, file: Path | None) -> dict[str, Any]:
    """Let options that are not on the command line default to those in a file; return the rest.

    A table is never an option: ``memory = "exact"`` is one, ``[memory]`` is not.
    """
    if file is None:
        return {}
    options = _options(context)
    rest = {}
    context.default_map = {}
    for key, value in read_toml(file).items():
        option = options.get(key.replace("-", "_"))
        if option is None or isinstance(value, Mapping):
            rest[key] = value
            continue
        try:
            option.process_value(context, value)
        except typer.TyperException as error:
            raise BadInputError(f"{file}: {key}: {error.message}") from None
        context.default_map[option.name] = value
    return rest


def _options(context: typer.Context) -> dict[str, Any]:
    """Return a verb's options by the names that they have in a file: those of the flags."""
    names = {
        parameter.opts[0].lstrip("-").replace("-", "_"): parameter
        for parameter in context.command.params
        if parameter.param_type_name == "option"
    }
    return {name: option for name, option in names.items() if name not in ("settings", "help")}


SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        callback=_only_options,
        is_eager=True,
        metavar="FILE",
        help="A TOML file with any of these options; flags override it.",
    ),
]
"""For verbs whose settings are their options"""

MethodSettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        callback=_options_and_more,
        is_eager=True,
        metavar="FILE",
        help="A TOML file with any of these options and the method's settings; flags override it.",
    ),
]
"""For verbs that make a recommender"""
