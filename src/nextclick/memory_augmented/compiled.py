"""What MAN's parts say about some contexts, weighed and mixed in one compiled pass.

For one context each step of it takes a microsecond or two; to call them one by one, after the
product with the catalog has emptied the processor's caches, takes several times as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numba
import numpy as np

from nextclick.clicks import Floats, Ints
from nextclick.encoders.prediction import Prediction, fill_probabilities
from nextclick.encoders.sifting import ItemScores, fill_scores
from nextclick.gate import Evidence, Kernel, LearnedGate, Opening
from nextclick.gate.evidence import FEATURES, Array, fill_features
from nextclick.gate.gates import fill_opening
from nextclick.gate.leaning import Leaning, fill_leant
from nextclick.gate.mixing import fill_mixture
from nextclick.memory.base import Neighbours
from nextclick.memory.kernel import Votes, learned_weights, vote_learned

LIKELY = 20
"""How many of the neural part's best items the gate's evidence looks at."""

Arrays: TypeAlias = tuple[Array, ...]


@dataclass(eq=False, slots=True)
class CompiledConsultation:
    """What `Consultation` holds, and what follows from it, for a gate that learns a kernel.

    Parameters
    ----------
    sessions, neural, neighbours
        Who asks, and what the parts say.
    likeliest, features
        The probabilities of the neural part's best items, and the gate's evidence.
    weights, kernel
        The neural part's weights, and β, δ and γ: (3, contexts).
    voted
        The items that memory names, and their probabilities.
    mixed
        The best items of P, before any leaning, and their probabilities.
    best
        The best after it.
    """

    sessions: Ints
    neural: Prediction
    neighbours: Neighbours
    likeliest: Floats
    features: Array
    weights: Floats
    kernel: Floats
    voted: tuple[Ints, Floats]
    mixed: tuple[Ints, Floats]
    best: tuple[Ints, Floats]

    @property
    def top(self) -> tuple[Ints, Floats]:
        """The neural part's best items and their probabilities."""
        return self.neural.best.items, self.likeliest

    @property
    def evidence(self) -> Evidence:
        """What the gate saw."""
        silent = np.empty((len(self.weights), 0), dtype=np.bool_)
        return Evidence(
            self.neural.representations, self.features, self.neighbours.distances, silent
        )

    @property
    def opening(self) -> Opening:
        """How far the gate is open."""
        return Opening(self.weights, Kernel(*self.kernel), np.empty((len(self.weights), 0)))

    @property
    def shares(self) -> Floats:
        """How much of what the memory predicts comes from each neighbour."""
        bandwidths, recency, loyalty = self.kernel
        return learned_weights(self.neighbours, bandwidths, recency, loyalty, self.sessions)

    @property
    def votes(self) -> Votes:
        """What the memory predicts: P_M."""
        return Votes(*self.voted)


def consult_compiled(
    sessions: Ints,
    neural: Prediction,
    scores: ItemScores,
    neighbours: Neighbours,
    entries: int,
    gate: LearnedGate,
    leaning: Leaning,
    k: int,
) -> CompiledConsultation:
    """Weigh and mix what the parts say.

    Parameters
    ----------
    sessions
        The session that each context is of; -1 where it is not known.
    neural, scores, neighbours
        What the parts say, and what gives the neural part's scores.
    entries
        How many there are in memory.
    gate, leaning
        What to weigh and to lean by.
    k
        How many items are to be recommended.
    """
    found = neighbours.distances, neighbours.ages, neighbours.sessions, neighbours.items
    n, width = neural.best.items.shape
    named = found[3].shape
    said = CompiledConsultation(
        sessions,
        neural,
        neighbours,
        np.empty((n, width)),
        np.empty((n, FEATURES), dtype=np.float32),
        np.empty(n),
        np.empty((3, n)),
        (np.empty(named, dtype=np.int64), np.empty(named)),
        (np.empty((n, width), dtype=np.int64), np.empty((n, width))),
        (np.empty((n, min(k, width)), dtype=np.int64), np.empty((n, min(k, width)))),
    )
    _consult(
        (neural.representations, *neural.best, scores.queries, scores.rows, scores.scales),
        (sessions, entries, *found),
        (gate.tables, leaning.tables),
        (said.likeliest, said.features, said.weights, said.kernel),
        (*said.voted, *said.mixed, *said.best),
    )
    return said


@numba.njit(cache=True, nogil=True)
def _consult(neural: Any, memory: Any, tables: Any, weighed: Any, mixed: Any) -> None:
    contexts, top_items, top_scores, log_sums, queries, rows, scales = neural
    asking, entries, distances, ages, sessions, named = memory
    by_gate, by_leaning = tables
    likeliest, features, weights, kernel = weighed
    voted, by_memory, items, scores, best, leant = mixed
    fill_probabilities(top_scores, log_sums, likeliest)
    fill_features(distances, named, likeliest[:, :LIKELY], entries, features)
    nothing = np.empty((len(weights), 0), dtype=np.bool_), np.empty((len(weights), 0))
    seen = contexts, features, distances, nothing[0]
    fill_opening(seen, by_gate, (weights, kernel, nothing[1]))
    shape = kernel[0], kernel[1], kernel[2]
    vote_learned((distances, ages, sessions, named), shape, asking, voted, by_memory)
    voted_scores, by_neural = np.empty(voted.shape, dtype=np.float32), np.empty(voted.shape)
    fill_scores(queries, rows, scales, voted, voted_scores)
    fill_probabilities(voted_scores, log_sums, by_neural)
    top = top_items, likeliest
    fill_mixture(weights, top, (voted, by_neural, by_memory), items, scores)
    fill_leant(by_leaning, items, scores, best, leant)
