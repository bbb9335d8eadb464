"""Period files: one file per week or day, a line per click, in time order, without timestamps."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from nextclick.datasets.delimited import Delimited
from nextclick.datasets.raw import FILE, ITEM, SESSION, TIME, RawClicks, raw_clicks
from nextclick.errors import BadInputError

PERIOD_FILE = re.compile(r"period_(\d+)\.txt(\.gz)?")


def read_periods(source: Path) -> RawClicks:
    r"""Read a directory of period files, or one of them.

    A line is `session item`. The order of the lines, of all files one after the other, is the time:
    a click's time is the number of its line, and no session order but this one is in the files.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "period_0.txt").write_text("8 socks\n9 hat\n")
    ...     _ = (Path(folder) / "period_1.txt").write_text("8 shoes\n")
    ...     raw = read_periods(Path(folder))
    >>> raw.clicks.rows()
    [(0, 0, 0.0, 0), (1, 1, 1.0, 0), (0, 2, 2.0, 1)]
    """
    files = period_files(source) if source.is_dir() else [source]
    tables = [
        _read_period(file).with_columns(pl.lit(n).alias(FILE)) for n, file in enumerate(files)
    ]
    rows = pl.concat(tables).with_row_index(TIME).with_columns(pl.col(TIME).cast(pl.Float64))
    ends = pl.Series([table.height for table in tables]).cum_sum().to_list()

    def line_of(row: int) -> str:
        file = next(n for n, end in enumerate(ends) if row < end)
        start = ends[file - 1] if file else 0
        return f"{files[file].name}, {_delimited(files[file]).line_of(row - start)}"

    return raw_clicks(rows, source=source, format="periods", clock=False, line_of=line_of)


def period_files(folder: Path) -> list[Path]:
    """Return a directory's period files, by their number, none of them missing."""
    numbered = sorted(
        (int(match[1]), file)
        for file in folder.iterdir()
        if (match := PERIOD_FILE.fullmatch(file.name))
    )
    present = [number for number, _ in numbered]
    missing = sorted(set(range(present[0], present[-1] + 1)).difference(present)) if present else []
    if missing:
        raise BadInputError(
            f"{folder}: period_{missing[0]}.txt is missing, between period_{present[0]}.txt and "
            f"period_{present[-1]}.txt; get it, or leave out the files on one side of it"
        )
    return [file for _, file in numbered]


def _read_period(file: Path) -> pl.DataFrame:
    delimited = _delimited(file)
    rows = delimited.read()
    incomplete = (rows[SESSION].is_null() | rows[ITEM].is_null()).arg_true()
    if len(incomplete):
        raise BadInputError(
            f"{file}, {delimited.line_of(int(incomplete[0]))}: not of the form 'session item'"
        )
    return rows


def _delimited(file: Path) -> Delimited:
    return Delimited(file, " ", (SESSION, ITEM), quoted=False)
