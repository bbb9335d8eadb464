"""What the gate is fitted on when nobody gives it a validation part."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nextclick.clicks import ClickLog

HELD_OUT = 0.1
"""Share of the training sessions that the gate is fitted on when no validation part is given."""


def hold_out(log: ClickLog) -> tuple[ClickLog, ClickLog | None]:
    """Cut the last sessions off as a validation part, if there are any to spare."""
    sessions, first = np.unique(log.sessions, return_index=True)
    n = int(len(sessions) * HELD_OUT)
    last = sessions[np.argsort(first, kind="stable")][len(sessions) - n :]
    held = np.isin(log.sessions, last)
    if not held.any():
        return log, None

    def part(mask: NDArray[np.bool_]) -> ClickLog:
        return ClickLog(log.sessions[mask], log.items[mask], log.times[mask])

    return part(~held), part(held)
