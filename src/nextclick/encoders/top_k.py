"""The best k of many scores, in one pass over each row."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from nextclick.clicks import Ints


def top_k(scores: NDArray[np.float32], k: int) -> tuple[Ints, NDArray[np.float32]]:
    """Return the numbers and the scores of each row's best `k`, best first.

    Of equal scores the one with the lower number comes first. As few scores are among the best of
    those before them, nearly every one costs a single comparison.

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


@numba.njit(cache=True, nogil=True)
def _top_k(scores: NDArray[np.float32], items: Ints, best: NDArray[np.float32]) -> None:
    k = items.shape[1]
    for row in range(len(scores)):
        filled = 0
        for number in range(scores.shape[1]):
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
