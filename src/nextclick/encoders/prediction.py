"""P_N: what an encoder predicts for some contexts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from nextclick.clicks import Floats, Ints
from nextclick.encoders.sifting import Sifted


@dataclass(frozen=True, eq=False)
class Prediction:
    """P_N for some contexts: the softmax of their scores over the catalog.

    To be asked before the model learns more than one step.

    Parameters
    ----------
    representations
        Of the contexts.
    best
        The best items, their scores, and the log-sum-exp of all.
    score
        Returns the scores of items, (contexts, m); -infinity for what is not in the catalog.
    """

    representations: NDArray[np.float32]
    best: Sifted
    score: Callable[[Ints], NDArray[np.float32]]

    def top(self, k: int) -> tuple[Ints, Floats]:
        """Return the `k` most probable items, as far as they were found, and their probabilities.

        -1 and 0 behind where there are no more items.
        """
        scores = self.best.scores[:, :k]
        return self.best.items[:, :k], probabilities(scores, self.best.log_sums)

    def at(self, items: Ints) -> Floats:
        """Return the probabilities of items, (contexts, m); 0 for what is not in the catalog."""
        return probabilities(self.score(items), self.best.log_sums)


def probabilities(scores: NDArray[np.float32], log_sums: NDArray[np.float32]) -> Floats:
    """Return the probabilities that scores stand for, given each row's log-sum-exp.

    Examples
    --------
    >>> scores = np.log(np.array([[1, 3]], dtype=np.float32))
    >>> probabilities(scores, np.log(np.array([4], dtype=np.float32))).round(6).tolist()
    [[0.25, 0.75]]
    """
    found = np.empty(scores.shape)
    fill_probabilities(scores, log_sums, found)
    return found


@numba.njit(cache=True, nogil=True)
def fill_probabilities(
    scores: NDArray[np.float32], log_sums: NDArray[np.float32], found: Floats
) -> None:
    """Fill in what `probabilities` returns."""
    for row in range(len(scores)):
        for place in range(scores.shape[1]):
            found[row, place] = np.exp(scores[row, place] - log_sums[row])
