"""The click log: every record on disk before it counts, numbered, and with a checksum."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nextclick.serving.messages import (
    DamagedLogError,
    DiskFullError,
    LogFailedError,
    SessionClick,
)

CLICK, ITEM, FLUSH, RULES = "click", "item", "flush", "rules"
MODEL, SHADOW, LOSS = "model", "shadow", "loss"

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

_AT_ONCE = 2_000
"""Records read, or forgotten, at a time."""


class Record(NamedTuple):
    """A line of the log.

    Parameters
    ----------
    number
        Its place: records are numbered from 1 without gaps.
    kind
        `click`, `item` (a description), `flush` (remember what is pending), `rules` (settings that
        replay must know), `model` and `shadow` (another one from here on), or `loss` (of records
        that could not be read any more).
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
        try:
            self._writer = self._connect()
            self._writer.execute("PRAGMA journal_mode = WAL")
            self._writer.execute("PRAGMA synchronous = FULL")
            self._writer.execute("PRAGMA wal_autocheckpoint = 0")
            self._writer.executescript(_SCHEMA)
            self._reader = self._connect()
            row = self._reader.execute(
                "SELECT number, arrived FROM records ORDER BY number DESC LIMIT 1"
            ).fetchone()
        except sqlite3.Error as error:
            raise self._unreadable(error) from error
        self.last, self.arrived = (0, 0.0) if row is None else (int(row[0]), float(row[1]))
        self._mark = os.open(path.with_suffix(".mark"), os.O_RDWR | os.O_CREAT, 0o644)

    # Writing

    def append(self, records: Sequence[Record]) -> None:
        """Write records, numbered on from the last, and return when they are on disk."""
        rows = [(*record, record.crc()) for record in records]
        try:
            self._writer.execute("BEGIN IMMEDIATE")
            self._writer.executemany("INSERT INTO records VALUES (?,?,?,?,?,?,?,?,?)", rows)
            self._writer.execute("COMMIT")
        except sqlite3.Error as error:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise self._write_error(error) from error
        self.last, self.arrived = records[-1].number, records[-1].arrived
        number = self.last.to_bytes(8, "little")
        os.pwrite(self._mark, number + zlib.crc32(number).to_bytes(4, "little"), 0)

    def find_event(self, session: str, event_id: str) -> int | None:
        """Return the number of the click of this session with this event id."""
        row = self._writer.execute(
            "SELECT number FROM records WHERE session = ? AND event_id = ?", (session, event_id)
        ).fetchone()
        return None if row is None else int(row[0])

    def forget(self, number: int, arrived: float) -> int:
        """Delete the first records up to a number that arrived before a time; not all at once.

        Returns
        -------
        int
            How many were deleted: call it again as long as it is not 0.
        """
        try:
            deleted = self._writer.execute(
                "DELETE FROM records WHERE number IN (SELECT number FROM records "
                "WHERE number <= ? AND arrived < ? ORDER BY number LIMIT ?)",
                (number, arrived, _AT_ONCE),
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
        lost = self._losses(after)
        while after < upto:
            stop = min(upto, after + _AT_ONCE)
            rows = self._select(
                "SELECT * FROM records WHERE number > ? AND number <= ? ORDER BY number",
                (after, stop),
                after,
            )
            found = {int(row[0]): row for row in rows}
            yield [
                self._checked(found.get(number), number)
                for number in range(after + 1, stop + 1)
                if number not in lost
            ]
            after = stop

    def session(self, session: str, limit: int = 1_000) -> list[SessionClick]:
        """Return the last clicks under a session id, in order."""
        rows = self._select(
            "SELECT number, item, timestamp, arrived, event_id FROM records "
            "WHERE session = ? ORDER BY number DESC LIMIT ?",
            (session, limit),
        )
        return [SessionClick(*row) for row in reversed(rows)]

    def before(self, number: int, length: int) -> tuple[Record, list[Record]] | None:
        """Return a click and the last clicks of its session before it; `None` if forgotten."""
        columns = "SELECT * FROM records WHERE"
        clicks = self._select(f"{columns} number = ?", (number,))
        if not clicks:
            return None
        click = Record(*clicks[0][:-1])
        rows = self._select(
            f"{columns} session = ? AND number < ? ORDER BY number DESC LIMIT ?",
            (click.session, number, length),
        )
        return click, [Record(*row[:-1]) for row in reversed(rows)]

    def check_end(self, least: int = 0) -> None:
        """Refuse a log that ends before what was acknowledged, or before `least`."""
        number = os.pread(self._mark, 12, 0)
        marked = 0
        if len(number) == 12 and zlib.crc32(number[:8]).to_bytes(4, "little") == number[8:]:
            marked = int.from_bytes(number[:8], "little")
        if self.last < max(marked, least):
            raise DamagedLogError(
                f"{self.path}: records {self.last + 1} to {max(marked, least)} were acknowledged "
                f"and are gone: {self.path.name} or {self.path.name}-wal is damaged; restore the "
                "state directory from a backup"
            )

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
        try:
            problems = connection.execute("PRAGMA integrity_check(1)").fetchall()
        except sqlite3.Error as error:
            raise self._unreadable(error) from error
        finally:
            connection.close()
        if problems != [("ok",)]:
            raise self._unreadable(problems[0][0])
        first = self._select("SELECT min(number) FROM records", ())[0][0]
        for _ in self.read((first or 1) - 1):
            time.sleep(pause)
            if enough():
                return

    def close(self) -> None:
        """Close the database; everything is on disk already."""
        self._reader.close()
        self._writer.close()
        os.close(self._mark)

    def _losses(self, after: int) -> set[int]:
        """Return the numbers of records that were given up."""
        lost: set[int] = set()
        rows = self._select(
            "SELECT body FROM records WHERE number > ? AND kind = ?", (after, LOSS), after
        )
        for (body,) in rows:
            first, last = json.loads(body)["records"]
            lost.update(range(first, last + 1))
        return lost

    def _checked(self, row: tuple[Any, ...] | None, number: int) -> Record:
        if row is None:
            raise DamagedLogError(
                f"{self.path}: record {number} is missing; restore the state directory from a "
                "backup"
            )
        record = Record(*row[:-1])
        if record.crc() != row[-1]:
            raise DamagedLogError(
                f"{self.path}: record {number} is damaged; restore the state directory from a "
                "backup"
            )
        return record

    def _select(
        self, query: str, values: tuple[Any, ...], after: int | None = None
    ) -> list[tuple[Any, ...]]:
        with self._reading:
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

    def _write_error(self, error: sqlite3.Error) -> DiskFullError | LogFailedError:
        code = getattr(error, "sqlite_errorcode", None)
        synced = code != sqlite3.SQLITE_IOERR_FSYNC
        full = code == sqlite3.SQLITE_FULL or (synced and not self._space())
        if full:
            return DiskFullError(f"{self.path}: {os.strerror(errno.ENOSPC)}; nothing was kept")
        return LogFailedError(f"{self.path}: {error}; nothing was kept")

    def _space(self) -> bool:
        disk = os.statvfs(self.path.parent)
        return disk.f_bavail * disk.f_frsize >= 64 * 1024
