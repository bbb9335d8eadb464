"""What every request sees at once: open sessions, and what is known of items."""

from __future__ import annotations

import json

from nextclick.serving.log import CLICK, ITEM, Record
from nextclick.serving.messages import Item
from nextclick.sessions import Sessions


class Live:
    """Sessions and item descriptions after the last record on disk.

    Changed by the writer alone; what is read from other threads are single look-ups.
    """

    def __init__(self, sessions: Sessions, items: dict[str, Item]) -> None:
        self.sessions = sessions
        self.items = items

    def apply(self, record: Record) -> None:
        """Take the next record of the log."""
        if record.kind == CLICK:
            time = click_time(record)
            self.sessions.click(str(record.session), str(record.item), time, record.arrived)
        elif record.kind == ITEM:
            id_ = str(record.item)
            self.items[id_] = Item(id_, **json.loads(str(record.body)))


def click_time(click: Record) -> float:
    """Return when a click happened, as far as is known."""
    return click.arrived if click.timestamp is None else click.timestamp
