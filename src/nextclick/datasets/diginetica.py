"""DIGINETICA as published: `train-item-views.csv` of the CIKM Cup 2016."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from nextclick.datasets.raw import FILE, ITEM, SESSION, TIME, RawClicks, raw_clicks
from nextclick.datasets.tables import Table, csv_table
from nextclick.datasets.timestamps import UnreadableTimestampError, to_seconds
from nextclick.errors import BadInputError

COLUMNS = ("sessionid", "itemid", "timeframe", "eventdate")
DATA_FILE = "train-item-views.csv"


def read_diginetica(source: Path) -> RawClicks:
    r"""Read the item views of DIGINETICA, its columns called `sessionId` or `session_id`.

    The time of a click is `timeframe`, the milliseconds since the session began, counted from the
    day of the session. The rows of a session are *not* in that order: they follow one global order
    of the items, which tells an order-aware method what comes next.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "train-item-views.csv"
    ...     _ = file.write_text(
    ...         "sessionId;userId;itemId;timeframe;eventdate\n1;NA;81766;526309;2016-05-09\n"
    ...     )
    ...     raw = read_diginetica(file)
    >>> raw.clicks["time"].to_list()
    [1462752526.309]
    """
    table = _with_plain_names(csv_table(source))
    rows = pl.DataFrame(
        {
            SESSION: table.ids("sessionid", "--session-column"),
            ITEM: table.ids("itemid", "--item-column"),
            "day": _days(table),
            "milliseconds": _milliseconds(table),
        }
    )
    # A session past midnight has one beginning, and `timeframe` counts from there.
    time = pl.col("day").min().over(SESSION) + pl.col("milliseconds") / 1000
    return raw_clicks(
        rows.select(SESSION, ITEM, time.alias(TIME), pl.lit(0).alias(FILE)),
        source=source,
        format="diginetica",
        clock=True,
        line_of=table.line_of,
    )


def plain_name(column: str) -> str:
    """Return a column's name in lower case, without underscores: copies of the data differ."""
    return column.strip().strip('"').replace("_", "").lower()


def _with_plain_names(table: Table) -> Table:
    rows = table.rows.rename(plain_name)
    missing = [column for column in COLUMNS if column not in rows.columns]
    if missing:
        raise BadInputError(
            f"{table.source}: no column {missing[0]!r}, which DIGINETICA's {DATA_FILE} has; "
            "read a file of another form with --format csv"
        )
    return Table(table.source, rows, table.line_of)


def _days(table: Table) -> pl.Series:
    try:
        return to_seconds(table.rows["eventdate"])
    except UnreadableTimestampError as error:
        raise _unreadable(table, "eventdate", error.row) from None


def _milliseconds(table: Table) -> pl.Series:
    text = table.rows["timeframe"]
    numbers = text.cast(pl.Float64, strict=False)
    failed = (text.is_not_null() & ~numbers.is_finite().fill_null(value=False)).arg_true()
    if len(failed):
        raise _unreadable(table, "timeframe", int(failed[0]))
    return numbers


def _unreadable(table: Table, column: str, row: int) -> BadInputError:
    return BadInputError(
        f"{table.source}, {table.line_of(row)}, column {column!r}: {table.rows[column][row]!r} "
        "does not parse; correct the line, or leave it out"
    )
