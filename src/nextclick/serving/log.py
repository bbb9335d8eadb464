"""The click log: every record on disk before it counts, numbered, and with a checksum."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from nextclick.serving.messages import (
    DamagedLogError,
    DiskFullError,
    LogFailedError,
    SessionClick,
)

CLICK, ITEM, FLUSH, MODEL = "click", "item", "flush", "model"

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


class Record(NamedTuple):
    """A line of the log.

    Parameters
    ----------
    number
        Its place: records are numbered from 1 without gaps.
    kind
        `click`, `item` (a description), `flush` (remember what is pending) or `model` (another
        model from here on).
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

    Appending is for one thread; any number may read.

    Parameters
    ----------
    path
        The database file; made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer = self._connect()
        self._writer.execute("PRAGMA journal_mode = WAL")
        self._writer.execute("PRAGMA synchronous = FULL")
        self._writer.executescript(_SCHEMA)
        row = self._writer.execute("SELECT max(number), max(arrived) FROM records").fetchone()
        self.last = int(row[0] or 0)
        count = "SELECT count(*) FROM records WHERE kind = 'click'"
        self.clicks = int(self._writer.execute(count).fetchone()[0])
        self.arrived = float(row[1] or 0)

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
            if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
                raise DiskFullError(f"{self.path}: no space left on the disk") from error
            raise LogFailedError(f"{self.path}: {error}") from error
        self.last = records[-1].number
        self.clicks += sum(record.kind == CLICK for record in records)
        self.arrived = records[-1].arrived

    def find_event(self, session: str, event_id: str) -> int | None:
        """Return the number of the click of this session with this event id."""
        row = self._writer.execute(
            "SELECT number FROM records WHERE session = ? AND event_id = ?", (session, event_id)
        ).fetchone()
        return None if row is None else int(row[0])

    def read(self, after: int, limit: int = 2_000) -> Iterator[list[Record]]:
        """Yield the records after a number, in order, a list at a time; checks every one."""
        connection = self._connect()
        try:
            while True:
                rows = connection.execute(
                    "SELECT * FROM records WHERE number > ? ORDER BY number LIMIT ?", (after, limit)
                ).fetchall()
                if not rows:
                    return
                yield [self._checked(row, after + place + 1) for place, row in enumerate(rows)]
                after = rows[-1][0]
        finally:
            connection.close()

    def session(self, session: str, limit: int = 1_000) -> list[SessionClick]:
        """Return the last clicks under a session id, in order."""
        connection = self._connect()
        try:
            rows = connection.execute(
                "SELECT number, item, timestamp, arrived, event_id FROM records "
                "WHERE session = ? ORDER BY number DESC LIMIT ?",
                (session, limit),
            ).fetchall()
        finally:
            connection.close()
        return [SessionClick(*row) for row in reversed(rows)]

    def close(self) -> None:
        """Close the database; everything is on disk already."""
        self._writer.close()

    def _checked(self, row: tuple[object, ...], expected: int) -> Record:
        record = Record(*row[:-1])  # type: ignore[arg-type] # the columns are those of a record
        if record.number != expected:
            raise DamagedLogError(
                f"{self.path}: record {expected} is missing, the next one is {record.number}"
            )
        if record.crc() != row[-1]:
            raise DamagedLogError(f"{self.path}: record {expected} is damaged")
        return record

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, cached_statements=32
        )
