"""The most popular items, the same for every context."""

from __future__ import annotations

from typing import Any

import numpy as np

from nextclick.clicks import ClickLog, Contexts, Transitions
from nextclick.popular import PopularItems
from nextclick.recommender import Ranked, Recommender, State
from nextclick.settings import Settings


class PopularitySettings(Settings):
    """Settings of the popularity baseline.

    Parameters
    ----------
    half_life
        After how many further clicks a click counts half; `None` counts all clicks alike.
    """

    half_life: float | None = None


class Popularity(Recommender):
    """Recommend what is clicked most.

    `learn` counts the next item of every transition; the order within a batch matters only through
    `half_life`.

    Examples
    --------
    >>> log = ClickLog.of([(0, 0, 1), (0, 1, 2), (1, 1, 3), (1, 2, 4)])
    >>> model = Popularity().fit(log)
    >>> model.recommend(Contexts.of([[0], [2]]), k=1).items.tolist()
    [[1], [1]]
    """

    name = "popularity"
    settings_type = PopularitySettings
    parts = frozenset({"memory"})
    label = "Popularity"

    def _fit(self, log: ClickLog, validation: ClickLog | None) -> None:  # noqa: ARG002 - the contract's
        self._counts = PopularItems(self.settings.half_life)
        self._counts.resize(self.n_items)
        self._counts.add(log.items)

    def _recommend(self, contexts: Contexts, k: int) -> Ranked:
        items, scores = self._counts.top(k)
        shape = (len(contexts), 1)
        return Ranked(np.tile(items, shape), np.tile(scores, shape))

    def _remember(self, transitions: Transitions, parts: frozenset[str], lessons: Any) -> None:  # noqa: ARG002 - the contract's
        self._counts.resize(self.n_items)
        self._counts.add(transitions.items)

    def _state(self) -> State:
        return self._counts.state()

    def _restore(self, state: State) -> None:
        self._counts = PopularItems(self.settings.half_life)
        self._counts.restore(state)
