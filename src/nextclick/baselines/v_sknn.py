"""V-SKNN: neighbouring sessions, later clicks and rare items counting more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from math import log10
from typing import Literal, TypeAlias

from pydantic import Field

from nextclick.baselines.neighbouring_sessions import (
    ANY_DISTANCE,
    NeighbouringSessions,
    NeighbourSettings,
    by_position,
    in_units,
)
from nextclick.baselines.session_kernels import Rules

Decay: TypeAlias = Literal["same", "linear", "div", "log", "quadratic"]
Weight: TypeAlias = Callable[[int, int], float]

# Of a click's position, counted from 1, and the context's length; named as in session-rec.
CLICKS: Mapping[Decay, Weight] = {
    "same": lambda _position, _length: 1.0,
    "linear": lambda position, length: max(1 - 0.1 * (length - position), 0.0),
    "div": lambda position, length: position / length,
    "log": lambda position, length: 1 / log10(length - position + 1.7),
    "quadratic": lambda position, length: (position / length) ** 2,
}
VOTES: Mapping[Decay, Weight] = {
    "same": lambda _position, _length: 1.0,
    "linear": lambda position, length: max(1 - 0.1 * (length - position + 1), 0.0),
    "div": lambda position, length: 1 / (length - position + 1),
    "log": lambda position, length: 1 / log10(length - position + 2.7),
    "quadratic": lambda position, length: 1 / (length - position + 1) ** 2,
}


class VSKNNSettings(NeighbourSettings):
    """Settings of V-SKNN, besides those of every method of neighbouring sessions.

    Parameters
    ----------
    clicks
        How the weight of a click in the similarity falls with its distance from the end.
    votes
        How a neighbour's votes fall with the distance of the last item it shares from the end.
    idf
        How much more the votes for rare items count.
    age
        After how many further clicks a session counts 1/e; `None` for never. A click is counted
        when it brings an item into a session.
    """

    clicks: Decay = "linear"
    votes: Decay = "div"
    idf: float = Field(default=3.0, ge=0, le=100)
    age: float | None = Field(default=300_000, gt=0)


class VSKNN(NeighbouringSessions):
    """Recommend what similar past sessions clicked, by weighted vectors (Ludewig, Jannach 2018).

    The similarity is the dot product of the session, with a weight for each item by its last
    position x, and of a past session's set of items: ``Σ_{i in s ∩ n} w(x_i) * exp(-age_n / age)``.
    An item's votes are the sum over the `k` nearest sessions that have it of their similarities,
    times ``v(x)`` for the last position shared, times ``1 + idf * log(N / N_i)``, where N_i of the
    N sessions have the item.

    Examples
    --------
    >>> from nextclick.clicks import ClickLog, Contexts
    >>> log = ClickLog.of([(0, 0, 1), (0, 1, 2), (1, 1, 3), (1, 2, 4), (2, 2, 5), (2, 3, 6)])
    >>> VSKNN().fit(log).recommend(Contexts.of([[3, 1]]), k=3).items.tolist()
    [[1, 0, 2]]
    """

    name = "v-sknn"
    settings_type = VSKNNSettings
    label = "V-SKNN"

    @cached_property
    def _rules(self) -> Rules:
        settings = self.settings
        return Rules(
            sample_size=settings.sample_size,
            n_neighbours=settings.k,
            worth=in_units(by_position(CLICKS[settings.clicks])),
            by_length=False,
            ageing=0.0 if settings.age is None else 1 / settings.age,
            votes=by_position(VOTES[settings.votes]),
            reach=ANY_DISTANCE,
            rarity=settings.idf,
        )
