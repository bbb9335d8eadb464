"""What an operator can set about a service's engine."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from nextclick.recommender import LEARNING_BATCH, PARTS
from nextclick.settings import Settings


class EngineSettings(Settings):
    """Settings of the engine.

    Parameters
    ----------
    learn
        Which parts of the model go on learning: `neural`, `gate`, `memory`; none of them for a
        service that stays as it is. Live quality is measured all the same.
    write_every
        How many transitions are tested together and then remembered; divides 100. What
        `nextclick evaluate --write-every` takes.
    flush_after
        After how many seconds a smaller group is remembered, where clicks come slowly.
    idle
        After how many seconds without a click a session ends.
    session_length
        How many of a session's last clicks are looked at: for contexts (the last 20), and to leave
        out what was seen.
    open_sessions
        How many sessions are open at most; those that waited longest end first.
    snapshot_clicks, snapshot_seconds
        A snapshot is taken after so many records, or so many seconds if there is any new record;
        `None` for never.
    keep_snapshots
        How many snapshots are kept.
    keep_log
        For how many seconds records stay in the log after they are in every snapshot that is kept;
        `None` to keep all.
    questions_at_once
        How many waiting questions are answered by one pass at most.
    """

    learn: tuple[Literal["neural", "gate", "memory"], ...] = PARTS
    write_every: int = Field(default=100, ge=1, le=LEARNING_BATCH)
    flush_after: float = Field(default=0.25, gt=0, le=60)
    idle: float = Field(default=1800, gt=0)
    session_length: int = Field(default=200, ge=1)
    open_sessions: int = Field(default=1_000_000, ge=1)
    snapshot_clicks: int | None = Field(default=100_000, ge=1)
    snapshot_seconds: float | None = Field(default=900, gt=0)
    keep_snapshots: int = Field(default=3, ge=1)
    keep_log: float | None = Field(default=30 * 86400, ge=0)
    questions_at_once: int = Field(default=64, ge=1)
