"""The nearest past sessions: SKNN and S-SKNN (Ludewig and Jannach 2018)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from nextclick.baselines import session_kernels as kernels
from nextclick.baselines.growing_lists import GrowingLists
from nextclick.clicks import CONTEXT_LENGTH, ClickLog, Contexts, Ints, Transitions
from nextclick.growing import Growing
from nextclick.recommender import (
    Explanation,
    Ranked,
    Recommender,
    State,
    with_prefix,
    without_prefix,
)
from nextclick.settings import Settings


class SessionKNNSettings(Settings):
    """Settings of session kNN.

    Parameters
    ----------
    kind
        `"sknn"`: a neighbour's votes weigh as much as it is similar. `"s-sknn"`: they weigh the
        more, the later in the current session the last item is that the neighbour shares with it.
    emphasis
        How much more, with `"s-sknn"`: 1 is linear, as published; the higher, the more the last
        click counts.
    sample_size
        How many sessions, the most recent ones that share an item, are compared with the current
        one.
    k
        How many of these, the most similar ones, vote.
    """

    kind: Literal["sknn", "s-sknn"] = "s-sknn"
    emphasis: float = Field(default=2.0, gt=0)
    sample_size: int = Field(default=200, ge=1, lt=1 << kernels.RANK_BITS)
    k: int = Field(default=100, ge=1)


class SessionKNN(Recommender):
    """Recommend what the past sessions most similar to this one clicked.

    The similarity of two sessions is the cosine between their sets of items,
    ``|s ∩ n| / sqrt(|s| |n|)``, and the score of an item is the sum, over the `k` nearest sessions
    that have it, of their similarities (SKNN), or of these times ``(x / |s|) ** emphasis``
    (S-SKNN), where ``x / |s|`` is how far into the session its last click was on an item that the
    neighbour has too.

    Every transition that `learn` is given puts those of its clicks that are not in its session yet
    into it, which makes the session the most recent one of that item. Transitions are learned one
    after the other: how the stream is cut into batches makes no difference. A transition whose
    session is not known (-1) is a session of its own. No session is its own neighbour.

    Of equally similar sessions the more recent one is nearer; of items with equal scores the one
    that last entered a session is better.

    Examples
    --------
    >>> log = ClickLog.of([(0, 0, 1), (0, 1, 2), (1, 1, 3), (1, 2, 4), (2, 2, 5), (2, 3, 6)])
    >>> model = SessionKNN().fit(log)
    >>> model.recommend(Contexts.of([[0, 1]]), k=3).items.tolist()
    [[1, 0, 2]]
    """

    name = "session-knn"
    settings_type = SessionKNNSettings
    parts = frozenset({"memory"})

    @property
    def label(self) -> str:
        """What tables call this method."""
        return str(self.settings.kind.upper())

    def _fit(self, log: ClickLog, validation: ClickLog | None) -> None:  # noqa: ARG002 - the contract's
        self._take_up(np.zeros(0, np.int64), GrowingLists(np.int32), GrowingLists(), clock=0)
        self._enter(log.transitions())

    def _recommend(self, contexts: Contexts, k: int) -> Ranked:
        return Ranked(*kernels.recommend(self._history, self._questions(contexts), self._rules, k))

    def _explain(self, contexts: Contexts, items: Ints) -> Explanation:
        scores, counts = kernels.explain(
            self._history, self._questions(contexts), self._rules, _read_only(items)
        )
        return Explanation(neural=np.zeros(items.shape), memory=scores, sessions=counts)

    def _remember(self, transitions: Transitions, parts: frozenset[str], lessons: Any) -> None:  # noqa: ARG002 - the contract's
        self._enter(transitions)

    def _state(self) -> State:
        return {
            "ids": self._ids.values,
            "clock": self._clock,
            **with_prefix("items_of", self._items_of.state()),
            **with_prefix("sessions_of", self._sessions_of.state()),
        }

    def _restore(self, state: State) -> None:
        self._take_up(
            state["ids"].copy(),
            GrowingLists.restored(without_prefix("items_of", state)),
            GrowingLists.restored(without_prefix("sessions_of", state)),
            clock=int(state["clock"][0]),
        )

    def _take_up(
        self, ids: Ints, items_of: GrowingLists, sessions_of: GrowingLists, *, clock: int
    ) -> None:
        """Begin with these sessions, given by the callers' ids for them (-1 for none)."""
        self._ids: Growing[np.int64] = Growing(ids)
        self._number = {id_: number for number, id_ in enumerate(ids.tolist()) if id_ >= 0}
        self._items_of = items_of
        self._sessions_of = sessions_of
        self._clock = np.full(1, clock)

    @property
    def _history(self) -> kernels.History:
        return kernels.History(self._items_of.arrays, self._sessions_of.arrays, self._clock)

    @property
    def _rules(self) -> kernels.Rules:
        settings = self.settings
        emphasis = settings.emphasis if settings.kind == "s-sknn" else 0.0
        return kernels.Rules(settings.sample_size, settings.k, emphasis)

    def _questions(self, contexts: Contexts) -> kernels.Questions:
        own = [self._number.get(id_, -1) for id_ in contexts.sessions.tolist()]
        return kernels.Questions(*_runs(contexts), np.array(own, dtype=np.int64))

    def _enter(self, transitions: Transitions) -> None:
        contexts = transitions.contexts.last(CONTEXT_LENGTH).known(self.n_items)
        sessions = self._numbers(contexts.sessions)
        self._items_of.resize(len(self._ids))
        self._sessions_of.resize(self.n_items)
        answers = kernels.Answers(*_runs(contexts), sessions, _read_only(transitions.items))
        learned = 0
        while learned < len(transitions):
            learned = kernels.learn(self._history, answers, learned)
            if learned < len(transitions):
                self._items_of.make_room()
                self._sessions_of.make_room()

    def _numbers(self, ids: Ints) -> Ints:
        """Return the sessions' numbers; those that have none yet get the next ones."""
        numbers = np.empty(len(ids), dtype=np.int64)
        new: list[int] = []
        for i, id_ in enumerate(ids.tolist()):
            number = self._number.get(id_)
            if number is None:
                number = len(self._ids) + len(new)
                new.append(id_)
                if id_ >= 0:
                    self._number[id_] = number
            numbers[i] = number
        self._ids.append(np.array(new, dtype=np.int64))
        return numbers


def _runs(contexts: Contexts) -> tuple[Ints, Ints, Ints]:
    return _read_only(contexts.items), _read_only(contexts.starts), _read_only(contexts.ends)


def _read_only(array: Ints) -> Ints:
    """Return the array as numba always gets it: each other kind would be compiled for anew."""
    view = np.ascontiguousarray(array, dtype=np.int64).view()
    view.setflags(write=False)
    return view
