"""Methods whose scores are probabilities."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from nextclick.clicks import ClickLog, Contexts, Floats, Ints, Transitions
from nextclick.recommender import Recommender
from nextclick.runtime import Runtime
from nextclick.settings import Settings


class Predictor(Recommender):
    """A recommender whose scores are shares of one, over all that it could recommend.

    So that they can be mixed with those of others. `recommend` gives the best items with their
    probabilities, `probabilities` those of any items; the cost of either is the same.
    """

    def __init__(self, settings: Settings | None = None, runtime: Runtime | None = None) -> None:
        super().__init__(settings, runtime)
        self._begin()

    def _fit(self, log: ClickLog, validation: ClickLog | None) -> None:  # noqa: ARG002 - the contract's
        self._begin()
        self._grow(self.n_items)
        self._count(log.transitions())

    def _remember(self, transitions: Transitions, parts: frozenset[str], lessons: Any) -> None:  # noqa: ARG002 - the contract's
        self._count(transitions)

    def probabilities(self, contexts: Contexts, items: Ints) -> Floats:
        """Return how probable these items are as the next ones, as far as the method can say.

        Parameters
        ----------
        contexts
            As for `recommend`. A context in which nothing is known makes no item probable.
        items
            The items asked about for each context, (contexts, m), in any order; -1 for none.

        Examples
        --------
        >>> from nextclick.baselines.session_knn import SessionKNN
        >>> from nextclick.clicks import ClickLog
        >>> model = SessionKNN().fit(ClickLog.of([(0, 0, 1), (0, 1, 2), (1, 0, 3), (1, 2, 4)]))
        >>> model.probabilities(Contexts.of([[0], [9]]), np.array([[0, 1, 3], [0, 1, 3]])).tolist()
        [[0.5, 0.25, 0.0], [0.0, 0.0, 0.0]]
        """
        usable = self._usable(contexts)
        warm = usable.lengths > 0
        asked = np.where((items >= 0) & (items < self.n_items), items, -1)
        answer = np.zeros(items.shape)
        if warm.any():
            answer[warm] = self._probabilities(usable[warm], asked[warm])
        return answer

    @abstractmethod
    def _begin(self) -> None:
        """Forget everything."""

    @abstractmethod
    def _grow(self, n_items: int) -> None:
        """Make room for items: the compiled parts look into their arrays without looking twice."""

    @abstractmethod
    def _count(self, transitions: Transitions) -> None:
        """Count these transitions, one after the other."""

    @abstractmethod
    def _probabilities(self, contexts: Contexts, items: Ints) -> Floats:
        """Return the probabilities of items for contexts of known items, none of them empty."""
