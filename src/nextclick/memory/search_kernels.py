"""The loops around FAISS's own search, compiled: in numpy they took longer than the search."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from nextclick.clicks import Ints
from nextclick.memory.base import Vectors

SEQUENCES = 2**30
"""The order of writing is counted up to here, and then from zero again."""


@numba.njit(cache=True)
def place_of(id_: int, oldest: int) -> int:
    """Return how many entries are older than the one with this id, given the oldest's number.

    Examples
    --------
    >>> place_of(7 << 32, 5), place_of(3 << 32, SEQUENCES - 1)
    (2, 4)
    """
    return ((id_ >> 32) - oldest) % SEQUENCES


@numba.njit(cache=True)
def smallest(values: Vectors, places: Ints, found: Vectors) -> None:
    """Fill in where each row's smallest values are, and what they are, ascending.

    Examples
    --------
    >>> places, found = np.empty((1, 2), dtype=np.int64), np.empty((1, 2), dtype=np.float32)
    >>> smallest(np.array([[3, 1, 2]], dtype=np.float32), places, found)
    >>> places.tolist(), found.tolist()
    ([[1, 2]], [[1.0, 2.0]])
    """
    wanted = places.shape[1]
    for row in range(len(values)):
        known = 0
        for place in range(values.shape[1]):
            value = values[row, place]
            if known == wanted and value >= found[row, wanted - 1]:
                continue
            known = min(known + 1, wanted)
            at = known - 1
            while at > 0 and value < found[row, at - 1]:
                found[row, at] = found[row, at - 1]
                places[row, at] = places[row, at - 1]
                at -= 1
            found[row, at] = value
            places[row, at] = place


@numba.njit(cache=True)
def put_newest(
    entries: Ints, codes: NDArray[np.uint8], oldest: int, distances: Vectors, ids: Ints
) -> bool:
    """Of entries alike the last one found, put the newest in place of those found.

    Parameters
    ----------
    entries, codes
        The ids and the codes of a cluster.
    oldest
        The number of the oldest entry there is.
    distances, ids
        What was found for one query; `ids` is changed.

    Returns
    -------
    bool
        Whether the last one found is in this cluster.
    """
    last = 0
    while last < len(entries) and entries[last] != ids[-1]:
        last += 1
    if last == len(entries):
        return False
    alike = np.empty(len(entries), dtype=np.int64)
    n = 0
    for entry in range(len(entries)):
        if np.all(codes[entry] == codes[last]):
            alike[n] = entry
            n += 1
    places = np.array([place_of(entries[entry], oldest) for entry in alike[:n]])
    by_age = np.argsort(places)
    places = places[by_age]
    newest = n - 1
    for k in range(len(ids)):
        if distances[k] != distances[-1]:
            continue
        place = place_of(ids[k], oldest)
        at = np.searchsorted(places, place)
        if at < n and places[at] == place:
            ids[k] = entries[alike[by_age[newest]]]
            newest -= 1
    return True


@numba.njit(cache=True)
def read(
    ids: Ints,
    oldest: int,
    items: NDArray[np.int32],
    distances: Vectors,
    found: tuple[Ints, Ints, Ints],
) -> None:
    """Fill in the items, sessions and ages of what was found, the newer of equals first."""
    found_items, found_sessions, found_ages = found
    for row in range(len(ids)):
        for k in range(ids.shape[1]):
            id_ = ids[row, k]
            if id_ < 0:
                distances[row, k] = np.inf
                found_items[row, k] = found_sessions[row, k] = found_ages[row, k] = -1
                continue
            age = len(items) - 1 - place_of(id_, oldest)
            at = k
            tie = distances[row, k]
            while at > 0 and distances[row, at - 1] == tie and found_ages[row, at - 1] > age:
                found_items[row, at] = found_items[row, at - 1]
                found_sessions[row, at] = found_sessions[row, at - 1]
                found_ages[row, at] = found_ages[row, at - 1]
                at -= 1
            found_items[row, at] = items[len(items) - 1 - age]
            found_sessions[row, at] = np.int32(id_ & 0xFFFFFFFF)
            found_ages[row, at] = age
