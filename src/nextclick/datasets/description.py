"""What is said about prepared data: where it comes from, and what was done to it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from nextclick.settings import Settings


class Step(Settings):
    """One step of the preparation, and what was left after it."""

    name: str
    clicks: int
    sessions: int
    items: int


class Description(Settings):
    """Where prepared data comes from, and what was done to it.

    Parameters
    ----------
    source
        The file or directory it was made from.
    format
        The format of the source.
    clock
        Whether times are seconds since 1970; if not, only their order means something.
    session_order
        What orders the clicks of a session.
    warning
        What has to be known before results on this data are believed.
    split
        How the test and validation parts were chosen, in words.
    unusable
        How many rows of the source were left out, by reason.
    steps
        What was left after each step.
    settings
        The settings of the preparation that were given.
    """

    source: str
    format: str
    clock: bool = True
    session_order: str = "time"
    warning: str | None = None
    split: str = ""
    unusable: dict[str, int] = Field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    settings: dict[str, Any] = Field(default_factory=dict)
