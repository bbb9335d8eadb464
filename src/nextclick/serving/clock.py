"""The clock of the log, which never goes back."""

from __future__ import annotations

import time


class LogClock:
    """Tells when records arrive: the machine's time, or later where that was put back.

    A machine's clock may be set, backwards too. What follows from the order and the distance of
    arrivals (which sessions are open, which records are old) is to go on meanwhile: while the
    machine's time is behind what the log has seen, this clock goes on from there.

    Parameters
    ----------
    last
        When the last record arrived.

    Examples
    --------
    >>> LogClock(0.0).now() - time.time() < 1
    True
    >>> ahead = LogClock(time.time() + 3600)
    >>> 3599 < ahead.now() - time.time() < 3601
    True
    """

    def __init__(self, last: float) -> None:
        self._seen = (last, time.monotonic())

    def now(self) -> float:
        """Return the time."""
        last, seen = self._seen
        return max(time.time(), last + time.monotonic() - seen)

    def arrive(self) -> float:
        """Return the time for a record that arrives now, and go on from there."""
        now = self.now()
        self._seen = (now, time.monotonic())
        return now
