"""`nextclick keys`: who may use a service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextclick.cli.output import AsJson, print_json, print_table, printable
from nextclick.cli.settings import SettingsFile
from nextclick.errors import BadInputError

if TYPE_CHECKING:
    from nextclick.serving.keys import Keys

EXAMPLE = """\b
Examples:
  nextclick keys add web-shop --state state --scope read --scope write
  nextclick keys add operator --state state --scope admin --scope read
  nextclick keys list --state state
  nextclick keys remove web-shop --state state
"""

app = typer.Typer(
    help="Make, list and remove the API keys of a service; a running one takes notice.",
    epilog=EXAMPLE,
    no_args_is_help=True,
    rich_markup_mode=None,
)

State = Annotated[Path, typer.Option(metavar="DIR", help="The service's state directory.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="What the key is called.")]


@app.command(epilog=EXAMPLE)
def add(
    name: Name,
    *,
    state: State,
    scopes: Annotated[
        list[str] | None,
        typer.Option("--scope", help="read, write or admin; repeatable. Else read and write."),
    ] = None,
    file: SettingsFile = None,  # noqa: ARG001 - its callback does all there is to do
    as_json: AsJson = False,
) -> None:
    """Make a key, and print it: it is kept as a hash, and cannot be shown again."""
    from nextclick.serving.keys import Keys

    secret = Keys(state).add(name, scopes or ["read", "write"])
    if as_json:
        print_json({"name": name, "key": secret})
    else:
        typer.echo(secret)


@app.command("list", epilog=EXAMPLE)
def list_(
    *,
    state: State,
    file: SettingsFile = None,  # noqa: ARG001 - the same
    as_json: AsJson = False,
) -> None:
    """List the keys' names and scopes."""
    keys = list(_keys(state))
    if as_json:
        print_json([{"name": key.name, "scopes": sorted(key.scopes)} for key in keys])
    elif not keys:
        typer.echo("There are no keys.")
    else:
        rows = [[key.name, " ".join(sorted(key.scopes))] for key in keys]
        print_table(["key", "scopes"], rows, text_columns=2)


@app.command(epilog=EXAMPLE)
def remove(
    name: Name,
    *,
    state: State,
    file: SettingsFile = None,  # noqa: ARG001 - the same
    as_json: AsJson = False,
) -> None:
    """Take a key away; requests with it are refused within two seconds."""
    _keys(state).remove(name)
    if as_json:
        print_json({"removed": name})
    else:
        typer.echo(f"removed {printable(name)}")


def _keys(state: Path) -> Keys:
    """Return the keys of a state that must be there: a mistyped name shows."""
    from nextclick.serving.keys import Keys

    if not state.is_dir():
        raise BadInputError(f"--state {state}: no such directory")
    return Keys(state)
