"""What every reader hands on: clicks as they were found, columns settled, ids made numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from nextclick.catalog import MAX_ID_BYTES
from nextclick.errors import BadInputError

SESSION, ITEM, TIME, FILE = "session", "item", "time", "file"
"""The columns of `RawClicks.clicks`."""

ID, TITLE, CATEGORY = "id", "title", "category"
"""The columns of `RawClicks.items`."""

LineOf = Callable[[int], str]
"""Says where the row with this number is to be found, as "line 7"."""


@dataclass(frozen=True, eq=False)
class RawClicks:
    """Clicks as a reader found them, in the order of the file.

    Parameters
    ----------
    source
        The file or directory.
    format
        The format's name.
    clicks
        One row per click: `session` and `item` (numbers), `time` (seconds since 1970, or the number
        of the line where there is no clock), and `file` (the number of the file it comes from).
    items
        One row per item: its `id`, `title` and `category`; the row's number is the item's number.
    clock
        Whether times are seconds since 1970; if not, only their order means something.
    unusable
        How many rows were left out, by reason.
    """

    source: Path
    format: str
    clicks: pl.DataFrame
    items: pl.DataFrame
    clock: bool
    unusable: dict[str, int] = field(default_factory=dict)


def raw_clicks(
    rows: pl.DataFrame,
    *,
    source: Path,
    format: str,  # noqa: A002 - the word the command line uses
    clock: bool,
    line_of: LineOf,
) -> RawClicks:
    """Make `RawClicks` of rows of text ids and number times, leaving out those that lack one.

    Parameters
    ----------
    rows
        The columns `session`, `item` (text), `time` (float), `file`, and perhaps `title` and
        `category`; what is missing is null.
    source, format, clock
        As in `RawClicks`.
    line_of
        Where a row came from, for errors.
    """
    _check_length(rows, source, line_of)
    unusable: dict[str, int] = {}
    for name, column in (("timestamp", TIME), ("session id", SESSION), ("item id", ITEM)):
        missing = rows[column].null_count()
        if missing:
            unusable[f"no {name}"] = missing
            rows = rows.filter(pl.col(column).is_not_null())
    if rows.is_empty():
        reasons = ", ".join(f"{count:,} rows with {reason}" for reason, count in unusable.items())
        raise BadInputError(f"{source}: no clicks in it" + (f" ({reasons})" if reasons else ""))
    items = _items(rows)
    clicks = rows.select(
        _numbered(rows[SESSION], rows[SESSION].unique(maintain_order=True)).alias(SESSION),
        _numbered(rows[ITEM], items[ID]).alias(ITEM),
        pl.col(TIME).cast(pl.Float64),
        pl.col(FILE).cast(pl.Int64),
    )
    return RawClicks(source, format, clicks, items, clock, unusable)


def _numbered(column: pl.Series, ids: pl.Series) -> pl.Series:
    """Return each value's place among the ids."""
    table = pl.DataFrame({"id": ids, "number": pl.arange(len(ids), eager=True)})
    joined = column.to_frame("id").join(table, on="id", how="left", maintain_order="left")
    return joined["number"]


def _items(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the items by first appearance, with the last title and category given for each."""
    described = [name for name in (TITLE, CATEGORY) if name in rows.columns]
    items = rows.group_by(pl.col(ITEM).alias(ID), maintain_order=True).agg(
        pl.col(name).drop_nulls().last() for name in described
    )
    absent = [name for name in (TITLE, CATEGORY) if name not in described]
    return items.with_columns(pl.lit(None, pl.String).alias(name) for name in absent).select(
        ID, TITLE, CATEGORY
    )


def _check_length(rows: pl.DataFrame, source: Path, line_of: LineOf) -> None:
    for name, column in (("session", SESSION), ("item", ITEM)):
        too_long = (rows[column].str.len_bytes() > MAX_ID_BYTES).arg_true()
        if len(too_long):
            row = int(too_long[0])
            raise BadInputError(
                f"{source}, {line_of(row)}: a {name} id of {rows[column].str.len_chars()[row]:,} "
                f"characters; ids have at most {MAX_ID_BYTES:,} bytes: is this the right column?"
            )
