"""The mixture that follows from the gate's weights, as far as the best items need it."""

from __future__ import annotations

import numba
import numpy as np

from nextclick.clicks import Floats, Ints


def mix(
    weights: Floats,
    top: tuple[Ints, Floats],
    voted: tuple[Ints, Floats, Floats],
) -> tuple[Ints, Floats]:
    """Return the best items of P = w P_N + (1 - w) P_M, as many as the neural part's best.

    No other item can be among them: what memory does not name is ranked by P_N alone, and there the
    neural part's best come first.

    Parameters
    ----------
    weights
        w for each context.
    top
        The neural part's best items, falling, and their probabilities: (contexts, k) each.
    voted
        The different items that memory names, -1 behind them; P_N and P_M of each: (contexts, m).

    Examples
    --------
    >>> items, scores = mix(
    ...     np.array([0.5]),
    ...     (np.array([[3, 4]]), np.array([[0.5, 0.3]])),
    ...     (np.array([[7, 4]]), np.array([[0.0, 0.3]]), np.array([[0.4, 0.6]])),
    ... )
    >>> items.tolist(), scores.round(2).tolist()
    ([[4, 3]], [[0.45, 0.25]])
    """
    items, scores = np.empty_like(top[0]), np.empty_like(top[1])
    _mix(weights, top[0], top[1], voted[0], voted[1], voted[2], items, scores)
    return items, scores


@numba.njit(cache=True, nogil=True)
def _mix(
    weights: Floats,
    top_items: Ints,
    top_neural: Floats,
    voted_items: Ints,
    voted_neural: Floats,
    voted_memory: Floats,
    items: Ints,
    scores: Floats,
) -> None:
    k, m = top_items.shape[1], voted_items.shape[1]
    candidates = np.empty(k + m, dtype=np.int64)
    mixed = np.empty(k + m)
    for row in range(len(top_items)):
        w = weights[row]
        n = 0
        while n < m and voted_items[row, n] >= 0:
            candidates[n] = voted_items[row, n]
            mixed[n] = w * voted_neural[row, n] + (1 - w) * voted_memory[row, n]
            n += 1
        named = n
        for place in range(k):
            item = top_items[row, place]
            seen = 0
            while seen < named and candidates[seen] != item:
                seen += 1
            if seen == named:
                candidates[n] = item
                mixed[n] = w * top_neural[row, place]
                n += 1
        for place in range(k):  # by falling score, then by number
            best = place
            for other in range(place + 1, n):
                better = mixed[other] > mixed[best] or (
                    mixed[other] == mixed[best] and candidates[other] < candidates[best]
                )
                if better:
                    best = other
            candidates[place], candidates[best] = candidates[best], candidates[place]
            mixed[place], mixed[best] = mixed[best], mixed[place]
            items[row, place] = candidates[place]
            scores[row, place] = mixed[place]
