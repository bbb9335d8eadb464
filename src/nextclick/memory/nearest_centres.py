"""Which centres are nearest to a query: by rough centres of a quarter of the bytes, then exactly.

The centres are half a megabyte. After the catalog's embeddings have gone through the processor's
caches they have to be fetched again for every query, which takes longer than the arithmetic; and
all but a few dozen are so far away that a byte for each coordinate tells.
"""

from __future__ import annotations

from typing import TypeAlias

import numba
import numpy as np
from numpy.typing import NDArray

from nextclick.clicks import Ints
from nextclick.memory.base import Vectors

_MOST = 127
"""The largest number that stands for a coordinate of a centre."""

_TOGETHER = 4
"""Coordinates that are gone through together."""


Centres: TypeAlias = tuple[Vectors, Vectors, NDArray[np.int8], Vectors, Vectors, Vectors]
"""What `prepared` returns."""


def prepared(exact: Vectors, squares: Vectors) -> Centres:
    """Return centres with what is to be known of them to find the nearest.

    They themselves, and their squared lengths; rough ones, as the numbers that stand for all first
    coordinates, all second ones and so on, and what those of a centre are multiplied by; how far
    each of these is from the exact one, and how long it is.

    Examples
    --------
    >>> centres = np.array([[1.27, -0.016]], dtype=np.float32)
    >>> prepared(centres, (centres**2).sum(1))[2].tolist()
    [[127], [-2], [0], [0]]
    """
    steps = np.maximum(np.abs(exact).max(axis=1), np.float32(1e-30)) / np.float32(_MOST)
    codes = np.rint(exact / steps[:, None]).astype(np.int8)
    rough = codes.astype(np.float64) * steps[:, None]
    errors = np.linalg.norm(exact - rough, axis=1).astype(np.float32)
    lengths = np.linalg.norm(rough, axis=1).astype(np.float32)
    by_coordinate = np.zeros((-(-len(codes.T) // _TOGETHER) * _TOGETHER, len(codes)), dtype=np.int8)
    by_coordinate[: len(codes.T)] = codes.T
    return exact, squares, by_coordinate, steps, errors, lengths


_SUM = {"reassoc", "contract", "nsz"}
"""Sums may be added up several terms at a time: of one length, always in the same way."""


@numba.njit(cache=True, nogil=True)
def nearest_centres(query: Vectors, centres: Centres, near: Ints) -> None:
    """Fill in the nearest centres, nearest first, of those as near the first one first.

    Examples
    --------
    >>> exact = np.array([[0, 0], [5, 5], [1, 0]], dtype=np.float32)
    >>> near = np.empty(2, dtype=np.int64)
    >>> nearest_centres(exact[2], prepared(exact, (exact**2).sum(1)), near)
    >>> near.tolist()
    [2, 0]
    """
    exact, squares = centres[0], centres[1]
    gaps, margins = np.empty(len(exact), dtype=np.float32), np.empty(len(exact), dtype=np.float32)
    _about(query, centres, gaps, margins)
    _smallest(gaps + margins, near)
    limit = gaps[near[-1]] + margins[near[-1]]
    known = 0
    for centre in range(len(exact)):
        if gaps[centre] - margins[centre] > limit:
            continue
        gaps[centre] = _gap(query, exact[centre], squares[centre])
        if known == len(near) and gaps[centre] >= gaps[near[known - 1]]:
            continue
        known = min(known + 1, len(near))
        _insert(centre, gaps, near, known - 1)


@numba.njit(cache=True, nogil=True, fastmath=_SUM)
def _about(query: Vectors, centres: Centres, gaps: Vectors, margins: Vectors) -> None:
    """Fill in about how far each centre is, and by how much that may be wrong.

    Less the query's square, which is the same for all; also exact gaps round, and are not further
    from what is filled in than that.
    """
    _, squares, codes, steps, errors, lengths = centres
    padded = np.zeros(len(codes), dtype=np.float32)
    padded[: len(query)] = query
    gaps[:] = 0
    for place in range(0, len(codes), _TOGETHER):
        one, two, three, four = codes[place : place + _TOGETHER]
        a, b, c, d = padded[place : place + _TOGETHER]
        for centre in range(len(gaps)):
            gaps[centre] += (a * np.float32(one[centre]) + b * np.float32(two[centre])) + (
                c * np.float32(three[centre]) + d * np.float32(four[centre])
            )
    length = np.sqrt(_square(query))
    rounding = np.float32(4e-7 * len(query))
    for centre in range(len(gaps)):
        gaps[centre] = squares[centre] - np.float32(2) * steps[centre] * gaps[centre]
        reach = lengths[centre] + errors[centre]
        wrong = np.float32(2.001) * length * errors[centre]
        margins[centre] = wrong + rounding * reach * (length + reach)


@numba.njit(cache=True, nogil=True, fastmath=_SUM)
def _square(vector: Vectors) -> np.float32:
    square = np.float32(0)
    for value in vector:
        square += value * value
    return square


@numba.njit(cache=True, nogil=True)
def _smallest(values: Vectors, places: Ints) -> None:
    """Fill in where the smallest values are, ascending."""
    known = 0
    for place in range(len(values)):
        if known == len(places) and values[place] >= values[places[known - 1]]:
            continue
        known = min(known + 1, len(places))
        _insert(place, values, places, known - 1)


@numba.njit(cache=True, nogil=True)
def _insert(place: int, values: Vectors, places: Ints, at: int) -> None:
    """Put a place where its value belongs among those before `at`."""
    while at > 0 and values[place] < values[places[at - 1]]:
        places[at] = places[at - 1]
        at -= 1
    places[at] = place


@numba.njit(cache=True, nogil=True, fastmath=_SUM)
def _gap(query: Vectors, centre: Vectors, square: np.float32) -> np.float32:
    """Return how far a centre is, less what is the same for all."""
    product = np.float32(0)
    for place in range(len(query)):
        product += query[place] * centre[place]
    gap: np.float32 = square - np.float32(2) * product
    return gap
