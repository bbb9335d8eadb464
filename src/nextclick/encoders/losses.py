"""What training minimises: cross-entropy, whole or estimated, and the ranking losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from nextclick.clicks import Floats, Ints
from nextclick.encoders.base import Encoder
from nextclick.encoders.sampled_softmax import Sampler, estimated_cross_entropy
from nextclick.encoders.softmax import Scratch, cross_entropy
from nextclick.settings import Settings


class LossSettings(Settings):
    """What training minimises.

    Parameters
    ----------
    kind
        `"cross-entropy"` over the whole catalog; or the ranking losses `"top1-max"` and `"bpr-max"`
        (Hidasi and Karatzoglou 2018), over sampled items.
    estimated
        Cross-entropy: share of the training, from its start, in which it is estimated from sampled
        items, which takes a fraction of the time. Catalogs no larger than a sample are never
        sampled.
    samples
        How many items are sampled for each batch, beside the batch's own.
    sample_power
        Items are sampled in proportion to their clicks to this power.
    regularisation
        BPR-max: weight of the sampled items' squared scores.
    """

    kind: Literal["cross-entropy", "top1-max", "bpr-max"] = "cross-entropy"
    estimated: float = Field(default=1.0, ge=0, le=1)
    samples: int = Field(default=4096, ge=1)
    sample_power: float = 0.5
    regularisation: float = 0.0


LossOfBatch = Callable[[Encoder, Tensor, Tensor, float], Tensor]
"""From encoder, queries, targets and how much of the training is done to the loss of a batch."""

RANKING = ("top1-max", "bpr-max")
"""The losses whose scores are no logarithms of probabilities."""


def loss_of(
    settings: LossSettings,
    targets: Ints,
    n_items: int,
    generator: np.random.Generator,
    *,
    half: bool,
) -> LossOfBatch:
    """Return the loss that settings name, over so many items, clicked as often as in `targets`."""
    clicks = np.bincount(targets, minlength=n_items).astype(np.float64)
    if settings.kind == "cross-entropy":
        return _cross_entropy(settings, clicks, generator, half=half)
    return _ranking_loss(settings, clicks, generator)


def _cross_entropy(
    settings: LossSettings, clicks: Floats, generator: np.random.Generator, *, half: bool
) -> LossOfBatch:
    scratch = Scratch()
    # What was never clicked is in the softmax as well.
    sampler = Sampler.of(np.maximum(clicks, 1) ** settings.sample_power, settings.samples)
    estimated = settings.estimated if settings.samples < len(clicks) else 0.0

    def loss(encoder: Encoder, queries: Tensor, clicked: Tensor, done: float) -> Tensor:
        if done < estimated:
            sample = sampler.draw(generator)
            return estimated_cross_entropy(encoder, queries, clicked, sample, scratch, half=half)
        vectors, bound = encoder.vectors(), encoder.score_bound
        return cross_entropy(queries, vectors, clicked, bound=bound, half=half, scratch=scratch)

    return loss


def _ranking_loss(
    settings: LossSettings, clicks: Floats, generator: np.random.Generator
) -> LossOfBatch:
    cumulative = np.cumsum(clicks**settings.sample_power * (clicks > 0))

    def loss(encoder: Encoder, queries: Tensor, clicked: Tensor, done: float) -> Tensor:  # noqa: ARG001 - of no matter here
        draws = generator.random(settings.samples) * cumulative[-1]
        sampled = torch.from_numpy(np.searchsorted(cumulative, draws, side="right"))
        candidates = torch.cat([clicked, sampled.to(clicked.device)])
        scores = queries @ encoder.vectors()[candidates].T
        positive = scores.diagonal()[: len(clicked)].unsqueeze(1)
        other = clicked.unsqueeze(1) != candidates.unsqueeze(0)
        if settings.kind == "top1-max":
            return top1_max(positive, scores, other)
        return bpr_max(positive, scores, other, settings.regularisation)

    return loss


def top1_max(positive: Tensor, scores: Tensor, other: Tensor) -> Tensor:
    """Return the mean TOP1-max loss: Σ_j s_j (σ(r_j - r_i) + σ(r_j²)), s the others' softmax.

    Parameters
    ----------
    positive
        (n, 1) the score r_i of each clicked item.
    scores
        (n, m) the scores r_j of the sampled items.
    other
        (n, m) whether a sampled item is another than the clicked one; the rest do not count.
    """
    share = torch.softmax(scores.masked_fill(~other, -torch.inf), dim=1)
    worse = torch.sigmoid(scores - positive) + torch.sigmoid(scores.square())
    return (share * worse).sum(1).mean()


def bpr_max(positive: Tensor, scores: Tensor, other: Tensor, regularisation: float) -> Tensor:
    """Return the mean BPR-max loss: -log Σ_j s_j σ(r_i - r_j) + λ Σ_j s_j r_j².

    The parameters are those of `top1_max`.
    """
    share = torch.softmax(scores.masked_fill(~other, -torch.inf), dim=1)
    won = (share * torch.sigmoid(positive - scores)).sum(1)
    penalty = (share * scores.square()).sum(1)
    return (regularisation * penalty - torch.log(won + 1e-24)).mean()
