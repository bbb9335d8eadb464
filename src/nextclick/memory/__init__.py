"""The nonparametric memory of (representation, next item) pairs."""

from __future__ import annotations

from nextclick.memory.base import Memory, MemorySettings, Neighbours
from nextclick.memory.clustered import ClusteredMemory
from nextclick.memory.exact import ExactMemory

__all__ = ["Memory", "MemorySettings", "Neighbours", "make_memory"]


def make_memory(settings: MemorySettings, dimension: int, threads: int = 1) -> Memory:
    """Return an empty memory for keys of a dimension.

    Examples
    --------
    >>> len(make_memory(MemorySettings(kind="exact"), dimension=100))
    0
    """
    kinds = {"exact": ExactMemory, "clustered": ClusteredMemory}
    return kinds[settings.kind](settings, dimension, threads)
