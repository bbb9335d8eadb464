"""What a gate sees of its two parts, and what it learns from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numba
import numpy as np
from numpy.typing import NDArray

from nextclick.clicks import Floats, Ints, Mask

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the parts say about some contexts; a row for each.

    Parameters
    ----------
    contexts
        The representations.
    features
        Facts about the two predictions: see `evidence_features`.
    distances
        The neighbours' squared distances, nearest first; infinity where there is none.
    silent
        Which of the further predictors, if there are any, have nothing to say: (contexts,
        predictors).
    """

    contexts: NDArray[np.float32]
    features: NDArray[np.float32]
    distances: NDArray[np.float32]
    silent: Mask


@dataclass(frozen=True, eq=False)
class Lessons:
    """What a gate learns from: evidence, and how each part did on the item that was clicked.

    Parameters
    ----------
    evidence
        What the parts said.
    ages
        How many entries were written after each neighbour; -1 where there is none.
    own
        Which neighbours are of the session that asks.
    matches
        Which of the neighbours name the item clicked.
    neural
        The probability that the neural part gave to it.
    memory
        The probability that the memory gave to it, by the paper's kernel.
    others
        The probabilities that further predictors gave to it.
    """

    evidence: Evidence
    ages: Ints
    own: Mask
    matches: Mask
    neural: Floats
    memory: Floats
    others: Floats

    def __len__(self) -> int:
        return len(self.neural)

    def __getitem__(self, rows: Array | slice) -> Lessons:
        """Return some of the lessons."""
        evidence = Evidence(*(column[rows] for column in _columns(self.evidence)))
        return Lessons(evidence, *(column[rows] for column in _columns(self)[1:]))

    @classmethod
    def together(cls, parts: Sequence[Lessons]) -> Lessons:
        """Return the lessons of all parts in one."""
        if len(parts) == 1:
            return parts[0]
        evidence = zip(*(_columns(part.evidence) for part in parts), strict=True)
        others = zip(*(_columns(part)[1:] for part in parts), strict=True)
        return cls(
            Evidence(*map(np.concatenate, evidence)), *(np.concatenate(each) for each in others)
        )


def _columns(rows: Evidence | Lessons) -> list[Any]:
    return [getattr(rows, field.name) for field in fields(rows)]


FEATURES = 7


def evidence_features(
    distances: NDArray[np.float32],
    named: Ints,
    top_probabilities: Floats,
    memory_size: int,
) -> NDArray[np.float32]:
    """Return the facts that a gate with evidence sees, a row for each context.

    The distances of the 1st, 10th and 50th neighbour, how many different items the ten nearest
    name, the largest probability of the neural part and the entropy of its best ones, and the size
    of the memory.

    Parameters
    ----------
    distances, named
        The neighbours' squared distances and items.
    top_probabilities
        The neural part's largest probabilities, falling.
    memory_size
        How many entries the memory has.
    """
    features = np.empty((len(distances), FEATURES), dtype=np.float32)
    fill_features(distances, named, top_probabilities, memory_size, features)
    return features


CERTAINTY = 2


def certainty(top_probabilities: Floats) -> NDArray[np.float32]:
    """Return the facts that a gate sees of a further predictor, a row for each context.

    Its largest probability, and the entropy of its best ones.

    Examples
    --------
    >>> certainty(np.array([[0.5, 0.25, 0.25]])).round(2).tolist()
    [[-0.6899999976158142, 1.0399999618530273]]
    """
    facts = np.empty((len(top_probabilities), CERTAINTY), dtype=np.float32)
    for row, likeliest in enumerate(top_probabilities):
        facts[row] = _certainty(likeliest)
    return facts


@numba.njit(cache=True, nogil=True)
def fill_features(
    distances: NDArray[np.float32],
    named: Ints,
    top_probabilities: Floats,
    memory_size: int,
    features: NDArray[np.float32],
) -> None:
    """Fill in what `evidence_features` returns."""
    k = distances.shape[1]
    for row in range(len(distances)):
        for column, place in enumerate((1, 10, 50)):
            squared = distances[row, min(place, k) - 1]
            features[row, column] = math.sqrt(4.0 if np.isinf(squared) else squared)
        different = 0
        for place in range(min(10, k)):
            item = named[row, place]
            seen = item < 0
            for earlier in range(place):
                seen = seen or named[row, earlier] == item
            different += not seen
        features[row, 3] = different
        features[row, 4], features[row, 5] = _certainty(top_probabilities[row])
        features[row, 6] = math.log1p(memory_size)


@numba.njit(cache=True, nogil=True)
def _certainty(likeliest: Floats) -> tuple[float, float]:
    """Return the logarithm of the largest probability, and the entropy of the best and the rest."""
    rest, entropy = 1.0, 0.0
    for likely in likeliest:
        rest -= likely
        entropy -= max(likely, 1e-12) * math.log(max(likely, 1e-12))
    rest = max(rest, 1e-12)
    return math.log(max(likeliest[0], 1e-12)), entropy - rest * math.log(rest)
