"""What MAN's parts say about some contexts, and what is to be learned from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nextclick.clicks import Floats, Ints
from nextclick.encoders.prediction import Prediction
from nextclick.gate import Evidence, LeaningLessons, Lessons, Opening
from nextclick.memory.base import Neighbours
from nextclick.memory.kernel import (
    Votes,
    learned_votes,
    learned_weights,
    nearest_weights,
    own_session,
    votes,
)
from nextclick.memory_augmented.compiled import CompiledConsultation


@dataclass(frozen=True, eq=False)
class Consultation:
    """What the parts say about some contexts, and how the gate weighs it."""

    sessions: Ints
    neural: Prediction
    top: tuple[Ints, Floats]
    neighbours: Neighbours
    evidence: Evidence
    opening: Opening

    @property
    def shares(self) -> Floats:
        """How much of what the memory predicts comes from each neighbour."""
        kernel = self.opening.kernel
        if kernel is None:
            return nearest_weights(self.neighbours)
        return learned_weights(
            self.neighbours, kernel.bandwidths, kernel.recency, kernel.loyalty, self.sessions
        )

    @property
    def votes(self) -> Votes:
        """What the memory predicts: P_M."""
        kernel = self.opening.kernel
        if kernel is None:
            return votes(self.neighbours, self.shares)
        return learned_votes(
            self.neighbours, kernel.bandwidths, kernel.recency, kernel.loyalty, self.sessions
        )


Consulted: TypeAlias = Consultation | CompiledConsultation


@dataclass(frozen=True, eq=False)
class Moment:
    """What learning some transitions needs of the moment before: keys for memory, and lessons."""

    n_items: int
    keys: NDArray[np.float32]
    lessons: Lessons
    leaning: LeaningLessons | None


def one_moment(pieces: Sequence[Moment]) -> Moment:
    """Return the moments of pieces of a batch as one."""
    if len(pieces) == 1:
        return pieces[0]
    leaning = [piece.leaning for piece in pieces if piece.leaning is not None]
    return Moment(
        pieces[0].n_items,
        np.concatenate([piece.keys for piece in pieces]),
        Lessons.together([piece.lessons for piece in pieces]),
        LeaningLessons.together(leaning) if leaning else None,
    )


def gate_lessons(said: Consulted, clicked: Ints) -> Lessons:
    """Return what the gate learns from what was said before these clicks."""
    matches = said.neighbours.items == clicked[:, None]
    by_nearest = nearest_weights(said.neighbours)
    return Lessons(
        said.evidence,
        said.neighbours.ages,
        own_session(said.neighbours, said.sessions),
        matches,
        said.neural.at(clicked[:, None])[:, 0],
        (by_nearest * matches).sum(1),
        np.empty((len(clicked), 0)),
    )
