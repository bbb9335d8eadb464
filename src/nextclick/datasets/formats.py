"""The formats that clicks are read from: which one a source is in, and its reader."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from nextclick.datasets import diginetica, tables, yoochoose
from nextclick.datasets.delimited import first_line, is_gzip
from nextclick.datasets.periods import PERIOD_FILE, period_files, read_periods
from nextclick.datasets.published import PUBLISHED, default_folder
from nextclick.datasets.raw import RawClicks
from nextclick.datasets.timestamps import to_duration
from nextclick.errors import BadInputError
from nextclick.files import MANIFEST
from nextclick.settings import Settings

Format: TypeAlias = Literal["csv", "parquet", "diginetica", "yoochoose", "periods"]

PARQUET_MAGIC = b"PAR1"
ARCHIVES = {b"PK\x03\x04": "a zip archive", b"7z\xbc\xaf": "a 7z archive", b"BZh": "a bzip2 file"}
DATA_FILES = (diginetica.DATA_FILE, yoochoose.DATA_FILE)
PERIOD_LINE = re.compile(r"\d+ \d+")

Seconds = Annotated[float, BeforeValidator(to_duration), Field(gt=0)]


class ReadSettings(Settings):
    """How a source of clicks is read.

    Parameters
    ----------
    format
        The format; found out when not given.
    session_column, item_column, time_column, user_column
        What the columns are called, in CSV and Parquet files: `session_id`, `item_id`, `timestamp`
        and `user_id` when not given.
    title_column, category_column
        The columns that describe the items, in the items file if there is one: `title` and
        `category`, where they exist, when not given.
    session_gap
        After which pause of a user a new session begins, in seconds or as "30m"; for logs that have
        users and no sessions.
    items_file
        A CSV or Parquet file with the titles and categories of the items.
    """

    format: Format | None = None
    session_column: str | None = None
    item_column: str | None = None
    time_column: str | None = None
    user_column: str | None = None
    title_column: str | None = None
    category_column: str | None = None
    session_gap: Seconds | None = None
    items_file: Path | None = None


def read_clicks(source: Path, settings: ReadSettings | None = None) -> RawClicks:
    """Read clicks in any of the formats.

    Parameters
    ----------
    source
        A file, or the directory of a published data set.
    settings
        How it is read.
    """
    settings = ReadSettings() if settings is None else settings
    clicks = _clicks_in(source)
    raw = _read(clicks, settings.format or detect(clicks), settings)
    return raw if settings.items_file is None else _described(raw, settings.items_file, settings)


def detect(source: Path) -> Format:
    r"""Find out in which format a source is.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "clicks.csv"
    ...     _ = file.write_text("SessionId,ItemId,Time\n1,2,3\n")
    ...     detect(file)
    'yoochoose'
    """
    if source.is_dir():
        return "periods"
    with source.open("rb") as file:
        start = file.read(65_536)
    if start.startswith(PARQUET_MAGIC):
        return "parquet"
    _check_text(source, start)
    line = first_line(source)
    if set(diginetica.COLUMNS) <= {diginetica.plain_name(name) for name in line.split(";")}:
        return "diginetica"
    if yoochoose.PUBLISHED_LINE.fullmatch(line) or yoochoose.has_header(line):
        return "yoochoose"
    if PERIOD_FILE.fullmatch(source.name) or PERIOD_LINE.fullmatch(line):
        return "periods"
    return "csv"


def _clicks_in(source: Path) -> Path:
    """Return the file with the clicks in a directory, or the directory if it is all of it."""
    if not source.exists() and str(source) in PUBLISHED:
        source = default_folder(str(source)) if default_folder(str(source)).is_dir() else source
    if not source.exists():
        raise BadInputError(f"{source}: no such file or directory{_fetch_hint(source)}")
    if not source.is_dir() or period_files(source):
        return source
    if (source / MANIFEST).exists():
        raise BadInputError(
            f"{source}: this is what nextclick wrote, not clicks; if it is prepared data, it needs "
            "no preparing again"
        )
    for name in DATA_FILES:
        if (source / name).is_file():
            return source / name
    raise BadInputError(
        f"{source} is a directory without period_0.txt, {' or '.join(DATA_FILES)} in it; "
        "give the name of the file that holds the clicks"
    )


def _fetch_hint(source: Path) -> str:
    name = str(source)
    return f"; get it with nextclick data fetch {name}" if name in PUBLISHED else ""


def _check_text(source: Path, start: bytes) -> None:
    if not start.strip():
        raise BadInputError(f"{source}: the file is empty")
    for magic, kind in ARCHIVES.items():
        if start.startswith(magic):
            raise BadInputError(f"{source}: this is {kind}; unpack it first")
    if not is_gzip(source) and b"\0" in start:
        raise BadInputError(
            f"{source}: neither text nor Parquet; clicks are read from CSV, Parquet "
            "and the files of published data sets"
        )


def _read(source: Path, form: Format, settings: ReadSettings) -> RawClicks:
    if form in ("csv", "parquet"):
        read = tables.read_csv if form == "csv" else tables.read_parquet
        return read(source, _columns(settings), settings.session_gap)
    _check_fixed(source, form, settings)
    if form == "periods":
        return read_periods(source)
    return (
        diginetica.read_diginetica(source)
        if form == "diginetica"
        else (yoochoose.read_yoochoose(source))
    )


def _check_fixed(source: Path, form: Format, settings: ReadSettings) -> None:
    """Refuse to name columns of a format that has its own."""
    names = ["session_column", "time_column", "user_column", "session_gap"]
    if settings.items_file is None:
        names += ["item_column", "title_column", "category_column"]
    for name in names:
        if getattr(settings, name) is not None:
            raise BadInputError(
                f"{source}: files of the format {form} have columns of their own; leave out "
                f"--{name.replace('_', '-')}, or read it with --format csv"
            )


def _columns(settings: ReadSettings) -> tables.Columns:
    in_clicks = settings.items_file is None
    return tables.Columns(
        settings.session_column,
        settings.item_column,
        settings.time_column,
        settings.user_column,
        settings.title_column if in_clicks else None,
        settings.category_column if in_clicks else None,
    )


def _described(raw: RawClicks, file: Path, settings: ReadSettings) -> RawClicks:
    items = tables.parquet_table if detect(_clicks_in(file)) == "parquet" else tables.csv_table
    columns = tables.Columns(
        item=settings.item_column,
        title=settings.title_column,
        category=settings.category_column,
    )
    return tables.describe_items(raw, items(file), columns)
