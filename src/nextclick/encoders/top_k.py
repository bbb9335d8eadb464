"""The best k of many scores, in one pass over each row, and the probabilities of some."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from nextclick.clicks import Floats, Ints

_AT_ONCE = 64
"""Scores looked at together."""


def top_k(scores: NDArray[np.float32], k: int) -> tuple[Ints, NDArray[np.float32]]:
    """Return the numbers and the scores of each row's best `k`, best first.

    Of equal scores the one with the lower number comes first. Few scores are among the best of
    those before them, so that most are compared many at once, and left.

    Examples
    --------
    >>> items, best = top_k(np.array([[1, 5, 3, 5]], dtype=np.float32), 3)
    >>> items.tolist(), best.tolist()
    ([[1, 3, 2]], [[5.0, 5.0, 3.0]])
    """
    items = np.empty((len(scores), k), dtype=np.int64)
    best = np.empty((len(scores), k), dtype=np.float32)
    _top_k(scores, items, best)
    return items, best


def probabilities(scores: NDArray[np.float32], log_sums: NDArray[np.float32]) -> Floats:
    """Return the probabilities that scores stand for, given each row's log-sum-exp.

    Examples
    --------
    >>> scores = np.log(np.array([[1, 3]], dtype=np.float32))
    >>> probabilities(scores, np.log(np.array([4], dtype=np.float32))).round(6).tolist()
    [[0.25, 0.75]]
    """
    found = np.empty(scores.shape)
    _probabilities(scores, log_sums, found)
    return found


def probabilities_at(
    scores: NDArray[np.float32], log_sums: NDArray[np.float32], items: Ints
) -> Floats:
    """Return the probabilities of items, (contexts, m); 0 where an item has no score.

    Examples
    --------
    >>> scores = np.log(np.array([[1, 3]], dtype=np.float32))
    >>> log_sums = np.log(np.array([4], dtype=np.float32))
    >>> probabilities_at(scores, log_sums, np.array([[1, 2, -1]])).round(6).tolist()
    [[0.75, 0.0, 0.0]]
    """
    found = np.empty(items.shape)
    _probabilities_at(scores, log_sums, items, found)
    return found


@numba.njit(cache=True, nogil=True)
def _top_k(scores: NDArray[np.float32], items: Ints, best: NDArray[np.float32]) -> None:
    k = items.shape[1]
    for row in range(len(scores)):
        best[row] = -np.inf
        filled = 0
        for start in range(0, scores.shape[1], _AT_ONCE):
            some = scores[row, start : start + _AT_ONCE]
            limit = best[row, k - 1]
            better = filled < k
            for score in some:
                better |= score > limit
            if not better:
                continue
            for number in range(start, start + len(some)):
                score = scores[row, number]
                if filled == k and score <= best[row, k - 1]:
                    continue
                place = min(filled, k - 1)
                filled = min(filled + 1, k)
                while place > 0 and best[row, place - 1] < score:
                    best[row, place] = best[row, place - 1]
                    items[row, place] = items[row, place - 1]
                    place -= 1
                best[row, place] = score
                items[row, place] = number


@numba.njit(cache=True, nogil=True)
def _probabilities(
    scores: NDArray[np.float32], log_sums: NDArray[np.float32], found: Floats
) -> None:
    for row in range(len(scores)):
        for place in range(scores.shape[1]):
            found[row, place] = np.exp(scores[row, place] - log_sums[row])


@numba.njit(cache=True, nogil=True)
def _probabilities_at(
    scores: NDArray[np.float32], log_sums: NDArray[np.float32], items: Ints, found: Floats
) -> None:
    for row in range(len(items)):
        for place in range(items.shape[1]):
            item = items[row, place]
            if 0 <= item < scores.shape[1]:
                found[row, place] = np.exp(scores[row, item] - log_sums[row])
            else:
                found[row, place] = 0.0
