"""A queue that can be closed: what was put in before is taken out, and nothing is after."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from nextclick.serving.messages import ClosedError

Letter = TypeVar("Letter")


class Mailbox(Generic[Letter]):
    """A queue between threads.

    Examples
    --------
    >>> box = Mailbox()
    >>> box.put(1), box.put(2), box.put(3), box.close()
    (None, None, None, None)
    >>> box.get(at_once=2), box.get(at_once=2)
    ([1, 2], [3])
    >>> box.get()
    Traceback (most recent call last):
        ...
    nextclick.serving.messages.ClosedError: the service is stopping
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Letter | None] = queue.SimpleQueue()
        self._turn = threading.Lock()
        self._refuse: Callable[[], Exception] | None = None

    def __len__(self) -> int:
        return self._queue.qsize()

    def put(self, letter: Letter) -> None:
        """Put something in; refused when closed or abandoned."""
        with self._turn:
            if self._refuse is not None:
                raise self._refuse()
            self._queue.put(letter)

    def close(self) -> None:
        """Take nothing in any more."""
        with self._turn:
            self._refuse = self._refuse or _stopping
            self._queue.put(None)

    def abandon(self, refuse: Callable[[], Exception]) -> list[Letter]:
        """Refuse with such an error whatever comes from now on; return what nobody took out."""
        with self._turn:
            self._refuse = refuse
            left = []
            while not self._queue.empty():
                left.append(self._queue.get())
            return [letter for letter in left if letter is not None]

    def get(self, at_once: int = 1, timeout: float | None = None) -> list[Letter]:
        """Wait for something, and take what there is; nothing if time is up.

        Raises `ClosedError` when it is closed and nothing is left.
        """
        try:
            letters = [self._queue.get(timeout=timeout)]
        except queue.Empty:
            return []
        while letters[-1] is not None and len(letters) < at_once and not self._queue.empty():
            letters.append(self._queue.get())
        found = [letter for letter in letters if letter is not None]
        if len(found) < len(letters):
            self._queue.put(None)  # for the next one who asks
            if not found:
                raise _stopping()
        return found


def _stopping() -> ClosedError:
    return ClosedError("the service is stopping")
