"""How much a service takes on: each limit has a name, which the refusal says."""

from __future__ import annotations

from time import monotonic

from pydantic import Field

from nextclick.catalog import MAX_ID_BYTES
from nextclick.serving.refusals import over_limit
from nextclick.settings import Settings

MOST_CLICKS = 1_000
"""How many clicks one request may bring."""

MOST_CONTEXTS = 100
"""For how many contexts one request may ask."""

MOST_RECOMMENDATIONS = 1_000
"""How many recommendations one context may get."""

MOST_ITEMS = 1_000
"""How many items one list may name: those of a context, or those to leave out."""

MOST_CATEGORIES = 100
"""How many categories one list may name."""


class Limits(Settings):
    """What an operator can set about how much a service takes on.

    Parameters
    ----------
    body_bytes
        Size of a request's body.
    import_bytes
        Size of the body of an import.
    line_bytes
        Length of one line of an import.
    header_bytes
        Size of a request's line and headers.
    in_flight
        Requests that are being answered at a time.
    connections
        Open connections.
    rate
        Requests per second for each key, or for all that come without one; as many may come at
        once.
    request_seconds
        For how long a client may take to send its headers, each part of its body, or to take what
        it is sent.
    """

    body_bytes: int = Field(default=1_000_000, ge=1_000)
    import_bytes: int = Field(default=1_000_000_000, ge=1_000)
    line_bytes: int = Field(default=10_000, ge=100)
    header_bytes: int = Field(default=32_768, ge=1_000)
    in_flight: int = Field(default=1_000, ge=1)
    connections: int = Field(default=20_000, ge=1)
    rate: float = Field(default=10_000, gt=0)
    request_seconds: float = Field(default=20, gt=0)


class Rate:
    """Lets through so many requests per second, and as many at once after a quiet time.

    Examples
    --------
    >>> rate = Rate(1.0)
    >>> rate.take()
    >>> rate.take()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    nextclick.serving.refusals.RefusalError: more than 1 requests in a second; ...
    """

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._most = max(per_second, 1.0)
        self._left = self._most
        self._seen = monotonic()

    def take(self) -> None:
        """Count a request, or refuse it."""
        now = monotonic()
        self._left = min(self._most, self._left + (now - self._seen) * self._per_second)
        self._seen = now
        if self._left < 1:
            raise over_limit(
                "rate",
                self._per_second,
                f"more than {self._per_second:g} requests in a second; send fewer, or try again",
                status=429,
                code="too_many_requests",
                headers={"retry-after": "1"},
            )
        self._left -= 1


def check_id(id_: str, field: str) -> str:
    """Return an id that is short enough and can be written down, or refuse it.

    Examples
    --------
    >>> check_id("blue shoes", "item_id")
    'blue shoes'
    """
    if len(id_) > MAX_ID_BYTES or (not id_.isascii() and len(id_.encode()) > MAX_ID_BYTES):
        raise over_limit(
            "id_bytes", MAX_ID_BYTES, f"an id has at most {MAX_ID_BYTES:,} bytes", field=field
        )
    return id_


def check_length(n: int, most: int, name: str, what: str, field: str | None = None) -> None:
    """Refuse a list that is too long.

    Examples
    --------
    >>> check_length(3, 2, "clicks", "clicks in a request")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    nextclick.serving.refusals.RefusalError: 3 clicks in a request; at most 2 are taken ...
    """
    if n > most:
        raise over_limit(name, most, f"{n:,} {what}; at most {most:,} are taken", field=field)
