"""YOOCHOOSE as published: `yoochoose-clicks.dat` of the RecSys Challenge 2015, and its copies."""

from __future__ import annotations

import re
from pathlib import Path

from nextclick.datasets.delimited import Delimited, first_line
from nextclick.datasets.raw import RawClicks
from nextclick.datasets.tables import Columns, Table, clicks_of, csv_table
from nextclick.errors import BadInputError

DATA_FILE = "yoochoose-clicks.dat"
PUBLISHED_LINE = re.compile(r"\d+,\d{4}-\d{2}-\d{2}T[\d:.]+Z?,\d+,\w*")
HEADER = {"SessionId", "ItemId", "Time"}
"""The columns of the copies made for GRU4Rec (`rsc15_train_full.txt`)."""


def read_yoochoose(source: Path) -> RawClicks:
    r"""Read the clicks of YOOCHOOSE: as published, without header, or a copy made for GRU4Rec.

    The fourth column of the published file says from which page an item was opened, not what it is,
    and is left out.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "yoochoose-clicks.dat"
    ...     _ = file.write_text("1,2014-04-07T10:51:09.277Z,214536502,0\n")
    ...     raw = read_yoochoose(file)
    >>> raw.clicks["time"].to_list(), raw.items["id"].to_list()
    ([1396867869.277], ['214536502'])
    """
    line = first_line(source)
    if PUBLISHED_LINE.fullmatch(line):
        table = _published(source)
    elif has_header(line):
        table = csv_table(source)
    else:
        raise BadInputError(
            f"{source}, line 1: neither as published (1,2014-04-07T10:51:09Z,214536502,0) nor a "
            "header with SessionId, ItemId and Time; read a file of another form with --format csv"
        )
    return clicks_of(table, "yoochoose", Columns(session="SessionId", item="ItemId", time="Time"))


def has_header(line: str) -> bool:
    """Tell whether this is the first line of a copy made for GRU4Rec."""
    return set(re.split(r"[\t,;]", line)) >= HEADER


def _published(source: Path) -> Table:
    delimited = Delimited(source, ",", ("SessionId", "Time", "ItemId", "Page"))
    return Table(source, delimited.read().drop("Page"), delimited.line_of)
