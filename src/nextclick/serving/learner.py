"""The learner: takes the records of the log in their order, behind the writer."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from nextclick.serving.log import Record
from nextclick.serving.pupil import Learning

_log = logging.getLogger(__name__)


class Learner:
    """The one thread that changes what was learned.

    Parameters
    ----------
    learning
        What learns.
    flush
        Asks for a flush record: the open group has waited for `flush_after` seconds.
    rested
        Called on this thread whenever no batch is open.
    """

    def __init__(
        self, learning: Learning, flush: Callable[[], object], rested: Callable[[], object]
    ) -> None:
        self.learning = learning
        self.error: str | None = None
        self._flush = flush
        self._rested = rested
        self._queue: queue.SimpleQueue[Sequence[Record] | Future[Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="learner", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def take(self, records: Sequence[Record]) -> None:
        """Learn these records, when those before them are learned."""
        self._queue.put(records)

    def reached(self) -> Future[None]:
        """Return what is done when the learner has taken all that it was given until now."""
        future: Future[None] = Future()
        self._queue.put(future)
        return future

    def close(self) -> None:
        """Learn what was given, and end."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._next():
                pass
        except Exception as error:
            self.error = repr(error)
            _log.exception("the learner stopped; recommendations go on")

    def _next(self) -> bool:
        try:
            given = self._queue.get(timeout=self._patience())
        except queue.Empty:
            self._flush()
            given = self._queue.get()
        if isinstance(given, Future):
            given.set_result(None)
            return True
        for record in given or ():
            self.learning.take(record)
            if self.learning.at_rest:
                self._rested()
        return given is not None

    def _patience(self) -> float | None:
        """Return how long the open group may wait, `None` if there is none."""
        group = self.learning.course.group
        if not group:
            return None
        waited = time.time() - group[0].click.arrived
        return min(max(0.0, self.learning.settings.flush_after - waited), 60.0)
