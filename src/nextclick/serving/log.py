"""The click log: every record on disk before it counts, numbered, and with a checksum."""

from __future__ import annotations

import errno
import json
import logging
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from nextclick.errors import NoSpaceError
from nextclick.serving.clock import LogClock
from nextclick.serving.messages import (
    ClosedError,
    DamagedLogError,
    DiskFullError,
    LogBusyError,
    LogFailedError,
    ServiceError,
    SessionClick,
)

CLICK, ITEM, FLUSH, RULES = "click", "item", "flush", "rules"
MODEL, SHADOW = "model", "shadow"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    number INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    arrived REAL NOT NULL,
    session TEXT,
    item TEXT,
    timestamp REAL,
    event_id TEXT,
    body TEXT,
    crc INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS by_session ON records (session, event_id)
    WHERE session IS NOT NULL;
"""

_IN_A_STATEMENT = 64
"""Records written by one statement at most; there is one for each number of them."""

_AT_ONCE = 2_000
"""Records read, or forgotten, at a time."""

SESSION_TOLD = 100_000
"""Of a session with more clicks than this, the last ones are told."""

_MARK = 12
"""Bytes of the mark: a number, and its checksum."""

_WAL_BYTES = 64 * 2**20
"""What the write-ahead log shrinks to when a long reading has made it grow."""

_log = logging.getLogger(__name__)


class Record(NamedTuple):
    """A line of the log.

    Parameters
    ----------
    number
        Its place: records are numbered from 1 without gaps.
    kind
        `click`, `item` (a description), `flush` (remember what is pending), `rules` (settings that
        replay must know), or `model` and `shadow` (another one from here on).
    arrived
        When it came, by the log's clock, which never goes back.
    session, item, timestamp, event_id
        Of a click; `item` of a description too.
    body
        What else there is, as JSON.
    """

    number: int
    kind: str
    arrived: float
    session: str | None = None
    item: str | None = None
    timestamp: float | None = None
    event_id: str | None = None
    body: str | None = None

    def crc(self) -> int:
        """Return the checksum of everything in the record, its number included."""
        return zlib.crc32(json.dumps(self).encode())


class Log:
    """Records in SQLite, appended in groups: a group is on disk as a whole, or not at all.

    Beside the database lies a *mark*: the number of the last record that was acknowledged, written
    after each commit and never waited for. A log that ends before its mark has lost something:
    SQLite, for which a write-ahead log that fails its checksums merely ends there, would not say.

    Appending is for one thread; any may read.

    Parameters
    ----------
    path
        The database file; made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reading = threading.Lock()
        self._closed = False
        self._mark = os.open(path.with_suffix(".mark"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._writer, self._reader = self._connect(), self._connect()
            self._writer.execute("PRAGMA journal_mode = WAL")
            self._writer.execute("PRAGMA synchronous = FULL")
            self._writer.execute("PRAGMA wal_autocheckpoint = 0")
            self._writer.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
            self._writer.executescript(_SCHEMA)
            row = self._reader.execute(
                "SELECT * FROM records ORDER BY number DESC LIMIT 1"
            ).fetchone()
            last = Record(0, "", 0.0) if row is None else self._checked(row, int(row[0]))
        except (sqlite3.Error, DamagedLogError) as error:
            self.close()
            if isinstance(error, DamagedLogError):
                raise
            if _is_full(error) or not self._space():
                raise NoSpaceError(f"{path}: no space left on the disk to start with") from error
            raise self._unreadable(error) from error
        self.last = last.number
        self.clock = LogClock(last.arrived)

    # Writing

    def append(self, records: Sequence[Record]) -> None:
        """Write records, numbered on from the last, and return when they are on disk."""
        rows = [(*record, record.crc()) for record in records]
        try:
            self._insert(rows)
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):  # the first error is the one to tell of
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
            raise self._write_error(error) from error
        self.last = records[-1].number
        number = self.last.to_bytes(8, "little")
        try:
            os.pwrite(self._mark, number + zlib.crc32(number).to_bytes(4, "little"), 0)
        except OSError as error:  # the records are on disk all the same
            _log.warning("%s: %s", self.path.with_suffix(".mark"), error.strerror)

    def _insert(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write rows, in one transaction.

        A statement is one by itself; and each of a few calls of SQLite would have to wait until
        the threads that compute let this one go on.
        """
        if len(rows) <= _IN_A_STATEMENT:
            self._writer.execute(_insertion(len(rows)), list(chain.from_iterable(rows)))
            return
        self._writer.execute("BEGIN IMMEDIATE")
        self._writer.executemany(_insertion(1), rows)
        self._writer.execute("COMMIT")

    def find_event(self, session: str, event_id: str) -> int | None:
        """Return the number of the click of this session with this event id."""
        try:
            row = self._writer.execute(
                "SELECT number FROM records WHERE session = ? AND event_id = ?", (session, event_id)
            ).fetchone()
        except sqlite3.Error as error:
            raise self._write_error(error) from error
        return None if row is None else int(row[0])

    def forget(self, number: int, arrived: float) -> int:
        """Delete the first records up to a number that arrived before a time; not all at once.

        The last record stays, whatever its age: it says how far the log goes.

        Returns
        -------
        int
            How many were deleted: call it again as long as it is not 0.
        """
        try:
            deleted = self._writer.execute(
                "DELETE FROM records WHERE number IN (SELECT number FROM records "
                "WHERE number <= ? AND arrived < ? ORDER BY number LIMIT ?)",
                (min(number, self.last - 1), arrived, _AT_ONCE),
            )
        except sqlite3.Error as error:
            raise self._write_error(error) from error
        return deleted.rowcount

    def checkpoint(self, *, writing: bool) -> None:
        """Move what was appended into the database file, as far as nobody reads it.

        Parameters
        ----------
        writing
            Whether the writing thread calls, which ends what another thread has begun: when nothing
            is left to move, the write-ahead log starts from its beginning again.
        """
        if writing:
            self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)")
            return
        connection = self._connect()
        try:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        finally:
            connection.close()

    # Reading

    def read(self, after: int, upto: int | None = None) -> Iterator[list[Record]]:
        """Yield the records after a number, in order, a list at a time; checks every one."""
        upto = self.last if upto is None else upto
        while after < upto:
            stop = min(upto, after + _AT_ONCE)
            rows = self._select(
                "SELECT * FROM records WHERE number > ? AND number <= ? ORDER BY number",
                (after, stop),
                after,
            )
            found = {int(row[0]): row for row in rows}
            yield [
                self._checked(found.get(number), number) for number in range(after + 1, stop + 1)
            ]
            after = stop

    def session(self, session: str, limit: int = SESSION_TOLD) -> list[SessionClick]:
        """Return the last clicks under a session id, in order."""
        rows = self._select(
            "SELECT number, item, timestamp, arrived, event_id FROM records "
            "WHERE session = ? ORDER BY number DESC LIMIT ?",
            (session, limit),
        )
        return [SessionClick(*row) for row in reversed(rows)]

    def arrival(self, number: int) -> float | None:
        """Return when a record arrived; `None` if it is forgotten."""
        rows = self._select("SELECT arrived FROM records WHERE number = ?", (number,))
        return float(rows[0][0]) if rows else None

    def models(self, after: int, upto: int) -> list[tuple[int, str]]:
        """Return the numbers of records that name models, and the names; not after `upto`."""
        rows = self._select(
            "SELECT number, body FROM records "
            "WHERE number > ? AND number <= ? AND kind IN (?, ?) ORDER BY number",
            (after, upto, MODEL, SHADOW),
            after,
        )
        return [(int(number), json.loads(body)["name"]) for number, body in rows]

    def check_end(self, least: int = 0) -> str | None:
        """Refuse a log that ends before what was acknowledged, or before `least`.

        Returns
        -------
        str | None
            What is wrong with the mark, which matters no more once this was called.
        """
        number = os.pread(self._mark, _MARK, 0)
        whole = zlib.crc32(number[:8]).to_bytes(4, "little") == number[8:]
        marked = int.from_bytes(number[:8], "little") if whole else 0
        if self.last < max(marked, least):
            raise DamagedLogError(
                f"{self.path}: records {self.last + 1} to {max(marked, least)} were acknowledged "
                f"and are gone: {self.path.name} or {self.path.name}-wal is damaged; restore the "
                "state directory from a backup"
            )
        if whole or not number:
            return None
        return f"{self.path.with_suffix('.mark')}: damaged; it is written anew"

    @property
    def size(self) -> int:
        """How many bytes the database has."""
        return self.path.stat().st_size

    def check_all(self, enough: Callable[[], bool] = bool, pause: float = 0) -> None:
        """Check every record, and how SQLite keeps them: reads the whole log.

        Parameters
        ----------
        enough
            Asked now and then whether to stop before the end.
        pause
            How many seconds to rest between pieces.
        """
        connection = self._connect()
        connection.set_progress_handler(enough, 100_000)
        try:
            problems = connection.execute("PRAGMA integrity_check(1)").fetchall()
        except sqlite3.Error as error:
            if enough():
                return
            raise self._unreadable(error) from error
        finally:
            connection.close()
        if problems != [("ok",)]:
            raise self._unreadable(problems[0][0])
        after, upto = 0, self.last
        while not enough() and (after := max(after, self._before_first())) < upto:
            stop = min(upto, after + _AT_ONCE)
            try:
                list(self.read(after, stop))
            except DamagedLogError:
                if self._before_first() <= after:
                    raise
                continue  # what was old has been deleted meanwhile
            after = stop
            time.sleep(pause)

    def close(self) -> None:
        """Close the database; everything is on disk already."""
        with self._reading:
            self._closed = True
            self._reader.close()
        self._writer.close()
        os.close(self._mark)

    def _before_first(self) -> int:
        """Return the number before that of the first record that is kept."""
        first = self._select("SELECT min(number) FROM records", ())[0][0]
        return self.last if first is None else int(first) - 1

    def _checked(self, row: tuple[Any, ...] | None, number: int) -> Record:
        if row is None:
            raise DamagedLogError(
                f"{self.path}: record {number} is missing; restore the state directory from a "
                "backup"
            )
        record = Record(*row[:-1])
        try:
            whole = record.crc() == row[-1]
        except (TypeError, ValueError):  # bytes where text was written
            whole = False
        if not whole:
            raise DamagedLogError(
                f"{self.path}: record {number} is damaged; restore the state directory from a "
                "backup"
            )
        return record

    def _select(
        self, query: str, values: tuple[Any, ...], after: int | None = None
    ) -> list[tuple[Any, ...]]:
        with self._reading:
            if self._closed:
                raise ClosedError("the service is stopping")
            try:
                return self._reader.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise self._unreadable(error, after) from error

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)

    def _unreadable(self, error: object, after: int | None = None) -> DamagedLogError:
        where = "" if after is None else f" after record {after}"
        return DamagedLogError(
            f"{self.path}: cannot be read{where}: {error}; restore the state directory from a "
            "backup"
        )

    def _write_error(self, error: sqlite3.Error) -> ServiceError:
        code = getattr(error, "sqlite_errorcode", None)
        synced = code != sqlite3.SQLITE_IOERR_FSYNC
        if _is_full(error) or (synced and not self._space()):
            return DiskFullError(f"{self.path}: {os.strerror(errno.ENOSPC)}; nothing was kept")
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return LogBusyError(f"{self.path}: another program has locked it; nothing was kept")
        return LogFailedError(f"{self.path}: {error}")

    def _space(self) -> bool:
        disk = os.statvfs(self.path.parent)
        return disk.f_bavail * disk.f_frsize >= 64 * 1024


def _is_full(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL


@cache
def _insertion(rows: int) -> str:
    """Return the statement that writes so many records.

    Examples
    --------
    >>> _insertion(2)
    'INSERT INTO records VALUES (?,?,?,?,?,?,?,?,?),(?,?,?,?,?,?,?,?,?)'
    """
    one = f"({','.join('?' * (len(Record._fields) + 1))})"
    return f"INSERT INTO records VALUES {','.join([one] * rows)}"
