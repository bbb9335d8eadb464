"""Timestamps as seconds since 1970: numbers in s, ms, µs or ns, ISO 8601 text, dates."""

from __future__ import annotations

import re
from datetime import datetime

import polars as pl

from nextclick.errors import BadInputError

UNITS = ((1e17, 1e9, "nanoseconds"), (1e14, 1e6, "microseconds"), (1e11, 1e3, "milliseconds"))
"""From which number on a timestamp is in which unit: 1e11 seconds are in the year 5138, 1e11
milliseconds in 1973."""

ISO_FORMATS = (
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f%#z",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%dT%H:%M%#z",
    "%Y-%m-%d",
)

DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)")
SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


class UnreadableTimestampError(Exception):
    """A timestamp cannot be read.

    Parameters
    ----------
    row
        Its place in the column.
    reason
        What is wrong with it, and the way out.
    """

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason


def to_seconds(column: pl.Series) -> pl.Series:
    """Return timestamps as seconds since 1970; what is missing, or NaN, is null.

    Text without a time zone is taken as UTC.

    Examples
    --------
    >>> to_seconds(pl.Series(["2014-04-07T10:51:09.5Z", "2014-04-07 12:51:09+02:00"])).to_list()
    [1396867869.5, 1396867869.0]
    >>> to_seconds(pl.Series([1396867869500, None])).to_list()
    [1396867869.5, None]
    """
    if column.dtype.is_temporal() and column.dtype in (pl.Date, pl.Datetime):
        return column.cast(pl.Datetime("us")).dt.epoch("us").cast(pl.Float64) / 1e6
    if column.dtype.is_numeric():
        return _scaled(column.cast(pl.Float64).fill_nan(None))
    if column.dtype != pl.String:
        raise UnreadableTimestampError(0, f"a column of type {column.dtype} holds no timestamps")
    text = column.str.strip_chars()
    text = text.set(text.str.to_lowercase().is_in(["", "nan"]), None)
    first = text.drop_nulls().head(1).cast(pl.Float64, strict=False)
    return _scaled(_numbers(text)) if first.null_count() == 0 else _from_iso(text)


def to_duration(value: object) -> object:
    """Return a duration such as "30m" in seconds; anything but text as it is.

    Examples
    --------
    >>> to_duration("30m"), to_duration("1.5 h"), to_duration(90)
    (1800.0, 5400.0, 90)
    """
    if not isinstance(value, str):
        return value
    match = DURATION.fullmatch(value.strip())
    if match is None:
        raise BadInputError(f"{value!r} is not a duration; write it as 90s, 30m, 2h or 1d")
    return float(match[1]) * SECONDS[match[2]]


def _numbers(text: pl.Series) -> pl.Series:
    numbers = text.cast(pl.Float64, strict=False)
    _refuse(text, numbers, "is not a number, as the timestamps before it are")
    return numbers


def _scaled(numbers: pl.Series) -> pl.Series:
    """Return numbers as seconds; the largest one tells their unit, and all must be in it."""
    infinite = numbers.is_infinite().arg_true()
    if len(infinite):
        raise UnreadableTimestampError(int(infinite[0]), "the timestamp is infinite")
    largest = numbers.abs().max()
    for least, per_second, unit in UNITS:
        if isinstance(largest, float) and largest >= least:
            smaller = ((numbers.abs() < least) & (numbers != 0)).arg_true()
            if len(smaller):
                row = int(smaller[0])
                raise UnreadableTimestampError(
                    row,
                    f"the timestamp {numbers[row]:.15g} is too small to be in {unit}, as others in "
                    "this column are; give all of them in one unit",
                )
            return numbers / per_second
    return numbers


def _from_iso(text: pl.Series) -> pl.Series:
    normal = text.str.replace(r"^(\d{4}-\d{2}-\d{2})[ t]", "${1}T").str.replace(
        r"\s*(?:Z|z|UTC)$", ""
    )
    seconds = pl.Series([None], dtype=pl.Float64).new_from_index(0, len(text))
    for form in ISO_FORMATS:
        if seconds.null_count() == text.null_count():
            break
        times = normal.str.to_datetime(form, strict=False, time_unit="us")
        seconds = seconds.zip_with(
            seconds.is_not_null(), times.dt.epoch("us").cast(pl.Float64) / 1e6
        )
    _refuse(
        text,
        seconds,
        f"does not parse; write ISO 8601, as {datetime(2014, 4, 7, 10, 51).isoformat()}Z, or "
        "seconds or milliseconds since 1970",
    )
    return seconds


def _refuse(text: pl.Series, parsed: pl.Series, reason: str) -> None:
    failed = (text.is_not_null() & parsed.is_null()).arg_true()
    if len(failed):
        row = int(failed[0])
        raise UnreadableTimestampError(row, f"the timestamp {text[row][:40]!r} {reason}")
