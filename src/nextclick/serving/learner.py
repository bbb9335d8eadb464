"""The learner: takes the records of the log in their order, behind the writer."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from nextclick.serving.futures import promised
from nextclick.serving.learning import Learning
from nextclick.serving.log import Log, Record
from nextclick.serving.messages import DefectError, ServiceError
from nextclick.serving.worker import Worker

Result = TypeVar("Result")

BACKLOG = 100_000
"""Records that wait in memory; what comes when there are more is read from the log again."""

AGAIN = 1.0
"""After how many seconds a flush is asked for again."""

_log = logging.getLogger(__name__)


class _Call:
    """Something to be done on the learner's thread, between two records."""

    def __init__(self, do: Callable[[], Any]) -> None:
        self.do = do
        self.future = promised()


_Given: TypeAlias = Sequence[Record] | int | _Call
"""Records, a number that stands for those up to it, or a call."""


class Learner:
    """The one thread that changes what was learned.

    Parameters
    ----------
    learning
        What learns; it may be behind the log.
    log
        The log, for what is not in memory.
    flush
        Asks for a flush record, when the open group has waited for `flush_after` seconds.
    taken
        Called on this thread after records were taken.
    """

    def __init__(
        self,
        learning: Learning,
        log: Log,
        flush: Callable[[], object],
        taken: Callable[[], object],
    ) -> None:
        self.learning = learning
        self._log = log
        self._flush = flush
        self._taken = taken
        self._error: str | None = None
        self._stopping = False
        self._flushing = False
        self._arrivals: deque[tuple[int, float]] = deque()
        self.worker: Worker[_Given] = Worker(
            "learner", self._handle, _refuse, patience=self._patience
        )
        self.worker.mailbox.put(log.last)

    @property
    def error(self) -> str | None:
        """What stopped learning, if something did."""
        return self._error or self.worker.defect

    def start(self) -> None:
        """Begin, with what the log has already."""
        self.worker.start()

    def take(self, records: Sequence[Record]) -> None:
        """Learn these records, when those before them are learned."""
        if self.error:
            return
        last = records[-1]
        self._arrivals.append((last.number, last.arrived))
        # A plain number stands for records that are to be read from the log.
        far_behind = last.number - self.learning.position > BACKLOG
        with suppress(DefectError):  # the log has them
            self.worker.mailbox.put(last.number if far_behind else records)

    def call(self, do: Callable[[], Result]) -> Future[Result]:
        """Do something between two records, after all that was given until now."""
        call = _Call(do)
        self.worker.mailbox.put(call)
        return call.future

    def lag_seconds(self, now: float) -> float:
        """Return how long ago the oldest record arrived that no answer can know of yet."""
        group = list(self.learning.group)
        if group:
            return max(0.0, now - group[0].click.arrived)
        try:
            return max(0.0, now - self._arrivals[0][1])
        except IndexError:
            return 0.0

    def close(self) -> None:
        """End soon; what is not learned yet is in the log."""
        self._stopping = True
        self.worker.close()

    def _handle(self, letters: Sequence[_Given]) -> None:
        self._flushing = not letters
        if self._flushing:
            with suppress(ServiceError):  # what is given is still to be done
                self._flush()
            return
        for given in letters:
            if isinstance(given, _Call):
                self._do(given)
            elif not (self.error or self._stopping):
                try:
                    self._learn(given)
                except Exception as error:
                    self._error = f"{type(error).__name__}: {error}"
                    _log.exception("the learner stopped; clicks are kept, and answers go on")

    def _learn(self, given: Sequence[Record] | int) -> None:
        if not isinstance(given, int):
            self._take(given)
            return
        self.learning.hurried = True  # far behind, as after a start
        try:
            for records in self._log.read(self.learning.position, given):
                self._take(records)
                if self._stopping:
                    return
        finally:
            self.learning.hurried = False

    def _take(self, records: Sequence[Record]) -> None:
        for record in records:
            self.learning.take(record)
            if self._stopping:
                return
        while self._arrivals and self._arrivals[0][0] <= self.learning.position:
            self._arrivals.popleft()
        self._taken()

    def _do(self, call: _Call) -> None:
        try:
            if self.error:
                raise ServiceError(f"the learner has stopped: {self.error}")
            call.future.set_result(call.do())
        except Exception as error:
            call.future.set_exception(error)

    def _patience(self) -> float | None:
        """Return how long the open group may wait, `None` if there is none."""
        if self._flushing:  # a full disk takes no flush: it is asked again
            return AGAIN
        group = self.learning.group
        if not group or self.error:
            return None
        waited = self._log.clock.now() - group[0].click.arrived
        return min(max(0.0, self.learning.settings.flush_after - waited), 60.0)


def _refuse(given: _Given, error: Exception) -> None:
    if isinstance(given, _Call) and not given.future.done():
        given.future.set_exception(error)
