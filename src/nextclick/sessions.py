"""Open sessions: what each visitor clicked, as far as a recommendation wants to know."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

FIRST_NUMBER = 2**30
"""Sessions are numbered from here on, so that none has the number of a session trained on."""


class OpenSession(NamedTuple):
    """A session as it stands; never changed, but replaced by what it becomes.

    Parameters
    ----------
    number
        What learners know the session by.
    items
        Its last clicks' items, most recent last.
    time
        When its last click was, by the clock of those who clicked.
    arrived
        When its last click arrived, by the clock of the log.
    """

    number: int
    items: tuple[str, ...]
    time: float
    arrived: float


class Sessions:
    """The sessions that go on; a function of the clicks in the order they are given.

    A session ends when nothing arrives for it during `idle` seconds: a later click under the same
    id begins a new one. When there are more than `limit`, those that waited longest end too.

    Parameters
    ----------
    idle
        After how many seconds without a click a session ends.
    length
        How many of a session's last clicks are kept.
    limit
        How many sessions are open at most.

    Examples
    --------
    >>> sessions = Sessions(idle=1800)
    >>> sessions.click("anna", "shoes", time=10, arrived=10)
    >>> sessions.click("anna", "socks", time=20, arrived=20).items
    ('shoes',)
    >>> sessions.get("anna").items
    ('shoes', 'socks')
    >>> sessions.click("anna", "hat", time=9_000, arrived=9_000) is None
    True
    """

    def __init__(self, idle: float = 1800, length: int = 200, limit: int = 1_000_000) -> None:
        self.idle = idle
        self.length = length
        self.limit = limit
        self.begun = 0
        self._open: OrderedDict[str, OpenSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[tuple[str, OpenSession]]:
        return iter(self._open.items())

    def get(self, session: str) -> OpenSession | None:
        """Return a session, or `None` if none is open under this id."""
        return self._open.get(session)

    def click(self, session: str, item: str, time: float, arrived: float) -> OpenSession | None:
        """Take a click; return the session as it was before it, `None` if it begins one.

        Parameters
        ----------
        session, item
            Their external ids.
        time
            When it was clicked; may be anything, as it comes from outside.
        arrived
            When it arrived: never decreasing.
        """
        self._end_idle(arrived)
        before = self._open.get(session)
        if before is None:
            number = FIRST_NUMBER + self.begun % FIRST_NUMBER
            self.begun += 1
            self._open[session] = OpenSession(number, (item,), time, arrived)
            while len(self._open) > self.limit:
                self._open.popitem(last=False)
        else:
            items = (*before.items[1 - self.length :], item) if self.length > 1 else (item,)
            self._open[session] = OpenSession(before.number, items, time, arrived)
            self._open.move_to_end(session)
        return before

    def follow(self, idle: float, length: int, limit: int) -> None:
        """Follow these rules from now on."""
        self.idle, self.length, self.limit = idle, length, limit

    def copy(self) -> Sessions:
        """Return sessions that go on apart from these."""
        rules = {"idle": self.idle, "length": self.length, "limit": self.limit}
        return Sessions.of(self._open.items(), self.begun, **rules)

    @classmethod
    def of(cls, open_: Iterable[tuple[str, OpenSession]], begun: int, **rules: Any) -> Sessions:
        """Return sessions of which these are open, and so many ever began.

        Parameters
        ----------
        open_
            The open ones, the one that waited longest first.
        begun
            How many there ever were.
        rules
            As for `follow`.
        """
        sessions = cls(**rules)
        sessions._open = OrderedDict(open_)
        sessions.begun = begun
        return sessions

    def _end_idle(self, now: float) -> None:
        while self._open:
            oldest = next(iter(self._open))
            if now - self._open[oldest].arrived <= self.idle:
                return
            del self._open[oldest]
