"""Tables of clicks whose columns the user names: CSV and Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl
from polars.exceptions import PolarsError

from nextclick.datasets.delimited import Delimited, first_line
from nextclick.datasets.raw import (
    CATEGORY,
    FILE,
    ID,
    ITEM,
    SESSION,
    TIME,
    TITLE,
    LineOf,
    RawClicks,
    raw_clicks,
)
from nextclick.datasets.timestamps import UnreadableTimestampError, to_seconds
from nextclick.errors import BadInputError

SEPARATORS = ",;\t|"


@dataclass(frozen=True)
class Columns:
    """What the columns of a table of clicks are called; `None` for the usual name."""

    session: str | None = None
    item: str | None = None
    time: str | None = None
    user: str | None = None
    title: str | None = None
    category: str | None = None


@dataclass(frozen=True, eq=False)
class Table:
    """A table as it was read, every column as in the file."""

    source: Path
    rows: pl.DataFrame
    line_of: LineOf

    def has(self, name: str) -> bool:
        """Tell whether there is a column of this name."""
        return name in self.rows.columns

    def column(self, name: str, flag: str) -> pl.Series:
        """Return a column, or say which columns there are."""
        if not self.has(name):
            there = ", ".join(repr(column) for column in self.rows.columns[:20])
            raise BadInputError(
                f"{self.source}: no column {name!r}; its columns are {there}: name the right one "
                f"with {flag}"
            )
        return self.rows[name]

    def ids(self, name: str, flag: str) -> pl.Series:
        """Return a column of ids as text, null where there is none."""
        column = self.column(name, flag)
        if column.dtype.is_float():
            column = self._whole_numbers(column.fill_nan(None), name)
        if not (column.dtype.is_integer() or column.dtype in (pl.String, pl.Categorical, pl.Enum)):
            raise BadInputError(
                f"{self.source}: column {name!r} holds {column.dtype}; ids are text or integers"
            )
        return without_blanks(column.cast(pl.String))

    def times(self, name: str) -> pl.Series:
        """Return a column of timestamps in seconds, null where there is none."""
        try:
            return to_seconds(self.column(name, "--time-column"))
        except UnreadableTimestampError as error:
            raise BadInputError(
                f"{self.source}, {self.line_of(error.row)}, column {name!r}: {error.reason}"
            ) from None

    def texts(self, name: str | None, usual: str, flag: str) -> pl.Series | None:
        """Return a column of text that need not be there unless it is named."""
        if name is None and not self.has(usual):
            return None
        return without_blanks(self.column(name or usual, flag).cast(pl.String))

    def _whole_numbers(self, column: pl.Series, name: str) -> pl.Series:
        broken = (column != column.round()).arg_true()
        if len(broken):
            row = int(broken[0])
            raise BadInputError(
                f"{self.source}, {self.line_of(row)}, column {name!r}: the id {column[row]} is not "
                "a whole number; ids are text or integers"
            )
        return column.cast(pl.Int64)


def read_csv(source: Path, columns: Columns, session_gap: float | None = None) -> RawClicks:
    r"""Read clicks from a CSV file with a header; commas, semicolons, tabs or bars between columns.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "clicks.csv"
    ...     _ = file.write_text("visit,item_id,timestamp\na,hat,1396867869\n")
    ...     raw = read_csv(file, Columns(session="visit"))
    >>> raw.clicks.rows(), raw.items["id"].to_list()
    ([(0, 0, 1396867869.0, 0)], ['hat'])
    """
    return clicks_of(csv_table(source), "csv", columns, session_gap)


def read_parquet(source: Path, columns: Columns, session_gap: float | None = None) -> RawClicks:
    """Read clicks from a Parquet file."""
    return clicks_of(parquet_table(source), "parquet", columns, session_gap)


def csv_table(source: Path) -> Table:
    """Read a CSV file; the separator is the one that divides its header most."""
    delimited = Delimited(source, max(SEPARATORS, key=first_line(source).count))
    return Table(source, delimited.read(), delimited.line_of)


def parquet_table(source: Path) -> Table:
    """Read a Parquet file."""
    try:
        rows = pl.read_parquet(source)
    except PolarsError as error:
        raise BadInputError(
            f"{source}: cannot be read as Parquet ({str(error).splitlines()[0]})"
        ) from error
    return Table(source, rows, lambda row: f"row {row + 1:,}")


def describe_items(raw: RawClicks, items: Table, columns: Columns) -> RawClicks:
    """Return the clicks with the titles and categories of a table of items."""
    described = {ID: items.ids(columns.item or "item_id", "--item-column")}
    for name, column, flag in (
        (TITLE, columns.title, "--title-column"),
        (CATEGORY, columns.category, "--category-column"),
    ):
        texts = items.texts(column, name, flag)
        described[name] = _blank(items) if texts is None else texts
    table = pl.DataFrame(described).unique(ID, keep="last")
    joined = raw.items.select(ID).join(table, on=ID, how="left", maintain_order="left")
    if joined.select(pl.all_horizontal(pl.col(TITLE, CATEGORY).is_null().all())).item():
        raise BadInputError(
            f"{items.source}: it describes none of the items that are clicked; name its columns "
            "with --item-column, --title-column and --category-column"
        )
    return RawClicks(raw.source, raw.format, raw.clicks, joined, raw.clock, raw.unusable)


def without_blanks(column: pl.Series) -> pl.Series:
    """Return text with null for what is empty, or NaN as pandas writes what is missing."""
    return column.set(column.is_in(["", "NaN", "nan"]), None)


def clicks_of(
    table: Table, form: str, columns: Columns, session_gap: float | None = None
) -> RawClicks:
    """Return the clicks of a table, its columns named; without sessions, those are cut."""
    times = table.times(columns.time or "timestamp")
    user = columns.user or "user_id"
    if session_gap is not None:
        users = table.ids(user, "--user-column")
        sessions = cut_sessions(users, times, session_gap)
    elif columns.session is None and not table.has("session_id") and table.has(user):
        raise BadInputError(
            f"{table.source}: no column 'session_id', but there is {user!r}: cut each user's "
            "clicks into sessions with --session-gap 30m, or name the column with --session-column"
        )
    else:
        sessions = table.ids(columns.session or "session_id", "--session-column")
    found = {
        SESSION: sessions,
        ITEM: table.ids(columns.item or "item_id", "--item-column"),
        TIME: times,
        TITLE: table.texts(columns.title, TITLE, "--title-column"),
        CATEGORY: table.texts(columns.category, CATEGORY, "--category-column"),
    }
    rows = pl.DataFrame({name: column for name, column in found.items() if column is not None})
    return raw_clicks(
        rows.with_columns(pl.lit(0).alias(FILE)),
        source=table.source,
        format=form,
        clock=True,
        line_of=table.line_of,
    )


def _blank(table: Table) -> pl.Series:
    return pl.Series([None], dtype=pl.String).new_from_index(0, table.rows.height)


def cut_sessions(users: pl.Series, times: pl.Series, gap: float) -> pl.Series:
    """Return a session id for each click: a new one after every pause longer than `gap` seconds.

    Examples
    --------
    >>> users, times = pl.Series(["u", "v", "u", "u"]), pl.Series([0.0, 5.0, 4000.0, 100.0])
    >>> cut_sessions(users, times, gap=1800).to_list()
    ['1', '3', '2', '1']
    """
    clicks = pl.DataFrame({"user": users, "time": times}).with_row_index("row")
    begins = (pl.col("user") != pl.col("user").shift()) | (pl.col("time").diff() > gap)
    cut = (
        clicks.drop_nulls()
        .sort("user", "time", "row")
        .select("row", begins.fill_null(value=True).cum_sum().cast(pl.String).alias("session"))
    )
    return clicks.join(cut, on="row", how="left", maintain_order="left")["session"]
