"""The formats that clicks are read from: which one a source is in, and its reader."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from nextclick.datasets.periods import read_periods
from nextclick.datasets.raw import RawClicks
from nextclick.settings import Settings

Format: TypeAlias = Literal["periods"]


class ReadSettings(Settings):
    """How a source is read.

    Parameters
    ----------
    format
        The format; found out when not given.
    """

    format: Format | None = None


def read_clicks(source: Path, settings: ReadSettings) -> RawClicks:
    """Read clicks in any of the formats."""
    return read_periods(source)
