"""A lock that threads take in turns."""

from __future__ import annotations

import threading


class Turns:
    """A lock that goes to a thread that waits, before the one that had it can have it again.

    `threading.Lock` does not promise that: a thread that wants it all the time, because there are
    always questions to be answered, leaves others waiting for ever.

    Examples
    --------
    >>> turns = Turns()
    >>> with turns:
    ...     pass
    """

    def __init__(self) -> None:
        self._next = threading.Lock()
        self._now = threading.Lock()

    def __enter__(self) -> None:
        with self._next:  # who waits for the other lock holds this one
            self._now.acquire()

    def __exit__(self, *_: object) -> None:
        self._now.release()
