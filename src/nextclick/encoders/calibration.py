"""Probabilities from the scores of a ranking loss: a temperature, fitted to the validation part."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from nextclick.clicks import Transitions
from nextclick.encoders.base import Encoder
from nextclick.encoders.training import representations

SAMPLE = 4_000
"""How many transitions a temperature is fitted to, evenly spread."""

LOWEST, HIGHEST = 0.01, 100.0
STEPS = 24
"""Of the golden section: the temperature is exact to a part in ten thousand."""

AT_ONCE = 512


@torch.inference_mode()
def fitted_temperature(encoder: Encoder, transitions: Transitions) -> float:
    """Return the T at which ``softmax(scores / T)`` makes the clicked items most likely.

    A ranking loss puts the clicked item before others, and does not say by how much: its scores
    are no logarithms of probabilities. Dividing them by one number changes no ranking, and gives
    the probabilities that a mixture and a gradient step need.

    Parameters
    ----------
    encoder
        The network, as training left it.
    transitions
        Those of the validation part; where the context or the next item is not known, they do not
        count.
    """
    sample = np.unique(np.linspace(0, len(transitions) - 1, SAMPLE).astype(np.int64))
    contexts = transitions.contexts[sample].known(encoder.n_items)
    items = transitions.items[sample]
    usable = (contexts.lengths > 0) & (items < encoder.n_items)
    if not usable.any():
        return 1.0
    known = Transitions(contexts[usable], items[usable], contexts.times[usable])
    device = encoder.items.device
    queries = encoder.queries(representations(encoder, known).to(device))
    clicked = torch.from_numpy(known.items).to(device)
    return _lowest(lambda log: _loss(encoder, queries, clicked, math.exp(log)))


def _loss(encoder: Encoder, queries: Tensor, clicked: Tensor, temperature: float) -> float:
    """Return the mean cross-entropy of the clicked items."""
    vectors = encoder.vectors().T
    total = 0.0
    for start in range(0, len(queries), AT_ONCE):
        scores = (queries[start : start + AT_ONCE] @ vectors) / temperature
        own = scores.gather(1, clicked[start : start + AT_ONCE, None])
        total += float((scores.logsumexp(1, keepdim=True) - own).sum(dtype=torch.float64))
    return total / len(queries)


def _lowest(loss: Callable[[float], float]) -> float:
    """Return the temperature of the lowest loss, which has one valley, by the golden section."""
    low, high = math.log(LOWEST), math.log(HIGHEST)
    golden = (math.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = loss(left), loss(right)
    for _ in range(STEPS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = loss(right)
    return math.exp((low + high) / 2)
