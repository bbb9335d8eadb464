"""From files of clicks to training, validation and test parts; and the synthetic shop."""

from nextclick.datasets.fetching import fetch
from nextclick.datasets.prepared import PreparedData
from nextclick.datasets.preparing import PrepareSettings, prepare
from nextclick.datasets.synthetic import ShopSettings, synthetic_shop, write_shop

__all__ = [
    "PrepareSettings",
    "PreparedData",
    "ShopSettings",
    "fetch",
    "prepare",
    "synthetic_shop",
    "write_shop",
]
