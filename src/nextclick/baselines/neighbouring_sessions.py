"""What all methods of neighbouring past sessions share: everything but their weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property

import numpy as np
from pydantic import Field

from nextclick.baselines import session_kernels as kernels
from nextclick.baselines.compiled import NOTHING, read_only, runs
from nextclick.baselines.growing_lists import GrowingLists, fill
from nextclick.baselines.predictor import Predictor
from nextclick.baselines.questions import Answers, Questions
from nextclick.baselines.session_numbers import SessionNumbers
from nextclick.clicks import CONTEXT_LENGTH, Contexts, Floats, Ints, Transitions
from nextclick.growing import Growing
from nextclick.recommender import Explanation, Ranked, State, with_prefix, without_prefix
from nextclick.settings import Settings


class NeighbourSettings(Settings):
    """Settings of every method of neighbouring sessions.

    Parameters
    ----------
    sample_size
        How many sessions, the most recent ones that share an item, are compared with the current
        one.
    k
        How many of these, the most similar ones, vote.
    """

    sample_size: int = Field(default=200, ge=1, lt=1 << kernels.RANK_BITS)
    k: int = Field(default=100, ge=1, le=10_000)


class NeighbouringSessions(Predictor):
    """Recommend what the past sessions most similar to this one clicked.

    A method says by its `_rules` how similar two sessions are and what a vote weighs. The score of
    an item is its share of all votes.

    Every transition that `learn` is given puts those of its clicks that are not in its session yet
    into it, which makes the session the most recent one of that item; and its next item becomes the
    last of the session. Transitions are learned one after the other: how the stream is cut into
    batches makes no difference. A transition whose session is not known (-1) is a session of its
    own. No session is its own neighbour.

    Of equally similar sessions the more recent one is nearer; of items with equal scores the one
    that last entered a session is better.
    """

    parts = frozenset({"memory"})

    @cached_property
    @abstractmethod
    def _rules(self) -> kernels.Rules:
        """The method's weights."""

    def _begin(self) -> None:
        self._sessions = SessionNumbers()
        self._items_of = GrowingLists(np.int32)
        self._sessions_of = GrowingLists()
        self._last_click: Growing[np.int64] = Growing.empty(np.int64, fill=NOTHING)
        self._clock = np.zeros(1, np.int64)

    def _grow(self, n_items: int) -> None:
        for by_item in (self._sessions_of, self._last_click):
            by_item.resize(n_items)

    def _recommend(self, contexts: Contexts, k: int) -> Ranked:
        return Ranked(*kernels.recommend(self._history, self._questions(contexts), self._rules, k))

    def _explain(self, contexts: Contexts, items: Ints) -> Explanation:
        scores, counts = self._asked(contexts, items)
        return Explanation(neural=np.zeros(items.shape), memory=scores, sessions=counts)

    def _probabilities(self, contexts: Contexts, items: Ints) -> Floats:
        return self._asked(contexts, items)[0]

    def _asked(self, contexts: Contexts, items: Ints) -> tuple[Floats, Ints]:
        questions = self._questions(contexts)
        return kernels.explain(self._history, questions, self._rules, read_only(items))

    def _state(self) -> State:
        return {
            "ids": self._sessions.ids,
            "clock": self._clock,
            "last_click": self._last_click.values,
            **with_prefix("items_of", self._items_of.state()),
            **with_prefix("sessions_of", self._sessions_of.state()),
        }

    def _restore(self, state: State) -> None:
        self._sessions = SessionNumbers(state["ids"])
        self._clock = state["clock"].copy()
        self._last_click = Growing(state["last_click"].copy(), fill=NOTHING)
        self._items_of = GrowingLists.restored(without_prefix("items_of", state))
        self._sessions_of = GrowingLists.restored(without_prefix("sessions_of", state))

    @property
    def _history(self) -> kernels.History:
        return kernels.History(
            self._items_of.arrays, self._sessions_of.arrays, self._last_click.values, self._clock
        )

    def _questions(self, contexts: Contexts) -> Questions:
        return Questions(*runs(contexts), self._sessions.find(contexts.sessions))

    def _count(self, transitions: Transitions) -> None:
        contexts = transitions.contexts.last(CONTEXT_LENGTH).known(self.n_items)
        sessions = self._sessions.add(contexts.sessions)
        self._items_of.resize(len(self._sessions))
        answers = Answers(*runs(contexts), sessions, read_only(transitions.items))
        fill(
            lambda first: kernels.learn(self._history, answers, first),
            len(transitions),
            self._make_room,
        )

    def _make_room(self) -> None:
        self._items_of.make_room()
        self._sessions_of.make_room()


def by_position(weight: Callable[[int, int], float]) -> Floats:
    """Return a weight for every length of context and position in it, as the kernels look it up.

    Parameters
    ----------
    weight
        Of a click's position, counted from 1, and the context's length.

    Examples
    --------
    >>> table = by_position(lambda position, length: position / length)
    >>> table[2 - 1].tolist()[:2]
    [0.5, 1.0]
    """
    table = np.zeros((CONTEXT_LENGTH, CONTEXT_LENGTH))
    for length in range(1, CONTEXT_LENGTH + 1):
        for position in range(1, length + 1):
            table[length - 1, position - 1] = weight(position, length)
    return table


def in_units(weights: Floats) -> Ints:
    """Return weights as whole multiples of the kernels' unit."""
    return np.rint(weights * kernels.UNIT).astype(np.int64)


ALL_ALIKE = by_position(lambda _position, _length: 1.0)
"""Every click of a context weighs the same."""

ANY_DISTANCE = np.ones(1)
"""Every item of a past session weighs the same."""
