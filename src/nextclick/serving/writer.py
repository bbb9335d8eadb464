"""The writer: appends to the log what has come meanwhile, and acknowledges what is on disk."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from nextclick.serving.futures import promised
from nextclick.serving.live import Live
from nextclick.serving.log import CLICK, Log, Record
from nextclick.serving.messages import (
    DiskFullError,
    Kept,
    LogFailedError,
    NewClick,
    ServiceError,
)
from nextclick.serving.worker import Worker

_log = logging.getLogger(__name__)


AT_ONCE = 1_000
"""How many requests share a commit at most."""

GATHER = 0.002
"""Seconds between two commits where several clicks come in such a time; an answer takes longer."""

CHECKPOINT_SECONDS = 2.0
"""How often what was appended is moved into the database file."""


@dataclass(frozen=True, eq=False)
class _Write:
    """Clicks, or a record of another kind, and who waits for them."""

    clicks: Sequence[NewClick]
    record: Record | None
    future: Future[list[Kept]]


class Writer:
    """The one thread that writes to the log.

    Whatever waits when a commit ends goes into the next one together, so that the disk's time to
    sync is shared.

    Parameters
    ----------
    log
        The log.
    live
        What takes records as soon as they are on disk.
    kept
        Told of the same records, in order.
    """

    def __init__(self, log: Log, live: Live, kept: Callable[[Sequence[Record]], None]) -> None:
        self.log = log
        self.duplicates = 0
        self.refused = 0
        self._live = live
        self._kept = kept
        self._old: tuple[int, float] | None = None
        self._error: str | None = None
        self._closing = threading.Event()
        self._moved = threading.Event()
        self.worker: Worker[_Write] = Worker(
            "writer",
            self._handle,
            self._give_back,
            AT_ONCE,
            patience=lambda: None if self._old is None else 0,
        )
        self._checkpointer = threading.Thread(
            target=self._checkpoint, name="checkpointer", daemon=True
        )
        self.worker.start()
        self._checkpointer.start()

    @property
    def error(self) -> str | None:
        """What keeps clicks from being taken, if something does."""
        return self._error or self.worker.defect

    def click(self, clicks: Sequence[NewClick]) -> Future[list[Kept]]:
        """Append clicks that were not kept before."""
        return self._put(_Write(clicks, None, promised()))

    def append(self, kind: str, item: str | None = None, body: str | None = None) -> Future[Any]:
        """Append a record of another kind."""
        return self._put(_Write((), Record(0, kind, 0.0, item=item, body=body), promised()))

    def forget(self, number: int, arrived: float) -> None:
        """Delete, little by little, the records up to a number that arrived before a time."""
        self._old = (number, arrived)
        self._put(_Write((), None, promised()))  # so that a writer without work begins

    def close(self) -> None:
        """Write what was sent, and end."""
        self._closing.set()
        self.worker.close()
        self._checkpointer.join()

    def _put(self, write: _Write) -> Future[list[Kept]]:
        self.worker.mailbox.put(write)
        return write.future

    def _handle(self, writes: Sequence[_Write]) -> None:
        begun = time.monotonic()
        if writes:
            self._commit(writes)
        self._clean_up()
        if len(writes) > 1:  # there are several who click: let the next commit be shared
            time.sleep(max(0.0, begun + GATHER - time.monotonic()))

    def _commit(self, writes: Sequence[_Write]) -> None:
        try:
            group = _Group(self.log)
            answers = [group.add(write) for write in writes]
            if group.records:
                self._append(group.records)
        except DiskFullError as error:
            if len(writes) > 1:  # there may be space for some
                for write in writes:
                    self._commit([write])
            else:
                self._refuse(writes, error)
            return
        except Exception as error:
            self._refuse(writes, error)
            return
        for record in group.records:
            self._live.apply(record)
        if group.records:
            self._kept(group.records)
        self.duplicates += sum(kept.duplicate for answer in answers for kept in answer)
        for write, answer in zip(writes, answers, strict=True):
            write.future.set_result(answer)

    def _append(self, records: Sequence[Record]) -> None:
        if self._error:
            raise LogFailedError(f"{self._error}; start the service again when the disk is well")
        try:
            self.log.append(records)
        except LogFailedError as error:
            # After a failed sync nobody knows what is on disk: only reading it anew tells. One that
            # was refused may be there: its sender was told so.
            self._error = str(error)
            raise

    def _refuse(self, writes: Sequence[_Write], error: Exception) -> None:
        self.refused += sum(len(write.clicks) for write in writes)
        for write in writes:
            write.future.set_exception(error)

    def _give_back(self, write: _Write, error: Exception) -> None:
        if not write.future.done():
            self._refuse([write], error)

    def _clean_up(self) -> None:
        """Do a little of what can wait."""
        try:
            if self._old is not None and not self.log.forget(*self._old):
                self._old = None
            if self._moved.is_set():
                self._moved.clear()
                self.log.checkpoint(writing=True)
        except (ServiceError, sqlite3.Error) as error:
            self._old = None
            _log.warning("%s: cleaning up has to wait: %s", self.log.path, error)

    def _checkpoint(self) -> None:
        """Move what was appended into the database file, where commits need not wait for it."""
        moved = 0
        while not self._closing.wait(CHECKPOINT_SECONDS):
            if self.log.last == moved:
                continue
            moved = self.log.last
            try:
                self.log.checkpoint(writing=False)
            except sqlite3.Error as error:
                _log.warning("%s: a checkpoint has to wait: %s", self.log.path, error)
            self._moved.set()


class _Group:
    """Records that go to disk together."""

    def __init__(self, log: Log) -> None:
        self.records: list[Record] = []
        self._log = log
        self._arrived = log.clock.arrive()
        self._events: dict[tuple[str, str], int] = {}

    def add(self, write: _Write) -> list[Kept]:
        """Add what is new, and say what becomes of each."""
        if write.record is not None:
            return [self._append(write.record)]
        return [self._known(click) or self._append(_record(click)) for click in write.clicks]

    def _known(self, click: NewClick) -> Kept | None:
        if click.event_id is None:
            return None
        event = click.session, click.event_id
        number = self._events.get(event) or self._log.find_event(*event)
        if number is not None:
            return Kept(number, duplicate=True)
        self._events[event] = self._log.last + len(self.records) + 1
        return None

    def _append(self, record: Record) -> Kept:
        number = self._log.last + len(self.records) + 1
        self.records.append(record._replace(number=number, arrived=self._arrived))
        return Kept(number, duplicate=False)


def _record(click: NewClick) -> Record:
    timestamp = None if click.timestamp is None else float(click.timestamp)
    return Record(0, CLICK, 0.0, click.session, click.item, timestamp, click.event_id)
