"""The best of the scores of a whole catalog, and all their exponents added up, block by block.

The scores of 100 contexts over a large catalog are tens of megabytes. Written down, and read again
to scale them, to find the largest, to add up the exponents and to find the best, they cost more
than their product does. Here a block of items is done with before the next one is scored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nextclick.clicks import Ints
from nextclick.encoders.exponential import exponential
from nextclick.encoders.products import product
from nextclick.selection import keep_smallest

Rows = NDArray[np.float32]
Ranks = NDArray[np.uint64]

SCORES_AT_ONCE = 200_000
"""Scores looked at together: they fit the second cache."""

FEW = 6
"""For up to so many queries BLAS is slower than going through the rows once."""

_BLOCK = 64
"""Items whose scores are looked at together."""

_SPARE = 3
"""Items held for each that is wanted, before the worst are dropped."""


_FAST = {"reassoc", "contract", "nsz"}
"""Sums may be added up several terms at a time."""


class Sifted(NamedTuple):
    """The best items of each query, their scores, best first, and each query's log-sum-exp.

    Of equal scores the one of the item with the lower number comes first; -1 and -infinity behind
    where there are no more items.
    """

    items: Ints
    scores: Rows
    log_sums: Rows


def sift(queries: Tensor, rows: Tensor, scales: Rows, k: int) -> Sifted:
    """Return the `k` best of ``scales * (queries @ rows.T)``, and its log-sum-exp.

    Examples
    --------
    >>> rows, scales = torch.tensor([[1.0], [5.0], [3.0]]), np.ones(3, dtype=np.float32)
    >>> best = sift(torch.tensor([[2.0]]), rows, scales, 2)
    >>> best.items.tolist(), best.scores.tolist(), round(float(best.log_sums[0]), 3)
    ([[1, 2]], [[10.0, 6.0]], 10.018)
    """
    n = len(queries)
    held = np.empty((n, _SPARE * k), dtype=np.uint64)
    counts, limits = np.zeros(n, dtype=np.int64), np.full(n, -np.inf, dtype=np.float32)
    tops, totals = np.full(n, -np.inf, dtype=np.float32), np.zeros(n)
    at_once = max(1, SCORES_AT_ONCE // max(1, n))
    for start in range(0, len(rows), at_once):
        products = _products(queries, rows[start : start + at_once]).numpy()
        here = scales[start : start + at_once]
        _sift(products, here, start, k, (tops, totals), (held, counts, limits))
    sifted = Sifted(
        np.full((n, k), -1, dtype=np.int64),
        np.full((n, k), -np.inf, dtype=np.float32),
        np.empty(n, dtype=np.float32),
    )
    _read(held, counts, (tops, totals), sifted)
    return sifted


def scores_at(queries: Rows, rows: Rows, scales: Rows, items: Ints) -> Rows:
    """Return the scores of some items, (queries, m); -infinity for what is not in the catalog.

    Examples
    --------
    >>> rows, scales = np.array([[1], [5]], dtype=np.float32), np.ones(2, dtype=np.float32)
    >>> scores_at(rows[:1], rows, scales, np.array([[1, 0, 2, -1]])).tolist()
    [[5.0, 1.0, -inf, -inf]]
    """
    scores = np.empty(items.shape, dtype=np.float32)
    fill_scores(queries, rows, scales, items, scores)
    return scores


@dataclass(frozen=True, eq=False)
class ItemScores:
    """What gives the scores of items: queries, and the vectors and scales of a catalog's items."""

    queries: Rows
    rows: Rows
    scales: Rows

    def __call__(self, items: Ints) -> Rows:
        """Return the scores of some items, (queries, m); -infinity for what is no item."""
        return scores_at(self.queries, self.rows, self.scales, items)


def _products(queries: Tensor, rows: Tensor) -> Tensor:
    """Return ``queries @ rows.T``."""
    if len(queries) <= FEW:
        few = torch.empty(len(queries), len(rows))
        _few_products(rows.numpy(), queries.numpy(), few.numpy())
        return few
    return product(queries, rows)


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _few_products(rows: Rows, queries: Rows, products: Rows) -> None:
    """For a few queries faster than BLAS, which lays all rows out anew; for one, by half."""
    for place in range(len(rows)):
        for asked in range(len(queries)):
            product = np.float32(0)
            for dimension in range(rows.shape[1]):
                product += rows[place, dimension] * queries[asked, dimension]
            products[asked, place] = product


@numba.njit(cache=True, nogil=True)
def _sift(
    scores: Rows,
    scales: Rows,
    first: int,
    k: int,
    sums: tuple[Rows, NDArray[np.float64]],
    best: tuple[Ranks, Ints, Rows],
) -> None:
    tops, totals = sums
    held, counts, limits = best
    highest = np.empty(_BLOCK, dtype=np.float32)
    for query in range(len(scores)):
        some = scores[query]
        highest[:] = tops[query]
        _scale(some, scales, highest)
        top = highest.max()
        if top > tops[query]:
            totals[query] *= np.exp(np.float64(tops[query]) - np.float64(top))
            tops[query] = top
        totals[query] += _sum_of_exponents(some, top)
        counts[query], limits[query] = _hold(
            some, first, k, held[query], counts[query], limits[query]
        )


# These loops are written so that the compiler makes instructions of them that do 16 at once:
# functions of their own, by numbers, and the highest of each place of a block.


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _scale(scores: Rows, scales: Rows, highest: Rows) -> None:
    """Multiply scores by their scales; raise the highest of each place of a block."""
    for start in range(0, len(scores), _BLOCK):
        some, factors = scores[start : start + _BLOCK], scales[start : start + _BLOCK]
        for place in range(len(some)):
            score = some[place] * factors[place]
            some[place] = score
            highest[place] = score if score > highest[place] else highest[place]


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _sum_of_exponents(scores: Rows, top: np.float32) -> np.float32:
    total = np.float32(0)
    for item in range(len(scores)):
        total += exponential(scores[item] - top)
    return total


@numba.njit(cache=True, nogil=True)
def _any_above(scores: Rows, limit: np.float32) -> bool:
    above = False
    for item in range(len(scores)):
        above |= scores[item] > limit
    return above


@numba.njit(cache=True, nogil=True)
def _hold(
    scores: Rows, first: int, k: int, ranks: Ranks, count: int, limit: np.float32
) -> tuple[int, np.float32]:
    """Hold scores above the limit; return how many are held, and what is to be exceeded now."""
    places = np.empty(_BLOCK, dtype=np.int64)
    for start in range(0, len(scores), _BLOCK):
        some = scores[start : start + _BLOCK]
        if not _any_above(some, limit):
            continue
        n = 0
        for place in range(len(some)):  # without a branch that nobody can foretell
            places[n] = place
            n += some[place] > limit
        for place in places[:n]:
            ranks[count] = _rank(some[place], first + start + place)
            count += 1
            if count == len(ranks):
                keep_smallest(ranks, None, count, k)
                count = k
                limit = _score(ranks[k - 1])
    return count, limit


@numba.njit(cache=True, nogil=True)
def _rank(score: np.float32, item: int) -> np.uint64:
    """Return a number that is smaller the higher a score is, and of equal ones the item's."""
    bits = np.uint64(np.float32(score + np.float32(0)).view(np.uint32))  # -0 is 0
    # Of floats below 0 the bits rise with the distance from 0; of the others too.
    if bits < np.uint64(0x80000000):
        bits = np.uint64(0x7FFFFFFF) - bits
    rank: np.uint64 = (bits << np.uint64(32)) | np.uint64(item)
    return rank


@numba.njit(cache=True, nogil=True)
def _score(rank: np.uint64) -> np.float32:
    bits = rank >> np.uint64(32)
    if bits < np.uint64(0x80000000):
        bits = np.uint64(0x7FFFFFFF) - bits
    score: np.float32 = np.uint32(bits).view(np.float32)
    return score


@numba.njit(cache=True, nogil=True)
def _read(
    held: Ranks, counts: Ints, sums: tuple[Rows, NDArray[np.float64]], sifted: Sifted
) -> None:
    tops, totals = sums
    items, scores, log_sums = sifted
    for query in range(len(held)):
        ranks, n = held[query], counts[query]
        if n > items.shape[1]:
            keep_smallest(ranks, None, n, items.shape[1])
            n = items.shape[1]
        for place, rank in enumerate(np.sort(ranks[:n])):
            items[query, place] = np.int64(rank & np.uint64(0xFFFFFFFF))
            scores[query, place] = _score(rank)
        log_sums[query] = tops[query] + np.log(totals[query])


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def fill_scores(queries: Rows, rows: Rows, scales: Rows, items: Ints, scores: Rows) -> None:
    """Fill in what `scores_at` returns."""
    for query in range(len(items)):
        for place in range(items.shape[1]):
            item = items[query, place]
            if item < 0 or item >= len(rows):
                scores[query, place] = -np.inf
                continue
            product = np.float32(0)
            for dimension in range(rows.shape[1]):
                product += queries[query, dimension] * rows[item, dimension]
            scores[query, place] = product * scales[item]
