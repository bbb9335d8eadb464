"""The context tree: CT (Mi and Faltings 2018)."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from nextclick.baselines import tree_kernels as kernels
from nextclick.baselines.compiled import NOTHING, read_only, runs
from nextclick.baselines.growing_lists import GrowingLists, fill
from nextclick.baselines.predictor import Predictor
from nextclick.clicks import CONTEXT_LENGTH, Contexts, Floats, Ints, Transitions
from nextclick.growing import Growing
from nextclick.recommender import Ranked, State, with_prefix, without_prefix
from nextclick.settings import Settings


class ContextTreeSettings(Settings):
    """Settings of the context tree.

    Parameters
    ----------
    depth
        How many of a session's last clicks the tree looks at: the length of its longest suffix.
    smoothing
        How many clicks, spread evenly over the whole catalog, each expert imagines besides those
        that it has counted.
    decay
        The weight that an expert begins with, for each click of its suffix.
    least
        How near to 0 and to 1 a weight may come, so that it can always turn.
    """

    depth: int = Field(default=4, ge=1, le=CONTEXT_LENGTH)
    smoothing: float = Field(default=10.0, gt=0)
    decay: float = Field(default=0.5, gt=0, lt=1)
    least: float = Field(default=0.1, gt=0, lt=0.5)


class ContextTree(Predictor):
    """Recommend what followed the same last clicks, however many of them are worth a look.

    Each suffix ``i`` of a session that was seen before has an expert, which predicts an item by how
    often it followed: ``P_i(x) = (n_i(x) + smoothing / N) / (n_i + smoothing)``, N being the size
    of the catalog. From the shortest suffix, the empty one, to the longest that is known,
    ``Q_i = w_i P_i + (1 - w_i) Q_{i-1}``, and the longest one's ``Q`` is the prediction. When the
    next click is learned, on x, each expert's weight becomes what it is by Bayes' rule,
    ``w_i <- w_i P_i(x) / Q_i(x)``, before x is counted.

    Transitions are learned one after the other: how the stream is cut into batches makes no
    difference.

    Of items with equal scores the one that was last clicked next is better.

    Examples
    --------
    >>> from nextclick.clicks import ClickLog, Contexts
    >>> log = ClickLog.of([(0, 0, 1), (0, 1, 2), (1, 1, 3), (1, 2, 4), (2, 1, 5), (2, 2, 6)])
    >>> ContextTree().fit(log).recommend(Contexts.of([[0], [1]]), k=2).items.tolist()
    [[1, 2], [2, 1]]
    """

    name = "ct"
    settings_type = ContextTreeSettings
    parts = frozenset({"memory"})
    label = "CT"

    def _begin(self) -> None:
        self._counts = GrowingLists(smallest=1)
        self._children = GrowingLists(smallest=1)
        self._totals: Growing[np.int64] = Growing.empty(np.int64)
        self._weights: Growing[np.float64] = Growing.empty(np.float64)
        self._used = np.zeros(2, np.int64)
        self._nodes_of: Growing[np.int64] = Growing.empty(np.int64, fill=NOTHING)
        self._at_root: Growing[np.int64] = Growing.empty(np.int64)
        self._last_click: Growing[np.int64] = Growing.empty(np.int64, fill=NOTHING)
        self._clock = np.zeros(1, np.int64)
        self._rank(np.zeros(0, np.int64))

    def _grow(self, n_items: int) -> None:
        for by_item in (self._nodes_of, self._at_root, self._last_click):
            by_item.resize(n_items)
        new = np.arange(len(self._ranking), n_items)
        self._ranking.append(new)
        self._places.append(new)

    def _recommend(self, contexts: Contexts, k: int) -> Ranked:
        tree = (self._root, self._nodes, self._rules)
        return Ranked(*kernels.recommend(*tree, *runs(contexts), k))

    def _probabilities(self, contexts: Contexts, items: Ints) -> Floats:
        tree = (self._root, self._nodes, self._rules)
        return kernels.probabilities(*tree, *runs(contexts), read_only(items))

    def _state(self) -> State:
        n_nodes = self._used[0]
        return {
            "used": self._used,
            "totals": self._totals.values[:n_nodes],
            "weights": self._weights.values[:n_nodes],
            "nodes_of": self._nodes_of.values,
            "at_root": self._at_root.values,
            "ranking": self._ranking.values,
            "last_click": self._last_click.values,
            "clock": self._clock,
            **with_prefix("counts", self._counts.state(n_nodes)),
            **with_prefix("children", self._children.state(n_nodes)),
        }

    def _restore(self, state: State) -> None:
        self._used = state["used"].copy()
        self._totals = Growing(state["totals"].copy())
        self._weights = Growing(state["weights"].copy())
        self._nodes_of = Growing(state["nodes_of"].copy(), fill=NOTHING)
        self._at_root = Growing(state["at_root"].copy())
        self._last_click = Growing(state["last_click"].copy(), fill=NOTHING)
        self._clock = state["clock"].copy()
        self._counts = GrowingLists.restored(without_prefix("counts", state), smallest=1)
        self._children = GrowingLists.restored(without_prefix("children", state), smallest=1)
        self._rank(state["ranking"].copy())

    @property
    def _rules(self) -> kernels.Rules:
        return kernels.Rules(**self.settings.model_dump())

    @property
    def _nodes(self) -> kernels.Nodes:
        return kernels.Nodes(
            self._counts.arrays,
            self._children.arrays,
            self._totals.values,
            self._weights.values,
            self._used,
        )

    @property
    def _root(self) -> kernels.Root:
        return kernels.Root(
            self._nodes_of.values,
            self._at_root.values,
            self._ranking.values,
            self._places.values,
            self._above.values,
            self._last_click.values,
            self._clock,
        )

    def _count(self, transitions: Transitions) -> None:
        contexts = transitions.contexts.last(CONTEXT_LENGTH).known(self.n_items)
        learned = (*runs(contexts), read_only(transitions.items))
        fill(
            lambda first: kernels.learn(self._root, self._nodes, self._rules, *learned, first),
            len(transitions),
            self._make_room,
        )

    def _make_room(self) -> None:
        self._counts.make_room()
        self._children.make_room()
        self._above.resize(2 * len(self._above))
        n_nodes = 2 * len(self._totals) + 1024
        for by_node in (self._counts, self._children, self._totals, self._weights):
            by_node.resize(n_nodes)

    def _rank(self, ranking: Ints) -> None:
        """Take up a ranking of the items by their counts at the root."""
        places = np.empty_like(ranking)
        places[ranking] = np.arange(len(ranking))
        counts = self._at_root.values
        with_count = np.bincount(counts, minlength=1024)
        self._ranking = Growing(ranking)
        self._places = Growing(places)
        self._above = Growing(len(counts) - np.cumsum(with_count))
