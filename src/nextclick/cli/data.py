"""`nextclick data`: from files of clicks to prepared data."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from nextclick.cli.options import Seed, runtime_of
from nextclick.cli.output import AsJson, print_facts, print_json, print_table
from nextclick.cli.settings import SettingsFile
from nextclick.errors import BadInputError

if TYPE_CHECKING:
    from nextclick.clicks import ClickLog
    from nextclick.datasets.prepared import PreparedData

app = typer.Typer(
    help="Fetch, prepare, describe and make up click logs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Where to write prepared data.")]
ValidationShare = Annotated[
    float,
    typer.Option(min=0, max=0.99, help="Last share of the sessions before the test part."),
]
Prepared = Annotated[
    Path, typer.Argument(metavar="DIR", help="Data from `nextclick data prepare`.")
]


@app.command(epilog="Example: nextclick data fetch diginetica")
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="diginetica or yoochoose.")],
    *,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to put the files; data/NAME if not given."),
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="A mirror of the published folders.")
    ] = None,
    file: SettingsFile = None,  # noqa: ARG001 - its callback does all there is to do
    as_json: AsJson = False,
) -> None:
    """Download a published data set: resumed where it broke off, checked by SHA-256.

    The files are the period files published with ADER (RecSys 2020).
    """
    from nextclick.datasets.fetching import BASE_URL, fetch, find_published
    from nextclick.datasets.published import default_folder

    published = find_published(name)
    folder = fetch(
        name, out or default_folder(name), base_url=base_url or BASE_URL, runtime=runtime_of()
    )
    if as_json:
        print_json({"name": name, "folder": str(folder), "files": list(published.sums)})
    else:
        source = name if out is None else folder
        typer.echo(f"{len(published.sums)} files in {folder}, as published. Next:")
        typer.echo(f"  nextclick data prepare {source} --out prepared/{name}")


@app.command(
    epilog="""\b
Examples:
  nextclick data prepare clicks.csv --test-days 7 --out shop
  nextclick data prepare log.parquet --session-gap 30m --out shop
  nextclick data prepare diginetica --out prepared/diginetica
"""
)
def prepare(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="A file, a directory, or a data set that was fetched."
        ),
    ],
    *,
    out: Out,
    form: Annotated[
        Literal["csv", "parquet", "diginetica", "yoochoose", "periods"] | None,
        typer.Option("--format", help="The format of SOURCE; found out if not given."),
    ] = None,
    session_column: Annotated[str | None, typer.Option(help="Default: session_id.")] = None,
    item_column: Annotated[str | None, typer.Option(help="Default: item_id.")] = None,
    time_column: Annotated[str | None, typer.Option(help="Default: timestamp.")] = None,
    user_column: Annotated[
        str | None, typer.Option(help="With --session-gap; default: user_id.")
    ] = None,
    title_column: Annotated[
        str | None, typer.Option(help="Default: title, if there is such a column.")
    ] = None,
    category_column: Annotated[
        str | None, typer.Option(help="Default: category, if there is such a column.")
    ] = None,
    items_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="CSV or Parquet with titles, categories.")
    ] = None,
    session_gap: Annotated[
        str | None,
        typer.Option(metavar="30m", help="Cut each user's clicks after pauses longer than this."),
    ] = None,
    min_item_clicks: Annotated[
        int | None,
        typer.Option(min=1, help="Leave out rarer items. Default: 5 (1 for period files)."),
    ] = None,
    min_session_clicks: Annotated[
        int | None,
        typer.Option(min=1, help="Leave out shorter sessions. Default: 2 (1 for period files)."),
    ] = None,
    cleaning: Annotated[
        Literal["stable", "once"],
        typer.Option(help="Repeat the two until nothing changes, or apply them once."),
    ] = "stable",
    session_order: Annotated[
        Literal["time", "file", "item-hash"],
        typer.Option(help="Order within sessions; all but time are there to study leaks."),
    ] = "time",
    test_sessions: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Test part: the last N sessions.")
    ] = None,
    test_days: Annotated[
        float | None, typer.Option(metavar="N", help="Test part: sessions of the last N days.")
    ] = None,
    test_from: Annotated[
        str | None, typer.Option(metavar="DATE", help="Test part: sessions from a date on (UTC).")
    ] = None,
    test_files: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Test part: sessions of the last N period files."),
    ] = None,
    validation_share: ValidationShare = 0.1,
    file: SettingsFile = None,  # noqa: ARG001 - its callback does all there is to do
    as_json: AsJson = False,
) -> None:
    """Read clicks, clean them, and split them by time into training, validation and test parts.

    Without a --test-… option, a published data set is split as in its papers, and the last tenth of
    the sessions of any other is the test part.
    """
    from nextclick.datasets.orders import SessionOrderWarning
    from nextclick.datasets.preparing import PrepareSettings, prepare
    from nextclick.datasets.timestamps import to_duration

    settings = PrepareSettings(
        format=form,
        session_column=session_column,
        item_column=item_column,
        time_column=time_column,
        user_column=user_column,
        title_column=title_column,
        category_column=category_column,
        items_file=items_file,
        session_gap=_positive("--session-gap", to_duration(session_gap)),
        min_item_clicks=min_item_clicks,
        min_session_clicks=min_session_clicks,
        cleaning=cleaning,
        session_order=session_order,
        test_sessions=test_sessions,
        test_days=_positive("--test-days", test_days),
        test_from=_date(test_from),
        test_files=test_files,
        validation_share=validation_share,
    )
    with warnings.catch_warnings():
        # It is printed with everything else that is said of the data.
        warnings.simplefilter("ignore", SessionOrderWarning)
        data = prepare(source, settings, runtime_of())
    data.save(out)
    _show(data, out, as_json=as_json)


@app.command(epilog="Example: nextclick data tuning shop --out shop-tuning")
def tuning(
    data: Prepared,
    *,
    out: Out,
    validation_share: ValidationShare = 0.1,
    file: SettingsFile = None,  # noqa: ARG001 - its callback does all there is to do
    as_json: AsJson = False,
) -> None:
    """Write prepared data without its test part, to choose settings on.

    The validation part takes the place of the test part, and the last sessions of the training part
    become the validation part.
    """
    from nextclick.datasets.prepared import PreparedData

    kept = PreparedData.load(data).for_tuning(validation_share)
    kept.save(out)
    _show(kept, out, as_json=as_json)


@app.command(epilog="Example: nextclick data info shop")
def info(
    data: Prepared,
    *,
    file: SettingsFile = None,  # noqa: ARG001 - its callback does all there is to do
    as_json: AsJson = False,
) -> None:
    """Say what prepared data holds, where it comes from, and what was done to it."""
    from nextclick.datasets.prepared import PreparedData

    _show(PreparedData.load(data), data, as_json=as_json)


@app.command(
    epilog="""\b
Example:
  nextclick data synthesize --sessions 1000000 --out clicks.csv
  nextclick data prepare clicks.csv --out shop
"""
)
def synthesize(
    *,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write: .csv or .parquet.")],
    sessions: Annotated[int, typer.Option(min=1, help="How many visits.")] = 12_000,
    items: Annotated[
        int | None, typer.Option(min=10, help="How many items; grows with the visits by default.")
    ] = None,
    days: Annotated[float, typer.Option(min=1, help="How long the shop is watched.")] = 60.0,
    mean_clicks: Annotated[
        float, typer.Option(min=2.1, max=20, help="Mean number of clicks of a visit.")
    ] = 5.0,
    seed: Seed = 0,
    file: SettingsFile = None,  # noqa: ARG001 - its callback does all there is to do
    as_json: AsJson = False,
) -> None:
    """Write the clicks of a made-up shop, of any size, in bounded memory.

    Visitors have intents, popularity drifts, items appear and disappear. It is there to try things
    out: it says nothing about how good a method is on the clicks of real people.
    """
    from nextclick.datasets.synthetic import ShopSettings, write_shop

    settings = ShopSettings(sessions=sessions, items=items, days=days, mean_clicks=mean_clicks)
    clicks = write_shop(out, settings, runtime_of(seed=seed))
    if as_json:
        print_json(
            {"file": str(out), "clicks": clicks, "seed": seed, **settings.model_dump(mode="json")}
        )
    else:
        typer.echo(f"{clicks:,} clicks of {sessions:,} sessions in {out}. Next:")
        typer.echo(f"  nextclick data prepare {out} --out {out.with_suffix('')}-prepared")


def _positive(flag: str, value: Any) -> Any:
    if value is not None and not value > 0:
        raise BadInputError(f"{flag} has to be above 0, and is {value:g}")
    return value


def _date(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        raise BadInputError(
            f"--test-from {text}: not a date; write it as 2016-05-25 or 2016-05-25T12:00"
        ) from None


@dataclass(frozen=True)
class _Part:
    """What is said of one part of prepared data."""

    clicks: int
    sessions: int
    items: int
    new_items: int
    transitions: int
    new_share: float | None

    @classmethod
    def of(cls, log: ClickLog, n_train_items: int) -> _Part:
        import numpy as np

        items, sessions = np.unique(log.items), log.n_sessions
        new = log.items >= n_train_items
        return cls(
            clicks=len(log),
            sessions=sessions,
            items=len(items),
            new_items=int((items >= n_train_items).sum()),
            transitions=len(log) - sessions,
            new_share=float(new.mean()) if len(log) else None,
        )

    def row(self) -> list[str]:
        counts = (self.clicks, self.sessions, self.items, self.new_items, self.transitions)
        share = "-" if self.new_share is None else f"{100 * self.new_share:.1f} %"
        return [*(f"{count:,}" for count in counts), share]


def _show(data: PreparedData, path: Path, *, as_json: bool) -> None:
    parts = {name: _Part.of(log, data.n_train_items) for name, log in data.parts.items()}
    if as_json:
        print_json(
            {
                "path": str(path),
                "items": len(data.catalog),
                "parts": {name: vars(part) for name, part in parts.items()},
                "description": data.description.model_dump(mode="json"),
            }
        )
    else:
        _print_parts(data, path, parts)
    if data.description.warning:
        typer.echo(f"warning: {data.description.warning}", err=True)


def _print_parts(data: PreparedData, path: Path, parts: dict[str, _Part]) -> None:
    about = data.description
    facts = {
        "prepared data": str(path),
        "source": f"{about.source} ({about.format})",
        "items": f"{len(data.catalog):,}",
        "split": about.split,
    }
    if about.clock:
        facts["time"] = f"{_moment(data.train, 0)} to {_moment(data.test, -1)} UTC"
    if about.unusable:
        facts["left out"] = ", ".join(
            f"{count:,} rows with {reason}" for reason, count in about.unusable.items()
        )
    print_facts(facts)
    if len(about.steps) > 1:
        print_table(
            ["step", "clicks", "sessions", "items"],
            [
                [step.name, f"{step.clicks:,}", f"{step.sessions:,}", f"{step.items:,}"]
                for step in about.steps
            ],
        )
    print_table(
        ["part", "clicks", "sessions", "items", "new\nitems", "transitions", "clicks\non new"],
        [[name, *part.row()] for name, part in parts.items()],
    )


def _moment(log: ClickLog, row: int) -> str:
    return datetime.fromtimestamp(float(log.times[row]), UTC).strftime("%Y-%m-%d %H:%M")
