"""The command line: one file per verb. Verbs import what they need, so that `--help` is quick."""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from nextclick import __version__
from nextclick.cli import data, demo, evaluate, keys, paper, recommend, replay, serve, train, tune
from nextclick.errors import BadInputError

BAD_INPUT = 2
OUR_FAULT = 1
INTERRUPTED = 130

CALLERS_FAULT = (
    errno.ENOENT,
    errno.EACCES,
    errno.EPERM,
    errno.EISDIR,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
)
"""What a file system refuses for reasons that only its owner can mend."""

EPILOG = """\b
Start with:
  nextclick demo

\b
Exit codes: 0 done, 2 bad input, 1 a defect of nextclick, 130 interrupted.
"""

app = typer.Typer(
    name="nextclick",
    help="Recommendations in anonymous browsing sessions that learn from every click.",
    epilog=EPILOG,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data.app, name="data")
app.command(epilog=train.EXAMPLE)(train.train)
app.command(epilog=evaluate.EXAMPLE)(evaluate.evaluate)
app.command(epilog=recommend.EXAMPLE)(recommend.recommend)
app.command(epilog=demo.EXAMPLE)(demo.demo)
app.command(epilog=paper.EXAMPLE)(paper.paper)
app.command(epilog=tune.EXAMPLE)(tune.tune)
app.command(epilog=serve.EXAMPLE)(serve.serve)
app.command(epilog=replay.EXAMPLE)(replay.replay)
app.add_typer(keys.app, name="keys")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"nextclick {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback does all there is to do
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit code: 0, 2 for bad input, 1 for a defect of ours.

    Examples
    --------
    >>> main(["--version"])  # doctest: +ELLIPSIS
    nextclick ...
    0
    """
    try:
        code = app(arguments, prog_name="nextclick", standalone_mode=False)
    except BadInputError as error:
        return _refuse(str(error))
    except typer.TyperException as error:
        return _misused(error)
    except typer.Abort:
        code = INTERRUPTED
    except OSError as error:
        if error.errno not in CALLERS_FAULT:
            return _confess()
        return _refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except Exception:
        return _confess()
    if code == INTERRUPTED:
        typer.echo("interrupted", err=True)
    return code if isinstance(code, int) else 0


def _refuse(reason: str) -> int:
    typer.echo(f"error: {reason}", err=True)
    return BAD_INPUT


def _misused(error: typer.TyperException) -> int:
    """Say what is wrong with a command line, and where to read what is right."""
    reason = error.format_message().replace("Value error, ", "")
    if reason.startswith("Usage:"):  # a verb was left out: that is the whole help
        typer.echo(reason, err=True)
        return BAD_INPUT
    context = getattr(error, "ctx", None)
    return _refuse(f"{reason}\nsee {context.command_path} --help" if context else reason)


def _confess() -> int:
    traceback.print_exc()
    typer.echo(
        "error: this is a defect of nextclick, not of what you gave it; please report it with the "
        f"lines above (nextclick {__version__}, Python {sys.version.split()[0]})",
        err=True,
    )
    return OUR_FAULT
