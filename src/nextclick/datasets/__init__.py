"""From files of clicks to training, validation and test parts; and the synthetic shop."""

from nextclick.datasets.prepared import PreparedData
from nextclick.datasets.preparing import PrepareSettings, prepare

__all__ = ["PrepareSettings", "PreparedData", "prepare"]
