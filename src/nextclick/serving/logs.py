"""What the service writes to standard error: a line of JSON for each thing that happens."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import msgspec

EVENTS = logging.getLogger("nextclick.serving")


class _Lines(logging.Formatter):
    """Makes a line of JSON of whatever is logged, fields given as `extra={"fields": …}` included.

    Examples
    --------
    >>> record = logging.LogRecord("n", logging.INFO, "", 0, "started", None, None)
    >>> record.created = 0.0
    >>> _Lines().format(record)
    '{"time":"1970-01-01T00:00:00.000Z","level":"info","event":"started"}'
    """

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC)
        line = {
            "time": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode(errors="replace")


def write_lines() -> None:
    """Send what this program and its server log to standard error, as lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("nextclick").setLevel(logging.INFO)


def event(name: str, **fields: object) -> None:
    """Log that something happened.

    Examples
    --------
    >>> event("snapshot", seconds=0.3)
    """
    EVENTS.info(name, extra={"fields": fields})
