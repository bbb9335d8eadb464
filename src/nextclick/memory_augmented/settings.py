"""MAN's settings, and the paper's."""

from __future__ import annotations

from typing import Literal

from nextclick.encoders.recommender import NeuralSettings
from nextclick.gate import GateSettings
from nextclick.memory.base import MemorySettings
from nextclick.settings import Settings


class MemoryAugmentedSettings(Settings):
    """Settings of MAN: those of its three parts, and what the memory holds.

    Parameters
    ----------
    neural, memory, gate
        The parts' own settings.
    remember
        `"all"`: the memory holds every transition, those of the training part included (the paper);
        `"fresh"`: only those that the encoder was not trained on.
    """

    neural: NeuralSettings = NeuralSettings()
    memory: MemorySettings = MemorySettings()
    gate: GateSettings = GateSettings()
    remember: Literal["all", "fresh"] = "fresh"


def paper_settings(neural: NeuralSettings | None = None) -> MemoryAugmentedSettings:
    """Return the paper's recipe to the letter.

    Every transition is remembered, in 256 clusters of 8-byte codes; the bandwidth is the nearest
    neighbour's distance; the gate sees the representation alone, and is trained on the validation
    part with the memory as training left it.

    Examples
    --------
    >>> paper_settings().gate.inputs
    'context'
    """
    return MemoryAugmentedSettings(
        neural=neural or NeuralSettings(),
        memory=MemorySettings(normalise=False, clusters=256, probes=1, codes="PQ8", rotate=False),
        gate=GateSettings(inputs="context", bandwidth="nearest", lessons="static", lean=False),
        remember="all",
    )
