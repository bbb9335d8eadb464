"""A model that learns from the log: a function of its records, in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import numpy as np

from nextclick.clicks import CONTEXT_LENGTH, Contexts, Transitions
from nextclick.evaluation.metrics import ranks_of
from nextclick.recommender import LEARNING_BATCH, Recommender, Tested
from nextclick.serving.live import click_time
from nextclick.serving.log import CLICK, FLUSH, MODEL, Record
from nextclick.serving.quality import CUTOFF, LiveQuality
from nextclick.serving.settings import EngineSettings
from nextclick.sessions import OpenSession, Sessions


class Pending(NamedTuple):
    """A transition that waits to be learned: the session before a click, and the click."""

    session: OpenSession
    click: Record


class Course:
    """The sessions behind the learner, and the transitions that wait in the open group."""

    def __init__(self, settings: EngineSettings) -> None:
        self.sessions = Sessions(settings.idle, settings.session_length, settings.open_sessions)
        self.group: list[Pending] = []


class Pupil:
    """A model, tested on each transition and then taught it, a batch at a time.

    Parameters
    ----------
    model
        The recommender; it is the pupil's from now on.
    changing
        What is held while the model changes.
    """

    def __init__(
        self,
        model: Recommender,
        changing: AbstractContextManager[object] | None = None,
    ) -> None:
        self.model = model
        self.quality = LiveQuality()
        self.steps = 0
        self.known_before = model.n_items
        self._changing = changing or nullcontext()
        self._batch: list[Transitions] = []
        self._tested: list[Tested] = []
        self.in_batch = 0

    def meet(self, item: str) -> None:
        """Give an item its number when it is clicked, in the order of the log."""
        self.model.catalog.add([item])

    def take(self, group: Sequence[Pending]) -> None:
        """Test and remember a group; take a learning step when it fills the batch."""
        transitions = self._transitions(group)
        tested = self.model.test(transitions, CUTOFF, by_part=True)
        self._score(group, transitions, tested)
        with self._changing:
            self.model.remember(transitions, tested)
        self._batch.append(transitions)
        self._tested.append(tested)
        self.in_batch += len(group)
        if self.in_batch == LEARNING_BATCH:
            self._step()

    def _step(self) -> None:
        with self._changing:
            self.model.step(_together(self._batch), self._tested)
        self._batch, self._tested, self.in_batch = [], [], 0
        self.steps += 1

    def _transitions(self, group: Sequence[Pending]) -> Transitions:
        find = self.model.catalog.find
        contexts = Contexts.of(
            [find(pending.session.items[-CONTEXT_LENGTH:]) for pending in group],
            sessions=[pending.session.number for pending in group],
            times=[pending.session.time for pending in group],
        )
        times = [click_time(pending.click) for pending in group]
        items = find([str(pending.click.item) for pending in group])
        return Transitions(contexts, items, np.array(times))

    def _score(self, group: Sequence[Pending], transitions: Transitions, tested: Tested) -> None:
        items = transitions.items
        ranks = {"model": ranks_of(items, tested.recommendations.items)}
        for part, alone in tested.by_part.items():
            ranks[part] = ranks_of(items, alone)
        arrived = np.array([pending.click.arrived for pending in group])
        new = items >= self.known_before
        self.quality.add(arrived, ranks, new, tested.recommendations.weights)


class Learning:
    """What learns: the sessions behind the log, the model that serves, and its shadow.

    Parameters
    ----------
    settings
        The engine's.
    pupils
        The model that serves; and the shadow, if there is one.
    position
        The number of the last record that was taken.
    version
        Of the model that serves.
    load
        Returns the pupil that takes over at a `model` record, given its version.
    """

    def __init__(
        self,
        settings: EngineSettings,
        pupils: list[Pupil],
        load: Callable[[int], Pupil],
        *,
        position: int = 0,
        version: int = 1,
    ) -> None:
        self.settings = settings
        self.pupils = pupils
        self.position = position
        self.version = version
        self._load = load
        self.course = Course(settings)

    @property
    def at_rest(self) -> bool:
        """Whether nothing is pending: no group, and no batch, is open."""
        return not self.course.group and not any(pupil.in_batch for pupil in self.pupils)

    def take(self, record: Record) -> None:
        """Take the next record of the log."""
        if record.kind == CLICK:
            self._click(record)
        elif record.kind == FLUSH:
            self._close_group()
        elif record.kind == MODEL:
            self._close_group()
            version = self.version + 1
            self.pupils[0], self.version = self._load(version), version
        self.position = record.number

    def _click(self, click: Record) -> None:
        session, item = str(click.session), str(click.item)
        for pupil in self.pupils:
            pupil.meet(item)
        before = self.course.sessions.click(session, item, click_time(click), click.arrived)
        if before is None:
            return
        group = self.course.group
        group.append(Pending(before, click))
        room = min(LEARNING_BATCH - pupil.in_batch for pupil in self.pupils)
        if len(group) == min(self.settings.write_every, room):
            self._close_group()

    def _close_group(self) -> None:
        group, self.course.group = self.course.group, []
        if group:
            for pupil in self.pupils:
                pupil.take(group)


def _together(pieces: Sequence[Transitions]) -> Transitions:
    """Return the transitions of several pieces as one."""
    contexts = [context for piece in pieces for context in piece.contexts]
    return Transitions(
        Contexts.of(
            contexts,
            sessions=np.concatenate([piece.contexts.sessions for piece in pieces]),
            times=np.concatenate([piece.contexts.times for piece in pieces]),
        ),
        np.concatenate([piece.items for piece in pieces]),
        np.concatenate([piece.times for piece in pieces]),
    )
