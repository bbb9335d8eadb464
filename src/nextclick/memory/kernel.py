"""What the memory predicts: neighbours vote for their items, the nearer the louder.

The paper's kernel: `P(y) ∝ Σ_k [y_k = y] exp(-d_k² / (2 d*²))`, `d*` the distance of the nearest
neighbour. The learned one: `P(y) ∝ Σ_k [y_k = y] (1 + a_k)^-δ exp(γ s_k - β d_k²)`, a_k the entry's
age, s_k whether it is of the session that asks, and β, γ, δ learned for each query. The code speaks
of squared distances only, as `Neighbours` holds them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from nextclick.clicks import Floats, Ints, Mask
from nextclick.memory.base import Neighbours, Vectors


@dataclass(frozen=True, eq=False)
class Votes:
    """The different items that neighbours name, an item with a nearer neighbour first.

    Parameters
    ----------
    items
        Array of shape (queries, k), filled up with -1.
    probabilities
        Of these items, 0 behind them. A row adds up to 1, or to 0 where there is no neighbour.
    """

    items: Ints
    probabilities: Floats

    def __len__(self) -> int:
        return len(self.items)

    def top(self, k: int) -> Ints:
        """Return the `k` most probable items, filled up with -1.

        Examples
        --------
        >>> Votes(np.array([[4, 7, -1]]), np.array([[0.3, 0.7, 0.0]])).top(4).tolist()
        [[7, 4, -1, -1]]
        """
        best = np.argsort(-self.probabilities, axis=1, kind="stable")[:, :k]
        items = np.full((len(self), k), -1, dtype=np.int64)
        items[:, : best.shape[1]] = np.take_along_axis(self.items, best, axis=1)
        return items


def nearest_weights(neighbours: Neighbours) -> Floats:
    """Return each neighbour's share of the prediction by the paper's kernel.

    Where the nearest is at distance zero, only neighbours at distance zero count, all alike: the
    limit of the kernel. What is zero the memory has decided, which knows how its distances round.

    Examples
    --------
    >>> distances = np.array([[1, 2, np.inf], [0, 0, 3]], dtype=np.float32)
    >>> items = np.array([[4, 5, -1], [4, 5, 6]])
    >>> nearest_weights(Neighbours(distances, items, items, items)).round(3).tolist()
    [[0.622, 0.378, 0.0], [0.5, 0.5, 0.0]]
    """
    with np.errstate(divide="ignore"):
        rates = 0.5 / neighbours.distances[:, 0].astype(np.float64)
    shares = np.empty(neighbours.distances.shape)
    _weigh(neighbours.distances, rates, shares)
    return shares


def learned_weights(
    neighbours: Neighbours, bandwidths: Floats, recency: Floats, loyalty: Floats, sessions: Ints
) -> Floats:
    """Return each neighbour's share of the prediction by the learned kernel.

    Parameters
    ----------
    neighbours
        The neighbours of some queries.
    bandwidths, recency, loyalty
        β, δ and γ of each query.
    sessions
        The session that each query is of; -1 where it is not known.

    Examples
    --------
    >>> distances = np.array([[1, 2, np.inf]], dtype=np.float32)
    >>> items = np.array([[4, 5, -1]])
    >>> found = Neighbours(distances, items, sessions=items, ages=np.array([[0, 6, -1]]))
    >>> by_distance = learned_weights(found, *np.array([[0.5], [0], [0]]), np.array([5]))
    >>> by_distance.round(3).tolist()
    [[0.622, 0.378, 0.0]]
    >>> the_old_fade = learned_weights(found, *np.array([[0.5], [1], [0]]), np.array([5]))
    >>> the_old_fade.round(3).tolist()
    [[0.92, 0.08, 0.0]]
    """
    shares = np.empty(neighbours.distances.shape)
    _weigh_learned(
        (neighbours.distances, neighbours.ages, neighbours.sessions),
        (bandwidths, recency, loyalty),
        sessions,
        shares,
    )
    return shares


def learned_votes(
    neighbours: Neighbours, bandwidths: Floats, recency: Floats, loyalty: Floats, sessions: Ints
) -> Votes:
    """Return the votes by the learned kernel: `votes` of `learned_weights`, in one pass.

    The parameters are those of `learned_weights`.

    Examples
    --------
    >>> items = np.array([[4, 5, 4]])
    >>> found = Neighbours(np.zeros((1, 3), dtype=np.float32), items, items, items)
    >>> answer = learned_votes(found, *np.array([[0.5], [0], [0]]), np.array([-1]))
    >>> answer.items.tolist(), answer.probabilities.round(3).tolist()
    ([[4, 5, -1]], [[0.667, 0.333, 0.0]])
    """
    items = np.empty(neighbours.items.shape, dtype=np.int64)
    probabilities = np.empty(items.shape)
    vote_learned(
        (neighbours.distances, neighbours.ages, neighbours.sessions, neighbours.items),
        (bandwidths, recency, loyalty),
        sessions,
        items,
        probabilities,
    )
    return Votes(items, probabilities)


def own_session(neighbours: Neighbours, sessions: Ints) -> Mask:
    """Return which neighbours are of the session that asks, if that is known."""
    own = np.empty(neighbours.sessions.shape, dtype=np.bool_)
    _mark_own(neighbours.sessions, sessions, own)
    return own


def votes(neighbours: Neighbours, weights: Floats) -> Votes:
    """Add up the neighbours' weights for each different item.

    Examples
    --------
    >>> items = np.array([[4, 5, 4]])
    >>> neighbours = Neighbours(np.zeros((1, 3), dtype=np.float32), items, items, items)
    >>> answer = votes(neighbours, np.array([[0.5, 0.3, 0.2]]))
    >>> answer.items.tolist(), answer.probabilities.tolist()
    ([[4, 5, -1]], [[0.7, 0.3, 0.0]])
    """
    items = np.empty(neighbours.items.shape, dtype=np.int64)
    probabilities = np.empty(items.shape)
    _count(neighbours.items, weights, items, probabilities)
    return Votes(items, probabilities)


def voting_sessions(neighbours: Neighbours, items: Ints) -> Ints:
    """Return how many different sessions voted for each of these items.

    Neighbours whose session is not known count as one session.

    Parameters
    ----------
    neighbours
        The neighbours of some queries.
    items
        Items for each query, a row for each; -1 gets 0.

    Examples
    --------
    >>> sessions = np.array([[8, 9, 8]])
    >>> items = np.array([[4, 4, 4]])
    >>> found = Neighbours(np.zeros((1, 3), dtype=np.float32), items, sessions, ages=sessions)
    >>> voting_sessions(found, np.array([[4, 5, -1]])).tolist()
    [[2, 0, 0]]
    """
    counts = np.zeros(items.shape, dtype=np.int64)
    _count_sessions(neighbours.items, neighbours.sessions, items, counts)
    return counts


def strongest_voters(
    neighbours: Neighbours, shares: Floats, items: Ints, n: int
) -> tuple[Ints, Floats]:
    """Return the neighbours that voted most for each of these items.

    Parameters
    ----------
    neighbours
        The neighbours of some queries.
    shares
        Each neighbour's share of the prediction.
    items
        Items for each query, a row for each.
    n
        How many to return for each item.

    Returns
    -------
    tuple
        Their ages and their shares, (queries, items, n); -1 and 0 where there are no more.

    Examples
    --------
    >>> items, ages = np.array([[4, 5, 4]]), np.array([[7, 8, 9]])
    >>> found = Neighbours(np.zeros((1, 3), dtype=np.float32), items, items, ages)
    >>> strongest_voters(found, np.array([[0.2, 0.3, 0.5]]), np.array([[4]]), 3)
    (array([[[ 9,  7, -1]]]), array([[[0.5, 0.2, 0. ]]]))
    """
    named = (items[:, :, None] == neighbours.items[:, None, :]) & (items[:, :, None] >= 0)
    own = np.where(named, shares[:, None, :], 0.0)
    best = np.argsort(-own, axis=2, kind="stable")[:, :, :n]
    strength = np.zeros((*items.shape, n))
    strength[:, :, : best.shape[2]] = np.take_along_axis(own, best, axis=2)
    ages = np.full(strength.shape, -1)
    all_ages = np.broadcast_to(neighbours.ages[:, None, :], own.shape)
    ages[:, :, : best.shape[2]] = np.take_along_axis(all_ages, best, axis=2)
    return np.where(strength > 0, ages, -1), strength


@numba.njit(cache=True, nogil=True)
def _weigh(distances: Vectors, rates: Floats, shares: Floats) -> None:
    for row in range(len(distances)):
        nearest = distances[row, 0]
        total = 0.0
        for k in range(distances.shape[1]):
            # exp(-rate (d - d*)) has the shares of exp(-rate d), and does not underflow.
            beyond = np.float64(distances[row, k]) - np.float64(nearest)
            if np.isinf(distances[row, k]):
                share = 0.0
            elif beyond == 0:
                share = 1.0  # even if the rate is infinite, for d* = 0
            else:
                share = np.exp(-rates[row] * beyond)
            shares[row, k] = share
            total += share
        if total > 0:
            shares[row] /= total


@numba.njit(cache=True, nogil=True)
def _mark_own(sessions: Ints, asking: Ints, own: Mask) -> None:
    for row in range(len(sessions)):
        for k in range(sessions.shape[1]):
            own[row, k] = sessions[row, k] == asking[row] and asking[row] >= 0


@numba.njit(cache=True, nogil=True)
def _weigh_learned(
    found: tuple[Vectors, Ints, Ints],
    kernel: tuple[Floats, Floats, Floats],
    asking: Ints,
    shares: Floats,
) -> None:
    distances, ages, sessions = found
    bandwidths, recency, loyalty = kernel
    for row in range(len(distances)):
        highest = -np.inf
        for k in range(distances.shape[1]):
            if np.isinf(distances[row, k]):
                shares[row, k] = -np.inf
                continue
            logarithm = -bandwidths[row] * np.float64(distances[row, k])
            logarithm -= recency[row] * np.log1p(ages[row, k])
            if sessions[row, k] == asking[row] and asking[row] >= 0:
                logarithm += loyalty[row]
            shares[row, k] = logarithm
            highest = max(highest, logarithm)
        total = 0.0
        for k in range(distances.shape[1]):
            if np.isinf(shares[row, k]):
                shares[row, k] = 0.0
            else:
                shares[row, k] = np.exp(shares[row, k] - highest)
            total += shares[row, k]
        if total > 0:
            shares[row] /= total


@numba.njit(cache=True, nogil=True)
def _count(named: Ints, weights: Floats, items: Ints, probabilities: Floats) -> None:
    items[:] = -1
    probabilities[:] = 0
    for row in range(len(named)):
        different = 0
        for k in range(named.shape[1]):
            if named[row, k] < 0:
                break
            place = 0
            while place < different and items[row, place] != named[row, k]:
                place += 1
            if place == different:
                items[row, place] = named[row, k]
                different += 1
            probabilities[row, place] += weights[row, k]


@numba.njit(cache=True, nogil=True)
def vote_learned(
    found: tuple[Vectors, Ints, Ints, Ints],
    kernel: tuple[Floats, Floats, Floats],
    asking: Ints,
    items: Ints,
    probabilities: Floats,
) -> None:
    """Fill in what `learned_votes` returns."""
    distances, ages, sessions, named = found
    shares = np.empty(distances.shape)
    _weigh_learned((distances, ages, sessions), kernel, asking, shares)
    _count(named, shares, items, probabilities)


@numba.njit(cache=True, nogil=True)
def _count_sessions(named: Ints, sessions: Ints, items: Ints, counts: Ints) -> None:
    for row in range(len(items)):
        for place in range(items.shape[1]):
            item = items[row, place]
            if item < 0:
                continue
            for k in range(named.shape[1]):
                if named[row, k] != item:
                    continue
                earlier = 0
                while named[row, earlier] != item or sessions[row, earlier] != sessions[row, k]:
                    earlier += 1
                counts[row, place] += earlier == k
