"""What every request sees at once: open sessions, and what is known of items."""

from __future__ import annotations

import json
from typing import Any

from nextclick.serving.log import CLICK, ITEM, MODEL, RULES, SHADOW, Record
from nextclick.serving.messages import Item
from nextclick.sessions import Sessions


class Live:
    """Sessions, item descriptions, and the like, after the last record on disk.

    Changed by the writer alone; what is read from other threads are single look-ups.

    Parameters
    ----------
    sessions
        The open sessions.
    items
        What was said of items.
    clicks
        How many clicks there ever were.
    rules
        What the last `rules` record says, if there is one.
    shadow
        The name of the shadow, if there is one.
    """

    def __init__(
        self,
        sessions: Sessions,
        items: dict[str, Item],
        clicks: int = 0,
        rules: dict[str, Any] | None = None,
        shadow: str | None = None,
    ) -> None:
        self.sessions = sessions
        self.items = items
        self.clicks = clicks
        self.rules = rules
        self.shadow = shadow
        self.loaded: list[tuple[int, str]] = []
        """The numbers of the records that name models, and these names."""

    def apply(self, record: Record) -> None:
        """Take the next record of the log."""
        if record.kind == CLICK:
            self.clicks += 1
            time = click_time(record)
            self.sessions.click(str(record.session), str(record.item), time, record.arrived)
            return
        body = json.loads(record.body or "null")
        if record.kind == ITEM:
            self.items[str(record.item)] = Item(str(record.item), **body)
        elif record.kind == RULES:
            self.rules = body
            self.sessions.follow(**body["sessions"])
        elif record.kind in (MODEL, SHADOW):
            self.loaded.append((record.number, body["name"]))
            if record.kind == SHADOW:
                self.shadow = body["name"]


def click_time(click: Record) -> float:
    """Return when a click happened, as far as is known."""
    return click.arrived if click.timestamp is None else click.timestamp
