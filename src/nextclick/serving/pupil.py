"""A model that learns from the log, and how well it does."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nextclick.clicks import CONTEXT_LENGTH, Contexts, Transitions
from nextclick.evaluation.metrics import ranks_of
from nextclick.memory.window import Window
from nextclick.persistence import Picture
from nextclick.recommender import LEARNING_BATCH, Ahead, Recommender, State, Tested
from nextclick.serving.live import click_time
from nextclick.serving.log import Record
from nextclick.serving.packing import pack, unpack
from nextclick.serving.quality import CUTOFF, LiveQuality
from nextclick.sessions import OpenSession


class Pending(NamedTuple):
    """A transition that waits to be learned: the session before a click, and the click."""

    session: OpenSession
    click: Record


@dataclass(frozen=True, eq=False)
class PupilState:
    """A pupil at a moment: its model, and what it takes to go on.

    Parameters
    ----------
    model
        A picture of the model.
    outline
        The rest as JSON takes it.
    arrays
        The rest's arrays.
    """

    model: Picture
    outline: dict[str, Any]
    arrays: State


class Pupil:
    """A model, tested on each transition and then taught it, a batch at a time.

    Everything it does is a function of the groups it is given, in their order: as in
    `nextclick.evaluation.prequential.evaluate`, a group is tested, then remembered, and a step is
    taken after every 100.

    Parameters
    ----------
    model
        The recommender; it is the pupil's from now on.
    changing
        What is held while the model changes.
    """

    def __init__(self, model: Recommender, changing: AbstractContextManager[object]) -> None:
        self.model = model
        self.quality = LiveQuality()
        self.steps = 0
        self.known_before = model.n_items
        self._changing = changing
        self._batch: list[tuple[Transitions, Tested]] = []
        # For each entry that the memory wrote here, the click it was written for.
        self._origins = Window.empty(np.int64)
        self._planner = ThreadPoolExecutor(1, "planner")  # begins a thread when it is first used

    @property
    def room(self) -> int:
        """How many more transitions the open batch takes."""
        return LEARNING_BATCH - sum(len(piece) for piece, _ in self._batch)

    @property
    def memory_entries(self) -> int | None:
        """How many transitions the model's memory holds, if it has one."""
        entries: int | None = getattr(self.model, "memory_entries", None)
        return entries

    def meet(self, item: str) -> bool:
        """Give an item its number when it is clicked, in the log's order; whether it was new."""
        if item in self.model.catalog:
            return False
        self.model.catalog.add([item])
        return True

    def take(
        self, group: Sequence[Pending], parts: Collection[str], *, hurried: bool = False
    ) -> None:
        """Test and remember a group; take a learning step when it fills the batch.

        Parameters
        ----------
        group
            What was clicked.
        parts
            Which parts of the model learn.
        hurried
            Whether the step may be planned in a second thread meanwhile: it makes no difference but
            to the time, and to what is left for others.
        """
        transitions = self._transitions(group)
        whole = ahead = None
        if hurried and len(transitions) == self.room:
            whole = _together([*(piece for piece, _ in self._batch), transitions])
        # Asked here: in the other thread it may be known in the meantime.
        if whole is not None and whole.n_items <= self.model.n_items:
            ahead = self._planner.submit(self.model.plan_ahead, whole, parts=parts)
        tested = self.model.test(transitions, CUTOFF, by_part=True)
        self._score(group, transitions, tested)
        with self._changing:
            self.model.remember(transitions, tested, parts=parts)
            if "memory" in parts:
                self._note_origins(group)
        self._batch.append((transitions, tested))
        if not self.room:
            self._step(parts, None if ahead is None else ahead.result())

    def origin(self, age: int) -> int | None:
        """Return the number of the click that a memory entry was written for, if it was here."""
        place = len(self._origins) - 1 - age
        return int(self._origins.values[place]) if age >= 0 and place >= 0 else None

    def state(self) -> PupilState:
        """Return what it takes to go on from here, to the last bit."""
        arrays: State = {}
        outline = {
            "steps": self.steps,
            "known_before": self.known_before,
            "quality": self.quality.state(),
            "batch": pack(self._batch, arrays, "batch"),
        }
        arrays["origins"] = self._origins.values.copy()
        return PupilState(Picture.of(self.model, copy=True), outline, arrays)

    def restore(self, outline: Mapping[str, Any], arrays: State) -> None:
        """Take up what `state` returned; the model is restored already."""
        self.steps = outline["steps"]
        self.known_before = outline["known_before"]
        self.quality.restore(outline["quality"])
        self._batch = [(piece, tested) for piece, tested in unpack(outline["batch"], arrays)]
        self._origins = Window(arrays["origins"])

    def _step(self, parts: Collection[str], ahead: Ahead | None) -> None:
        transitions = _together([piece for piece, _ in self._batch])
        tested = [tested for _, tested in self._batch]
        # The long part: nobody waits for it.
        take_step = self.model.plan(transitions, tested, parts=parts, ahead=ahead)
        with self._changing:
            take_step()
        self._batch = []
        self.steps += 1

    def _note_origins(self, group: Sequence[Pending]) -> None:
        entries = self.memory_entries
        if entries is not None:
            self._origins.append(np.array([pending.click.number for pending in group]))
            self._origins.drop(max(0, len(self._origins) - entries))

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


def _together(pieces: Sequence[Transitions]) -> Transitions:
    """Return the transitions of several pieces as one."""
    return Transitions(
        Contexts.of(
            [context for piece in pieces for context in piece.contexts],
            sessions=np.concatenate([piece.contexts.sessions for piece in pieces]),
            times=np.concatenate([piece.contexts.times for piece in pieces]),
        ),
        np.concatenate([piece.items for piece in pieces]),
        np.concatenate([piece.times for piece in pieces]),
    )
