"""Where the test part and the validation part begin: always at a point in time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from nextclick.clicks import Floats, Ints
from nextclick.errors import BadInputError

TEST_SHARE = 0.1
"""The last share of the sessions that is the test part when nothing is said."""

DAY = 86_400.0


@dataclass(frozen=True, eq=False)
class SessionStarts:
    """When each session begins, sessions in that order.

    Parameters
    ----------
    times
        The time of each session's first click.
    files
        The number of the file that each session's first click is in.
    n_files
        How many files there are.
    last_click
        The time of the last click of all.
    clock
        Whether times are seconds since 1970.
    """

    times: Floats
    files: Ints
    n_files: int
    last_click: float
    clock: bool

    def __len__(self) -> int:
        return len(self.times)


def last_sessions(starts: SessionStarts, n: int) -> int:
    """Return the first of the last `n` sessions."""
    if n >= len(starts):
        raise BadInputError(
            f"the test part is to have {n:,} sessions, and there are {len(starts):,} in all; "
            "ask for fewer, so that some are left to train on"
        )
    return len(starts) - n


def last_days(starts: SessionStarts, days: float) -> int:
    """Return the first session that begins in the last days."""
    _need_clock(starts, "days")
    return _from_time(starts, starts.last_click - days * DAY, f"the last {days:g} days")


def from_date(starts: SessionStarts, date: datetime) -> int:
    """Return the first session that begins on or after a date; without a time zone it is UTC."""
    _need_clock(starts, "dates")
    aware = date if date.tzinfo else date.replace(tzinfo=UTC)
    return _from_time(starts, aware.timestamp(), f"the part from {date.isoformat()} on")


def last_files(starts: SessionStarts, n: int) -> int:
    """Return the first session that begins in the last `n` files."""
    if starts.n_files == 1:
        raise BadInputError(
            "a test part of whole files needs data in several period files, and this is one file; "
            "split by sessions, days or a date"
        )
    if n >= starts.n_files:
        raise BadInputError(
            f"the test part is to have {n} files, and there are {starts.n_files}; "
            "ask for fewer, so that some are left to train on"
        )
    return int(np.searchsorted(starts.files, starts.n_files - n))


def last_share(starts: SessionStarts, share: float = TEST_SHARE) -> int:
    """Return the first session of the last share."""
    return len(starts) - max(1, _rounded(share * len(starts)))


def validation_start(n_sessions: int, share: float) -> int:
    """Return the first of the last sessions of `n_sessions` that are the validation part.

    Examples
    --------
    >>> 145_549 - validation_start(145_549, 0.1)
    14555
    """
    if not 0 <= share < 1:
        raise BadInputError(f"a validation share of {share:g}; give a number from 0 to below 1")
    if not share:
        return n_sessions
    start = n_sessions - max(1, _rounded(share * n_sessions))
    if start < 1:
        raise BadInputError(
            f"{n_sessions} sessions before the test part are too few to cut a validation part from "
            "and leave some to train on; use more data, or a validation share of 0"
        )
    return start


def _rounded(value: float) -> int:
    """Round halves up: Python rounds them to even."""
    return math.floor(value + 0.5)


def _need_clock(starts: SessionStarts, what: str) -> None:
    if not starts.clock:
        raise BadInputError(
            f"this data has no timestamps, only an order, and cannot be split by {what}; "
            "split by sessions, or by files"
        )


def _from_time(starts: SessionStarts, time: float, part: str) -> int:
    start = int(np.searchsorted(starts.times, time))
    if 0 < start < len(starts):
        return start
    first, last = (
        datetime.fromtimestamp(starts.times[i], UTC).isoformat(" ", "seconds") for i in (0, -1)
    )
    held = "no session" if start else "every session"
    raise BadInputError(
        f"{part} holds {held}: the first one begins {first}, the last one {last}; "
        "choose a test part between the two"
    )
