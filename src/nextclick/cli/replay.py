"""`nextclick replay`: stream prepared data through a service."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nextclick.cli.output import AsJson, print_facts, print_json, print_table, seconds
from nextclick.cli.settings import SettingsFile
from nextclick.errors import BadInputError

if TYPE_CHECKING:
    from nextclick.serving.replay import Replayed

EXAMPLE = """\b
Examples:
  nextclick replay shop --url http://127.0.0.1:8000
  nextclick replay shop --speed 100x --limit 20000
"""

NAMES = {
    "model": "the model",
    "neural": "its neural part alone",
    "memory": "its memory alone",
    "new": "the model, on new items",
}


def replay(
    data: Annotated[
        Path, typer.Argument(metavar="DIR", help="Data from `nextclick data prepare`.")
    ],
    *,
    url: Annotated[str, typer.Option(help="Where the service is.")] = "http://127.0.0.1:8000",
    key: Annotated[
        str | None,
        typer.Option(envvar="NEXTCLICK_KEY", help="An API key with the scopes read and write."),
    ] = None,
    speed: Annotated[
        str, typer.Option(metavar="100x|max", help="How many times as fast as it happened.")
    ] = "max",
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Send the first N clicks only.")
    ] = None,
    file: SettingsFile = None,  # noqa: ARG001 - its callback does all there is to do
    as_json: AsJson = False,
) -> None:
    """Stream the test part of prepared data through a service, as a shop would.

    Prints how good the service's recommendations were just before each click. With --speed max, a
    service that was started on a new state gives the figures of `nextclick evaluate` to the last
    digit; the command for that is printed.
    """
    import httpx

    from nextclick.client import Client, RefusedError
    from nextclick.datasets.prepared import PreparedData
    from nextclick.serving.replay import replay as replay_through

    factor = times_as_fast(speed)
    prepared = PreparedData.load(data)
    try:
        with Client(url, key=key, timeout=60) as client:
            done = replay_through(prepared, client, speed=factor, limit=limit)
    except RefusedError as error:
        raise BadInputError(f"{url}: {error}") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise BadInputError(f"{url}: {error}; is the service there?") from None
    if as_json:
        print_json(_summary(done))
    else:
        _show(done, data)


def times_as_fast(speed: str) -> float | None:
    """Return the factor that a speed like ``100x`` stands for, `None` for as fast as can be.

    Examples
    --------
    >>> times_as_fast("100x"), times_as_fast("max")
    (100.0, None)
    """
    if speed == "max":
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)x", speed.strip())
    if match is None or not float(match[1]):
        raise BadInputError(f"--speed {speed}: write a factor, as in 100x, or max")
    return float(match[1])


def _summary(done: Replayed) -> dict[str, Any]:
    return {
        "clicks": done.clicks,
        "seconds": done.seconds,
        "tests": done.tests,
        "HR@20": done.hit_rate,
        "MRR@20": done.reciprocal_rank,
        "write_every": done.write_every,
        "early_groups": done.early_groups,
    }


def _show(done: Replayed, data: Path) -> None:
    print_table(
        ["Live quality of", "tests", "HR@20", "MRR@20"],
        [
            [
                NAMES[part],
                f"{tests:,}",
                _digits(done.hit_rate.get(part)),
                _digits(done.reciprocal_rank.get(part)),
            ]
            for part, tests in done.tests.items()
        ],
    )
    print_facts(
        {
            "clicks sent": f"{done.clicks:,}",
            "time": f"{seconds(done.seconds)} until all of them were learned",
        }
    )
    if done.alone and done.tests["model"]:
        _compare(done, data)


def _compare(done: Replayed, data: Path) -> None:
    """Say how to get the same figures offline, or why they are not quite the same."""
    if done.early_groups:
        typer.echo(
            f"{done.early_groups:,} groups of clicks were learned before they were full, as the\n"
            "next click took long: offline, the last digits differ. To compare them, start\nthe "
            "service on a new state with flush_after = 5 under [engine] in its settings."
        )
    tests = done.tests["model"]
    typer.echo("The same offline, MODEL being what the service was started with:")
    typer.echo(
        f"  nextclick evaluate MODEL {data} --write-every {done.write_every} --limit {tests}"
    )


def _digits(value: float | None) -> str:
    return "-" if value is None else f"{value:.6f}"
