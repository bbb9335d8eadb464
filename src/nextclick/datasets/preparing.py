"""From a source of clicks to prepared data: read, clean, order, split."""

from __future__ import annotations

import warnings
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from nextclick.catalog import Item
from nextclick.clicks import ClickLog, Ints
from nextclick.datasets import splits
from nextclick.datasets.cleaning import Cleaner
from nextclick.datasets.description import Description
from nextclick.datasets.formats import ReadSettings, read_clicks
from nextclick.datasets.orders import (
    WARNINGS,
    SessionOrder,
    SessionOrderWarning,
    hash_ranks,
    reorder_sessions,
)
from nextclick.datasets.prepared import PreparedData, first_appearances
from nextclick.datasets.published import Published, recognise
from nextclick.datasets.raw import FILE, ITEM, SESSION, TIME, RawClicks
from nextclick.errors import BadInputError
from nextclick.runtime import Runtime

MIN_ITEM_CLICKS = 5
MIN_SESSION_CLICKS = 2

AtLeastOne = Annotated[int, Field(ge=1)]


class PrepareSettings(ReadSettings):
    """Settings of the preparation, those of reading included.

    Parameters
    ----------
    min_item_clicks, min_session_clicks
        Rarer items, then shorter sessions, are left out. By default 5 and 2; 1 and 1 for period
        files, which were cleaned before they were published.
    cleaning
        Whether that is repeated until nothing changes ("stable"), or done once ("once").
    session_order
        What orders the clicks of a session. Anything but "time" is there to study what such an
        order gives away.
    test_sessions, test_days, test_from, test_files
        The test part: the last sessions; the sessions that begin in the last days; those that begin
        on or after a date; those that begin in the last period files. At most one of the four; with
        none of them a published data set is split as its papers do, and any other has its last
        tenth of the sessions as test part.
    validation_share
        The last share of the sessions before the test part that is the validation part.
    """

    min_item_clicks: AtLeastOne | None = None
    min_session_clicks: AtLeastOne | None = None
    cleaning: Literal["stable", "once"] = "stable"
    session_order: SessionOrder = "time"
    test_sessions: AtLeastOne | None = None
    test_days: Annotated[float, Field(gt=0)] | None = None
    test_from: datetime | None = None
    test_files: AtLeastOne | None = None
    validation_share: Annotated[float, Field(ge=0, lt=1)] = 0.1

    @model_validator(mode="after")
    def _one_test_part(self) -> Self:
        given = [name for name in SPLITS if getattr(self, name) is not None]
        if len(given) > 1:
            flags = " and ".join(f"--{name.replace('_', '-')}" for name in given)
            raise BadInputError(f"{flags} all say what the test part is; give one of them")
        return self


SPLITS = ("test_sessions", "test_days", "test_from", "test_files")


def prepare(
    source: str | Path, settings: PrepareSettings | None = None, runtime: Runtime | None = None
) -> PreparedData:
    r"""Read clicks, clean them, and split them by time.

    Parameters
    ----------
    source
        A file or directory in one of the formats of `read_clicks`; or the name of a published data
        set that was fetched.
    settings
        What to do with it; the defaults do for clean data with the usual column names.
    runtime
        Whether progress is shown.

    Returns
    -------
    PreparedData
        The three parts, the catalog, and a description of what was done.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "clicks.csv"
    ...     clicks = [f"s{s},i{(s + n) % 3},{60 * s + n}" for s in range(10) for n in range(3)]
    ...     _ = file.write_text("\n".join(["session_id,item_id,timestamp", *clicks]))
    ...     data = prepare(file, PrepareSettings(test_sessions=2))
    >>> [log.n_sessions for log in (data.train, data.validation, data.test)]
    [7, 1, 2]
    """
    settings = PrepareSettings() if settings is None else settings
    with (runtime or Runtime()).progress(f"Preparing {source}", 3) as advance:
        raw = read_clicks(Path(source), settings)
        advance(note="cleaning")
        cleaner = _clean(raw, settings)
        advance(note="splitting")
        data = _split(raw, cleaner, str(source), settings)
        advance()
    if data.description.warning:
        warnings.warn(data.description.warning, SessionOrderWarning, stacklevel=2)
    return data


def _split(
    raw: RawClicks, cleaner: Cleaner, source: str, settings: PrepareSettings
) -> PreparedData:
    """Cut the cleaned clicks into parts, and describe what was done."""
    log = _log(cleaner.clicks, raw, settings)
    starts = _session_starts(log, cleaner.clicks, raw)
    published = recognise(raw.source) if raw.format == "periods" else None
    test, how = _test_start(starts, settings, published)
    validation = splits.validation_start(test, settings.validation_share)
    description = Description(
        source=source,
        format=raw.format,
        clock=raw.clock,
        session_order=settings.session_order,
        warning=WARNINGS.get(settings.session_order),
        split=f"test: {how}; validation: the last {test - validation:,} sessions before them",
        unusable=raw.unusable,
        steps=tuple(cleaner.steps),
        settings=settings.model_dump(mode="json", exclude_defaults=True),
    )
    items = [Item(*row) for row in raw.items.iter_rows()]
    return PreparedData.cut(log, items, validation=validation, test=test, description=description)


def _clean(raw: RawClicks, settings: PrepareSettings) -> Cleaner:
    """Return the usable clicks in time order, with the number of their row."""
    published_clean = raw.format == "periods"
    cleaner = Cleaner(raw.clicks.with_row_index("row"))
    cleaner.drop_duplicates()
    cleaner.sort()
    cleaner.drop_rare(
        settings.min_item_clicks or (1 if published_clean else MIN_ITEM_CLICKS),
        settings.min_session_clicks or (1 if published_clean else MIN_SESSION_CLICKS),
        repeat=settings.cleaning == "stable",
    )
    _check_left(raw.source, cleaner)
    return cleaner


def _check_left(source: Path, cleaner: Cleaner) -> None:
    left = cleaner.steps[-1]
    if not left.clicks:
        raise BadInputError(
            f"{source}: no clicks are left after cleaning ({cleaner.steps[0].clicks:,} were read); "
            "use more data, or lower --min-item-clicks or --min-session-clicks"
        )
    for what, count in (("session", left.sessions), ("item", left.items)):
        if count == 1:
            raise BadInputError(
                f"{source}: only one {what} is left after cleaning ({left.clicks:,} clicks of "
                f"{cleaner.steps[0].clicks:,}); there is nothing to learn or to test: use more "
                "data, or lower --min-item-clicks or --min-session-clicks"
            )


def _log(clicks: pl.DataFrame, raw: RawClicks, settings: PrepareSettings) -> ClickLog:
    """Return the clicks as a log, sessions numbered by their first click."""
    sessions = _renumbered(clicks[SESSION].to_numpy())
    items = clicks[ITEM].to_numpy()
    if settings.session_order == "file":
        if not raw.clock:
            raise BadInputError(
                f"{raw.source}: period files are in time order, and hold no other; leave out "
                "--session-order file"
            )
        items = reorder_sessions(sessions, items, clicks["row"].cast(pl.Int64).to_numpy())
    elif settings.session_order == "item-hash":
        items = reorder_sessions(sessions, items, hash_ranks(raw.items["id"].to_list())[items])
    return ClickLog(sessions, items, clicks[TIME].to_numpy())


def _renumbered(numbers: Ints) -> Ints:
    """Return the numbers, replaced by the order in which they first appear."""
    ordered = first_appearances(numbers)
    table = np.empty(int(ordered.max()) + 1, dtype=np.int64)
    table[ordered] = np.arange(len(ordered))
    return table[numbers]


def _session_starts(log: ClickLog, clicks: pl.DataFrame, raw: RawClicks) -> splits.SessionStarts:
    _, first = np.unique(log.sessions, return_index=True)
    return splits.SessionStarts(
        times=log.times[first],
        files=clicks[FILE].to_numpy()[first],
        n_files=int(raw.clicks.select(pl.col(FILE).max()).item()) + 1,
        last_click=float(log.times[-1]),
        clock=raw.clock,
    )


def _test_start(
    starts: splits.SessionStarts, settings: PrepareSettings, published: Published | None
) -> tuple[int, str]:
    """Return the first session of the test part, and how it was chosen."""
    if settings.test_days is not None:
        start = splits.last_days(starts, settings.test_days)
        return (
            start,
            f"the {len(starts) - start:,} sessions of the last {settings.test_days:g} days",
        )
    if settings.test_from is not None:
        start = splits.from_date(starts, settings.test_from)
        return start, f"the {len(starts) - start:,} sessions from {settings.test_from} on"
    as_published = ""
    test_sessions, test_files = settings.test_sessions, settings.test_files
    if test_sessions is None and test_files is None and published is not None:
        test_sessions, test_files = published.test_sessions, published.test_files
        as_published = f" (the published split of {published.name})"
    if test_sessions is not None:
        start = splits.last_sessions(starts, test_sessions)
        return start, f"the last {test_sessions:,} sessions{as_published}"
    if test_files is not None:
        start = splits.last_files(starts, test_files)
        count = f"{len(starts) - start:,} sessions that begin in the last {test_files} files"
        return start, f"the {count}{as_published}"
    start = splits.last_share(starts)
    return start, f"the last {len(starts) - start:,} sessions, a tenth (nothing else was asked for)"
