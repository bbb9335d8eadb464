"""What learns: a function of the records of the log, in their order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from nextclick.recommender import PARTS
from nextclick.serving.live import click_time
from nextclick.serving.log import CLICK, FLUSH, MODEL, RULES, SHADOW, Record
from nextclick.serving.pupil import Pending, Pupil
from nextclick.serving.settings import EngineSettings
from nextclick.sessions import OpenSession, Sessions

HOUR = 3600.0


class Learning:
    """The sessions behind the log, the group that is open, and the models that learn.

    Parameters
    ----------
    settings
        The engine's.
    pupil
        The one that answers.
    load
        Returns the model that a record of the log names, as a pupil.

    `hurried` says whether the models may use a second thread: what they learn is the same.
    """

    def __init__(
        self, settings: EngineSettings, pupil: Pupil, load: Callable[[str], Pupil]
    ) -> None:
        self.settings = settings
        self.rules: dict[str, Any] = {"learn": list(PARTS), "write_every": 1, "sessions": {}}
        self.serving = (pupil, 1)
        self.shadow: Pupil | None = None
        self.position = 0
        self.clicks = 0
        self.shadow_name: str | None = None
        self.sessions = Sessions()
        self.group: list[Pending] = []
        self.new_items: dict[str, float] = {}
        self.early_groups = 0
        self.hurried = False
        self._load = load

    @property
    def pupil(self) -> Pupil:
        """The one that answers."""
        return self.serving[0]

    @property
    def version(self) -> int:
        """The version of its model."""
        return self.serving[1]

    @property
    def pupils(self) -> list[Pupil]:
        """All that learn."""
        return [self.pupil] if self.shadow is None else [self.pupil, self.shadow]

    def take(self, record: Record) -> None:
        """Take the next record of the log."""
        if record.kind == CLICK:
            self._click(record)
        elif record.kind == FLUSH:
            self.early_groups += bool(self.group)
            self._close_group()
        elif record.kind == RULES:
            self.rules = json.loads(str(record.body))
            self.sessions.follow(**self.rules["sessions"])
        elif record.kind == MODEL:
            self._close_group()
            self.serving = (self._load(_named(record)), self.version + 1)
        elif record.kind == SHADOW:
            self._close_group()
            self._cast_shadow(_named(record))
        self.position = record.number

    def state(self) -> dict[str, Any]:
        """Return what it takes to go on, besides pupils and sessions, as JSON takes it."""
        return {
            "position": self.position,
            "clicks": self.clicks,
            "version": self.version,
            "rules": self.rules,
            "begun": self.sessions.begun,
            "shadow": self.shadow_name,
            "group": [[list(pending.session), list(pending.click)] for pending in self.group],
            "new_items": self.new_items.copy(),
        }

    def restore(self, state: dict[str, Any], open_: Iterable[tuple[str, OpenSession]]) -> None:
        """Take up what `state` returned, and the open sessions."""
        self.position = state["position"]
        self.clicks = state["clicks"]
        self.serving = (self.pupil, state["version"])
        self.shadow_name = state["shadow"]
        self.group = [
            Pending(open_session(session), Record(*click)) for session, click in state["group"]
        ]
        self.new_items = state["new_items"]
        self.rules = state["rules"]
        self.sessions = Sessions.of(open_, state["begun"], **self.rules["sessions"])

    def _click(self, click: Record) -> None:
        self.clicks += 1
        session, item = str(click.session), str(click.item)
        for pupil in self.pupils:
            if pupil.meet(item) and pupil is self.pupil:
                self._note_new(item, click.arrived)
        before = self.sessions.click(session, item, click_time(click), click.arrived)
        if before is None:
            return
        self.group.append(Pending(before, click))
        room = min(pupil.room for pupil in self.pupils)
        if len(self.group) >= min(self.rules["write_every"], room):
            self._close_group()

    def _close_group(self) -> None:
        group, self.group = self.group, []
        if group:
            for pupil in self.pupils:
                pupil.take(group, self.rules["learn"], hurried=self.hurried)

    def _cast_shadow(self, name: str | None) -> None:
        self.shadow_name = name
        self.shadow = None if name is None else self._load(name)

    def _note_new(self, item: str, arrived: float) -> None:
        self.new_items[item] = arrived
        while arrived - next(iter(self.new_items.values())) > HOUR:
            del self.new_items[next(iter(self.new_items))]


def open_session(row: list[Any]) -> OpenSession:
    """Return a session from its columns, as JSON brings them back."""
    number, items, time, arrived = row
    return OpenSession(number, tuple(items), time, arrived)


def _named(record: Record) -> Any:
    return json.loads(str(record.body))["name"]
