"""What an item itself says: how often it was clicked, and how long ago."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nextclick.adam import AdamStep, network_state, restore_network
from nextclick.clicks import Floats, Ints
from nextclick.gate.evidence import Array
from nextclick.growing import Growing

Singles: TypeAlias = NDArray[np.float32]

Layers: TypeAlias = tuple[Singles, Singles, Singles, Singles]
"""The network's weights, (facts, units), and biases; those of its one output."""

Tables: TypeAlias = tuple[Ints, int, Layers]
"""Clicks of each item, how many transitions there have been, and the network."""

LEANT = 100
"""How many of the mixture's best items are leant on."""

FACTS = 4
"""How many facts about an item there are."""

BEFORE, SINCE, LAST = range(3)
"""Clicks in the training part, clicks since, and when the last one was."""

HIDDEN = 16
"""Units of the network. They are softsigns: a hundred items cost a few microseconds."""

LEARNING_RATE = 2e-2


@dataclass(frozen=True, eq=False)
class LeaningLessons:
    """What there is to learn from: the best items of some contexts, and which was clicked.

    Parameters
    ----------
    scores
        The probabilities of the mixture's best items, (contexts, items).
    facts
        What is known of each of them, (contexts, items, facts).
    clicked
        Which of them was clicked; -1 for none.
    """

    scores: Floats
    facts: Singles
    clicked: Ints

    @classmethod
    def together(cls, parts: Sequence[LeaningLessons]) -> LeaningLessons:
        """Return the lessons of all parts in one, of as many items as all of them have."""
        width = min(part.scores.shape[1] for part in parts)
        clicked = [np.where(part.clicked < width, part.clicked, -1) for part in parts]
        return cls(
            np.concatenate([part.scores[:, :width] for part in parts]),
            np.concatenate([part.facts[:, :width] for part in parts]),
            np.concatenate(clicked),
        )


class Leaning:
    """Lean towards some items and away from others: P'(y) ∝ P(y) exp(b(y)) for the best of P.

    b is what a small network makes of how often an item was clicked, how often since the training
    part, how many transitions ago it was clicked last, each on a logarithmic scale, and whether it
    is in the training part. What an encoder that never saw an item gives to it is too little, and
    by how much follows from these. All items but the best of P keep their place: b is 0.

    The network learns online by the cross-entropy of P', beginning near b = 0.

    Examples
    --------
    >>> leaning = Leaning(seed=0)
    >>> leaning.begin(np.array([0, 0, 1]), n_items=3)
    >>> best, scores = np.array([[0, 2]]), np.array([[0.6, 0.4]])
    >>> leaning.best(best, scores, 1)[0].tolist()
    [[0]]
    >>> for _ in range(100):
    ...     leaning.plan(leaning.lessons(best, scores, clicked=np.array([2])))()
    >>> leaning.best(best, scores, 1)[0].tolist()
    [[2]]
    """

    def __init__(self, seed: int) -> None:
        self._counts: Growing[np.int64] = Growing.empty(np.int64, 3)
        self._clock = 0
        torch.manual_seed(seed)
        output = nn.Linear(HIDDEN, 1)
        with torch.no_grad():
            output.weight.mul_(0.1)
            output.bias.zero_()
        self._network = nn.Sequential(nn.Linear(FACTS, HIDDEN), nn.Softsign(), output)
        self._optimizer = torch.optim.Adam(self._network.parameters(), lr=LEARNING_RATE)
        self._lay_out()

    def begin(self, items: Ints, n_items: int) -> None:
        """Count the clicks of the training part."""
        self.resize(n_items)
        np.add.at(self._counts.values[:, BEFORE], items, 1)
        self._counts.values[items, LAST] = np.arange(len(items))
        self._clock = len(items)

    def resize(self, n_items: int) -> None:
        """Make room for items up to `n_items`."""
        self._counts.resize(n_items)

    def count(self, items: Ints) -> None:
        """Count clicks after the training part, in order."""
        np.add.at(self._counts.values[:, SINCE], items, 1)
        self._counts.values[items, LAST] = self._clock + np.arange(len(items))
        self._clock += len(items)

    def best(self, items: Ints, scores: Floats, k: int) -> tuple[Ints, Floats]:
        """Return the `k` best items after leaning, by falling score, and then by number.

        Parameters
        ----------
        items, scores
            The mixture's best items and their probabilities; -1 and 0 behind.
        k
            How many to return.
        """
        shape = (len(items), min(k, items.shape[1]))
        best, leant = np.empty(shape, dtype=np.int64), np.empty(shape)
        fill_leant(self.tables, items, scores, best, leant)
        return best, leant

    @property
    def tables(self) -> Tables:
        """What the compiled code leans by: counts, the clock, and the network."""
        return self._counts.values, self._clock, self._layers

    def factors(self, items: Ints, scores: Floats, asked: Ints) -> Floats:
        """Return what the probabilities of some of these items are multiplied by."""
        leant = scores * self._exp(items)
        total = leant.sum(1) + np.maximum(1 - scores.sum(1), 0)
        factors: Floats = self._exp(asked) / total[:, None]
        return factors

    def lessons(self, items: Ints, scores: Floats, clicked: Ints) -> LeaningLessons:
        """Return what is to be learned from clicks, as things stand before them."""
        matches = items == clicked[:, None]
        place = np.where(matches.any(1), matches.argmax(1), -1)
        return LeaningLessons(scores, self._facts(items), place)

    def plan(self, lessons: LeaningLessons) -> Callable[[], None]:
        """Compute one step of Adam on the lessons of a batch, and return what takes it."""
        parameters = list(self._network.parameters())
        scores = torch.from_numpy(lessons.scores)
        leaning = self._network(torch.from_numpy(lessons.facts))[:, :, 0].double()
        rest = (1 - scores.sum(1)).clamp(min=0)
        total = (scores * leaning.exp()).sum(1) + rest
        rows = np.flatnonzero(lessons.clicked >= 0)
        own = leaning[torch.from_numpy(rows), torch.from_numpy(lessons.clicked[rows])]
        loss = (total.log().sum() - own.sum()) / len(scores)
        step = AdamStep(self._optimizer, torch.autograd.grad(loss, parameters))

        def take_step() -> None:
            step.take()
            self._lay_out()

        return take_step

    def state(self) -> dict[str, Array]:
        """Return the counts, the weights, and the optimizer's moments."""
        counted = {"counts": self._counts.values, "clock": np.array(self._clock)}
        return counted | network_state(self._network, self._optimizer)

    def restore(self, state: dict[str, Array]) -> None:
        """Take up what `state` returned."""
        self._counts = Growing(state["counts"].copy())
        self._clock = int(state["clock"])
        restore_network(self._network, self._optimizer, state)
        self._lay_out()

    def _lay_out(self) -> None:
        """Make the weights ready to be read, whenever others take their place."""
        w_h, b_h, w_o, b_o = (one.detach().numpy() for one in self._network.parameters())
        # A fact's weights side by side: those of all units are one instruction.
        self._layers = np.ascontiguousarray(w_h.T), b_h, w_o[0], b_o

    def _facts(self, items: Ints) -> Singles:
        facts = np.empty((*items.shape, FACTS), dtype=np.float32)
        _gather(self._counts.values, self._clock, items, facts)
        return facts

    def _exp(self, items: Ints) -> Floats:
        """Return exp(b) of items."""
        factors = np.empty(items.shape)
        _exp(self._facts(items), self._layers, factors)
        return factors


@numba.njit(cache=True, nogil=True)
def _gather(counts: Ints, clock: int, items: Ints, facts: Singles) -> None:
    """Fill in the facts about items, each about as large as 1; those of no item are all 0."""
    counted = np.empty((items.shape[1], 3), dtype=np.int64)
    for row in range(len(items)):
        for column in range(items.shape[1]):  # apart: so many are fetched from memory at once
            counted[column] = counts[max(items[row, column], 0)]
        for column in range(items.shape[1]):
            if items[row, column] < 0:
                facts[row, column] = 0
                continue
            before, since = counted[column, BEFORE], counted[column, SINCE]
            facts[row, column, 0] = np.log1p(before + since) / 3
            facts[row, column, 1] = np.log1p(since) / 3
            facts[row, column, 2] = np.log1p(clock - counted[column, LAST]) / 6
            facts[row, column, 3] = before == 0


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _exp(facts: Singles, layers: Layers, factors: Floats) -> None:
    w_h, b_h, w_o, b_o = layers
    hidden = np.empty(len(b_h), dtype=np.float32)
    for row in range(len(facts)):
        for column in range(facts.shape[1]):
            hidden[:] = b_h
            for fact in range(facts.shape[2]):
                for unit in range(len(hidden)):
                    hidden[unit] += w_h[fact, unit] * facts[row, column, fact]
            leaning = b_o[0]
            for unit in range(len(hidden)):
                leaning += w_o[unit] * hidden[unit] / (np.float32(1) + abs(hidden[unit]))
            factors[row, column] = np.exp(np.float64(leaning))


@numba.njit(cache=True, nogil=True)
def fill_leant(tables: Tables, items: Ints, scores: Floats, best: Ints, leant: Floats) -> None:
    """Fill in what `Leaning.best` returns."""
    counts, clock, layers = tables
    facts, factors = np.empty((*items.shape, FACTS), dtype=np.float32), np.empty(items.shape)
    _gather(counts, clock, items, facts)
    _exp(facts, layers, factors)
    _best(factors, items, scores, best, leant)


@numba.njit(cache=True, nogil=True)
def _best(factors: Floats, items: Ints, scores: Floats, best: Ints, leant: Floats) -> None:
    n = items.shape[1]
    candidates = np.empty(n, dtype=np.int64)
    probabilities = np.empty(n)
    for row in range(len(items)):
        total, named = 0.0, 0.0
        for place in range(n):
            candidates[place] = items[row, place]
            probabilities[place] = factors[row, place] * scores[row, place]
            total += probabilities[place]
            named += scores[row, place]
            if items[row, place] < 0:
                probabilities[place] = -1.0  # behind all others
        total += max(1.0 - named, 0.0)
        for place in range(best.shape[1]):
            first = place
            for other in range(place + 1, n):
                if probabilities[other] > probabilities[first] or (
                    probabilities[other] == probabilities[first]
                    and candidates[other] < candidates[first]
                ):
                    first = other
            best[row, place] = candidates[first]
            leant[row, place] = max(probabilities[first], 0.0) / total
            candidates[first], probabilities[first] = candidates[place], probabilities[place]
