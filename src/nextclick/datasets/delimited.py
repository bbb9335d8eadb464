"""Text files of separated columns, read as text; an error names the line."""

from __future__ import annotations

import csv
import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import polars as pl
from polars.exceptions import PolarsError

from nextclick.errors import BadInputError

GZIP_MAGIC = b"\x1f\x8b"
FIELD_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class Delimited:
    """A text file of separated columns.

    Parameters
    ----------
    path
        The file; it may be compressed with gzip.
    separator
        The character between two columns.
    names
        The columns' names where the file has no header; with `None` its first line names them.
    quoted
        Whether a double quote at the start of a field means that the separator may be in it.
    """

    path: Path
    separator: str
    names: tuple[str, ...] | None = None
    quoted: bool = True

    def read(self) -> pl.DataFrame:
        """Return all rows, every column as text, what is empty as null."""
        try:
            with readable(self.path):
                return self._read()
        except PolarsError as error:
            self._explain(error)
            raise BadInputError(
                f"{self.path}: cannot be read as text in columns: {str(error).splitlines()[0]}"
            ) from error

    def line_of(self, row: int) -> str:
        """Say on which line of the file a row is: "line 7"."""
        for number, (line, _) in enumerate(self._rows(), start=-1 if self.names is None else 0):
            if number == row:
                return f"line {line:,}"
        return f"row {row + 1:,}"

    def _read(self) -> pl.DataFrame:
        content: Path | bytes = self.path
        if is_gzip(self.path):
            with gzip.open(self.path) as file:
                content = file.read()
        return pl.read_csv(
            content,
            separator=self.separator,
            has_header=self.names is None,
            schema=None if self.names is None else dict.fromkeys(self.names, pl.String),
            quote_char='"' if self.quoted else None,
            infer_schema=False,
        )

    def _explain(self, error: PolarsError) -> None:
        """Name the first line that cannot be read, if it is a line's fault."""
        width = None if self.names is None else len(self.names)
        for line, fields in self._rows():
            width = len(fields) if width is None else width
            if fields and len(fields) != width:
                raise BadInputError(
                    f"{self.path}, line {line:,}: {len(fields)} columns where {width} are expected"
                    + ("; quote fields that hold the separator" if self.quoted else "")
                ) from error

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the line on which each row begins, and its fields: slow, for errors only."""
        line = 1
        with open_text(self.path) as file, _any_field_size():
            rows = csv.reader(
                file,
                delimiter=self.separator,
                quoting=csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE,
            )
            try:
                for fields in rows:
                    yield line, fields
                    line = rows.line_num + 1
            except UnicodeDecodeError as error:
                raise BadInputError(
                    f"{self.path}, near line {line:,}: not UTF-8 text; convert it, for example "
                    "with iconv -f latin1 -t utf-8"
                ) from error
            except csv.Error as error:
                raise BadInputError(f"{self.path}, line {line:,}: {error}") from error


def is_gzip(path: Path) -> bool:
    """Tell whether a file is compressed with gzip, whatever its name."""
    with path.open("rb") as file:
        return file.read(2) == GZIP_MAGIC


def first_line(path: Path) -> str:
    """Return the first line of a text file, as far as its first 64 KiB go, without its end."""
    with readable(path), open_text(path) as file:
        return file.readline(65_536).rstrip("\r\n")


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what can go wrong when a text file is read into an error that names it."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInputError(f"{path}: damaged gzip file ({error}); get it anew") from error
    except UnicodeDecodeError as error:
        raise BadInputError(
            f"{path}: not UTF-8 text; convert it, for example with iconv -f latin1 -t utf-8"
        ) from error


def open_text(path: Path) -> IO[str]:
    """Open a text file, compressed or not."""
    open_binary = gzip.open if is_gzip(path) else open
    binary = cast("IO[bytes]", open_binary(path, "rb"))
    return io.TextIOWrapper(binary, encoding="utf-8-sig", newline="")


@contextmanager
def _any_field_size() -> Iterator[None]:
    before = csv.field_size_limit(min(FIELD_LIMIT, sys.maxsize))
    try:
        yield
    finally:
        csv.field_size_limit(before)
