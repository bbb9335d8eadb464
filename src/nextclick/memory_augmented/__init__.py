"""MAN: a neural encoder, a memory of all it has seen, and a gate that mixes the two.

Only this package knows all three.
"""

from nextclick.memory_augmented.compiled import LIKELY
from nextclick.memory_augmented.recommender import MemoryAugmented
from nextclick.memory_augmented.settings import MemoryAugmentedSettings, paper_settings

__all__ = ["LIKELY", "MemoryAugmented", "MemoryAugmentedSettings", "paper_settings"]
