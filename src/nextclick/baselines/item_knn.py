"""The items most like the last one: Item-KNN."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from nextclick.baselines import item_kernels as kernels
from nextclick.baselines.compiled import NOTHING, read_only, runs
from nextclick.baselines.growing_lists import GrowingLists, fill
from nextclick.baselines.predictor import Predictor
from nextclick.baselines.questions import Answers, Questions
from nextclick.baselines.session_numbers import SessionNumbers
from nextclick.clicks import CONTEXT_LENGTH, Contexts, Floats, Ints, Transitions
from nextclick.growing import Growing
from nextclick.recommender import Explanation, Ranked, State, with_prefix, without_prefix
from nextclick.settings import Settings


class ItemKNNSettings(Settings):
    """Settings of Item-KNN.

    Parameters
    ----------
    regularization
        How many sessions more than it has each item is taken to have: the higher, the less those
        items count that are like the last one by chance, because they are rare.
    """

    regularization: float = Field(default=200.0, ge=0)


class ItemKNN(Predictor):
    """Recommend what other sessions clicked together with the last item.

    The similarity of two items is the cosine between their sets of sessions,
    ``n_ij / sqrt((n_i + regularization) (n_j + regularization))``, where ``n_ij`` other sessions
    have both items, and ``n_i`` and ``n_j`` have each. The score of an item is its share of the
    similarities of all.

    An item enters a session once, with its first click, and is counted together with the 20 items
    that entered before it. Transitions are learned one after the other: how the stream is cut into
    batches makes no difference. A transition whose session is not known (-1) is a session of its
    own. What the current session itself clicked together does not count.

    Of items with equal scores the one that last entered a session is better.

    Examples
    --------
    >>> from nextclick.clicks import ClickLog, Contexts
    >>> log = ClickLog.of([(0, 0, 1), (0, 1, 2), (1, 1, 3), (1, 2, 4), (2, 2, 5), (2, 3, 6)])
    >>> ItemKNN().fit(log).recommend(Contexts.of([[0], [3, 1]]), k=3).items.tolist()
    [[1, -1, -1], [0, 2, -1]]
    """

    name = "item-knn"
    settings_type = ItemKNNSettings
    parts = frozenset({"memory"})
    label = "Item-KNN"

    def _begin(self) -> None:
        self._sessions = SessionNumbers()
        self._items_of = GrowingLists(np.int32)
        self._together = GrowingLists()
        self._n_sessions: Growing[np.int64] = Growing.empty(np.int64)
        self._last_click: Growing[np.int64] = Growing.empty(np.int64, fill=NOTHING)
        self._clock = np.zeros(1, np.int64)

    def _grow(self, n_items: int) -> None:
        for by_item in (self._together, self._n_sessions, self._last_click):
            by_item.resize(n_items)

    def _recommend(self, contexts: Contexts, k: int) -> Ranked:
        questions = self._questions(contexts)
        return Ranked(*kernels.recommend(self._counts, questions, self.settings.regularization, k))

    def _explain(self, contexts: Contexts, items: Ints) -> Explanation:
        scores, counts = self._asked(contexts, items)
        return Explanation(neural=np.zeros(items.shape), memory=scores, sessions=counts)

    def _probabilities(self, contexts: Contexts, items: Ints) -> Floats:
        return self._asked(contexts, items)[0]

    def _asked(self, contexts: Contexts, items: Ints) -> tuple[Floats, Ints]:
        questions, regularization = self._questions(contexts), self.settings.regularization
        return kernels.explain(self._counts, questions, regularization, read_only(items))

    def _state(self) -> State:
        return {
            "ids": self._sessions.ids,
            "clock": self._clock,
            "last_click": self._last_click.values,
            "n_sessions": self._n_sessions.values,
            **with_prefix("items_of", self._items_of.state()),
            **with_prefix("together", self._together.state()),
        }

    def _restore(self, state: State) -> None:
        self._sessions = SessionNumbers(state["ids"])
        self._clock = state["clock"].copy()
        self._last_click = Growing(state["last_click"].copy(), fill=NOTHING)
        self._n_sessions = Growing(state["n_sessions"].copy())
        self._items_of = GrowingLists.restored(without_prefix("items_of", state))
        self._together = GrowingLists.restored(without_prefix("together", state))

    @property
    def _counts(self) -> kernels.Counts:
        return kernels.Counts(
            self._items_of.arrays,
            self._together.arrays,
            self._n_sessions.values,
            self._last_click.values,
            self._clock,
        )

    def _questions(self, contexts: Contexts) -> Questions:
        return Questions(*runs(contexts), self._sessions.find(contexts.sessions))

    def _count(self, transitions: Transitions) -> None:
        contexts = transitions.contexts.last(CONTEXT_LENGTH).known(self.n_items)
        sessions = self._sessions.add(contexts.sessions)
        self._items_of.resize(len(self._sessions))
        answers = Answers(*runs(contexts), sessions, read_only(transitions.items))
        fill(
            lambda first: kernels.learn(self._counts, answers, first),
            len(transitions),
            self._make_room,
        )

    def _make_room(self) -> None:
        self._items_of.make_room()
        self._together.make_room()
