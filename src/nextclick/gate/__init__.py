"""The gate: how much of a prediction is the neural part's, and the mixture that follows from it.

It sees plain arrays, and knows neither the encoder nor the memory that they come from.
"""

from nextclick.gate.evidence import (
    CERTAINTY,
    FEATURES,
    Evidence,
    Lessons,
    certainty,
    evidence_features,
)
from nextclick.gate.gates import (
    FixedGate,
    Gate,
    GateSettings,
    Kernel,
    LearnedGate,
    Opening,
    make_gate,
)
from nextclick.gate.leaning import LEANT, Leaning, LeaningLessons
from nextclick.gate.mixing import mix

__all__ = [
    "CERTAINTY",
    "FEATURES",
    "LEANT",
    "Evidence",
    "FixedGate",
    "Gate",
    "GateSettings",
    "Kernel",
    "Leaning",
    "LeaningLessons",
    "LearnedGate",
    "Lessons",
    "Opening",
    "certainty",
    "evidence_features",
    "make_gate",
    "mix",
]
