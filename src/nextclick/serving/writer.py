"""The writer: appends to the log what has come meanwhile, and acknowledges what is on disk."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from nextclick.serving.live import Live
from nextclick.serving.log import CLICK, Log, Record
from nextclick.serving.messages import Kept, NewClick


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
        self._queue: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def click(self, clicks: Sequence[NewClick]) -> Future[list[Kept]]:
        """Append clicks that were not kept before."""
        return self._put(_Write(clicks, None, Future()))

    def append(self, kind: str, item: str | None = None, body: str | None = None) -> Future[Any]:
        """Append a record of another kind."""
        return self._put(_Write((), Record(0, kind, 0.0, item=item, body=body), Future()))

    def close(self) -> None:
        """Write what was sent, and end."""
        self._queue.put(None)
        self._thread.join()

    def _put(self, write: _Write) -> Future[list[Kept]]:
        self._queue.put(write)
        return write.future

    def _run(self) -> None:
        going_on = True
        while going_on:
            writes = [self._queue.get()]
            while not self._queue.empty():
                writes.append(self._queue.get())
            going_on = None not in writes
            self._commit([write for write in writes if write is not None])

    def _commit(self, writes: Sequence[_Write]) -> None:
        try:
            group = _Group(self.log)
            answers = [group.add(write) for write in writes]
            if group.records:
                self.log.append(group.records)
        except Exception as error:
            self.refused += sum(len(write.clicks) for write in writes)
            for write in writes:
                write.future.set_exception(error)
            return
        for record in group.records:
            self._live.apply(record)
        if group.records:
            self._kept(group.records)
        self.duplicates += sum(kept.duplicate for answer in answers for kept in answer)
        for write, answer in zip(writes, answers, strict=True):
            write.future.set_result(answer)


class _Group:
    """Records that go to disk together."""

    def __init__(self, log: Log) -> None:
        self.records: list[Record] = []
        self._log = log
        self._arrived = max(time.time(), log.arrived)  # never back, whatever the clock does
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
