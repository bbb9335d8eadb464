"""The nearest past sessions: SKNN and S-SKNN (Ludewig and Jannach 2018)."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from pydantic import Field

from nextclick.baselines.neighbouring_sessions import (
    ALL_ALIKE,
    ANY_DISTANCE,
    NeighbouringSessions,
    NeighbourSettings,
    by_position,
    in_units,
)
from nextclick.baselines.session_kernels import Rules


class SessionKNNSettings(NeighbourSettings):
    """Settings of session kNN, besides those of every method of neighbouring sessions.

    Parameters
    ----------
    kind
        `"sknn"`: a neighbour's votes weigh as much as it is similar. `"s-sknn"`: they weigh the
        more, the later in the current session the last item is that the neighbour shares with it.
    emphasis
        How much more, with `"s-sknn"`: 1 is linear, as published; the higher, the more the last
        click counts.
    """

    kind: Literal["sknn", "s-sknn"] = "s-sknn"
    emphasis: float = Field(default=2.0, gt=0)


class SessionKNN(NeighbouringSessions):
    """Recommend what the past sessions most similar to this one clicked.

    The similarity of two sessions is the cosine between their sets of items,
    ``|s ∩ n| / sqrt(|s| |n|)``, and an item's votes are the sum, over the `k` nearest sessions
    that have it, of their similarities (SKNN), or of these times ``(x / |s|) ** emphasis``
    (S-SKNN), where ``x / |s|`` is how far into the session its last click was on an item that the
    neighbour has too.

    Examples
    --------
    >>> from nextclick.clicks import ClickLog, Contexts
    >>> log = ClickLog.of([(0, 0, 1), (0, 1, 2), (1, 1, 3), (1, 2, 4), (2, 2, 5), (2, 3, 6)])
    >>> model = SessionKNN().fit(log)
    >>> model.recommend(Contexts.of([[0, 1]]), k=3).items.tolist()
    [[1, 0, 2]]
    """

    name = "session-knn"
    settings_type = SessionKNNSettings

    @property
    def label(self) -> str:
        """What tables call this method."""
        return str(self.settings.kind.upper())

    @cached_property
    def _rules(self) -> Rules:
        settings = self.settings
        emphasis = settings.emphasis if settings.kind == "s-sknn" else 0.0
        return Rules(
            sample_size=settings.sample_size,
            n_neighbours=settings.k,
            worth=in_units(ALL_ALIKE),
            by_length=True,
            ageing=0.0,
            votes=by_position(lambda position, length: (position / length) ** emphasis),
            reach=ANY_DISTANCE,
            rarity=0.0,
        )
