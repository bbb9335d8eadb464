"""STAN and VSTAN: neighbouring sessions by sequence and time."""

from __future__ import annotations

from functools import cached_property
from math import exp, inf

import numpy as np
from pydantic import Field

from nextclick.baselines.neighbouring_sessions import (
    ALL_ALIKE,
    ANY_DISTANCE,
    NeighbouringSessions,
    NeighbourSettings,
    by_position,
    in_units,
)
from nextclick.baselines.session_kernels import RANK_BITS, Rules
from nextclick.clicks import Floats

FARTHEST = 64
"""How many places away an item of a past session may be until farther ones are as far."""


class STANSettings(NeighbourSettings):
    """Settings of STAN, besides those of every method of neighbouring sessions.

    Each of the three is the distance at which a weight has fallen to 1/e; `None` for never.

    Parameters
    ----------
    position
        In clicks from the end of the current session: what an item weighs in the similarity.
    age
        In further clicks: what a past session's similarity weighs. A click is counted when it
        brings an item into a session.
    distance
        In items from the last one shared: what a past session's vote for an item weighs.
    """

    position: float | None = Field(default=2.0, gt=0)
    age: float | None = Field(default=300_000, gt=0)
    distance: float | None = Field(default=3.0, gt=0)


class STAN(NeighbouringSessions):
    """Recommend what similar past sessions clicked nearby, lately (Garg and others 2019).

    The similarity is the cosine of the session, with the weight ``w_i = exp(-(|s| - x_i) /
    position)`` for an item last clicked at x_i, and of a past session's set of items, times
    ``exp(-age_n / age)``. An item's votes are the sum over the `k` nearest sessions that have it of
    their similarities times ``exp(-d / distance)``, where d is how many places the item is away, in
    the past session, from the last item there that is shared.

    Examples
    --------
    >>> from nextclick.clicks import ClickLog, Contexts
    >>> log = ClickLog.of([(0, item, item) for item in range(6)])
    >>> STAN().fit(log).recommend(Contexts.of([[2]]), k=5).items.tolist()
    [[2, 3, 1, 4, 0]]
    """

    name = "stan"
    settings_type = STANSettings
    label = "STAN"

    @cached_property
    def _rules(self) -> Rules:
        settings = self.settings
        return Rules(
            sample_size=settings.sample_size,
            n_neighbours=settings.k,
            worth=in_units(_falling(settings.position)),
            by_length=True,
            ageing=0.0 if settings.age is None else 1 / settings.age,
            votes=ALL_ALIKE,
            reach=_reach(settings.distance),
            rarity=0.0,
        )


class VSTANSettings(STANSettings):
    """Settings of VSTAN, besides those of STAN.

    Its defaults were chosen by themselves; those that it shares with STAN are not the same.

    Parameters
    ----------
    vote
        In clicks from the end of the current session: what a neighbour's votes weigh by the last
        item that it shares; `None` for all alike.
    before
        What a vote weighs besides for an item that the neighbour clicked before the last one
        shared; 1 as published.
    idf
        How much more the votes for rare items count.
    """

    sample_size: int = Field(default=500, ge=1, lt=1 << RANK_BITS)
    k: int = Field(default=200, ge=1, le=10_000)
    position: float | None = Field(default=5.0, gt=0)
    vote: float | None = Field(default=2.0, gt=0)
    before: float = Field(default=0.7, ge=0, le=1)
    idf: float = Field(default=10.0, ge=0, le=100)


class VSTAN(STAN):
    """STAN with the votes of V-SKNN (Ludewig and others 2021).

    As STAN; and an item's votes are multiplied by ``exp(-(|s| - x) / vote)``, x being the last
    position in the session of an item that the neighbour shares, and by
    ``1 + idf * log(N / N_i)``, where N_i of the N sessions have the item. What is not in the paper:
    a vote counts `before` times as much for an item that the neighbour clicked before the last one
    shared.

    Examples
    --------
    >>> from nextclick.clicks import ClickLog, Contexts
    >>> log = ClickLog.of([(0, 0, 1), (0, 1, 2), (1, 1, 3), (1, 2, 4), (2, 2, 5), (2, 3, 6)])
    >>> VSTAN().fit(log).recommend(Contexts.of([[3, 1]]), k=3).items.tolist()
    [[1, 0, 3]]
    """

    name = "vstan"
    settings_type = VSTANSettings
    label = "VSTAN"

    @cached_property
    def _rules(self) -> Rules:
        settings = self.settings
        reach = _reach(settings.distance, before=settings.before)
        votes = _falling(settings.vote)
        return super()._rules._replace(votes=votes, reach=reach, rarity=settings.idf)


def _falling(scale: float | None) -> Floats:
    """Return weights that fall with the distance from the end of the context."""
    if scale is None:
        return ALL_ALIKE
    return by_position(lambda position, length: exp((position - length) / scale))


def _reach(scale: float | None, *, before: float = 1.0) -> Floats:
    """Return weights by where an item lies from the last one shared, in the past session."""
    if scale is None and before == 1:
        return ANY_DISTANCE
    places = range(-FARTHEST, FARTHEST + 1)
    scale = inf if scale is None else scale
    return np.array([exp(-abs(n) / scale) * (before if n < 0 else 1.0) for n in places])
