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
    fill_mixture(weights, top, voted, items, scores)
    return items, scores


@numba.njit(cache=True, nogil=True)
def fill_mixture(
    weights: Floats,
    top: tuple[Ints, Floats],
    voted: tuple[Ints, Floats, Floats],
    items: Ints,
    scores: Floats,
) -> None:
    """Fill in what `mix` returns."""
    top_items, top_neural = top
    voted_items, voted_neural, voted_memory = voted
    k, m = top_items.shape[1], voted_items.shape[1]
    named, by_both = np.empty(m, dtype=np.int64), np.empty(m)
    others, by_neural = np.empty(k, dtype=np.int64), np.empty(k)
    for row in range(len(top_items)):
        w = weights[row]
        n = 0
        while n < m and voted_items[row, n] >= 0:
            mixed = w * voted_neural[row, n] + (1 - w) * voted_memory[row, n]
            _insert(voted_items[row, n], mixed, named, by_both, n)
            n += 1
        rest = 0
        for place in range(k):  # in order already, but for those of equal probabilities
            if not _is_among(top_items[row, place], named[:n]):
                mixed = w * top_neural[row, place]
                _insert(top_items[row, place], mixed, others, by_neural, rest)
                rest += 1
        one = other = 0
        for place in range(k):
            if other == rest or (
                one < n and _is_before(by_both[one], named[one], by_neural[other], others[other])
            ):
                items[row, place], scores[row, place] = named[one], by_both[one]
                one += 1
            else:
                items[row, place], scores[row, place] = others[other], by_neural[other]
                other += 1


@numba.njit(cache=True, nogil=True)
def _is_before(score: float, item: int, other_score: float, other: int) -> bool:
    """Return whether an item is better than another: by falling score, then by number."""
    return score > other_score or (score == other_score and item < other)


@numba.njit(cache=True, nogil=True)
def _insert(item: int, score: float, items: Ints, scores: Floats, n: int) -> None:
    """Put an item where it belongs among the first `n`, which are in order."""
    place = n
    while place > 0 and _is_before(score, item, scores[place - 1], items[place - 1]):
        items[place], scores[place] = items[place - 1], scores[place - 1]
        place -= 1
    items[place], scores[place] = item, score


@numba.njit(cache=True, nogil=True)
def _is_among(item: int, items: Ints) -> bool:
    among = False
    for one in items:  # to the end: so the processor compares several at once
        among |= one == item
    return among
