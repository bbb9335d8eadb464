"""Losses over the whole catalog, or over sampled items, that never hold all scores at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from nextclick.clicks import Ints
from nextclick.encoders.base import Encoder
from nextclick.encoders.item_vectors import wide
from nextclick.settings import Settings

ROWS_AT_A_TIME = 512
"""Scores held at once: up to this many rows of the catalog's size. More is no faster."""


SAFE_EXPONENT = 40.0
"""Up to here, exp() and the sums of millions of them are far from the end of a float32."""


def cross_entropy(
    queries: Tensor,
    vectors: Tensor,
    targets: Tensor,
    *,
    bound: float | None = None,
    half: bool = False,
) -> Tensor:
    """Return the mean cross-entropy of the softmax over ``queries @ vectors.T``.

    The same as `torch.nn.functional.cross_entropy` on these scores, with the gradients computed on
    the way, a block of rows at a time.

    Parameters
    ----------
    queries, vectors
        (n, dimension) and (items, dimension).
    targets
        (n,) the item that was clicked.
    bound
        What no score exceeds: a small one saves looking for each row's largest.
    half
        Whether the products are computed in bfloat16, for CPUs that have it.

    Examples
    --------
    >>> loss = cross_entropy(torch.eye(2), torch.eye(2), torch.tensor([0, 1]))
    >>> round(float(loss), 4)
    0.3133
    """
    loss: Tensor = _CrossEntropy.apply(  # type: ignore[no-untyped-call] # torch has no types here
        queries, vectors, targets, bound, half
    )
    return loss


class _CrossEntropy(Function):
    @staticmethod
    def forward(
        context: Any,
        queries: Tensor,
        vectors: Tensor,
        targets: Tensor,
        bound: float | None,
        half: bool,
    ) -> Tensor:
        columns = wide(vectors, torch.bfloat16 if half else vectors.dtype)
        columns[:, : vectors.shape[1]] = vectors
        query_gradient = torch.empty_like(queries)
        vector_gradient = torch.zeros_like(vectors)
        total = queries.new_zeros(())
        blocks = -(-len(queries) // ROWS_AT_A_TIME)
        height = -(-len(queries) // blocks)
        for start in range(0, len(queries), height):
            rows = slice(start, start + height)
            query, clicked = queries[rows], vectors[targets[rows]]
            said = Softmax.of(query, columns, bound)
            own = (query * clicked).sum(1, keepdim=True)
            total += (said.sums.log() + said.tops - own).sum()
            query_gradient[rows] = said.means - clicked
            vector_gradient += said.exponents @ (query / said.sums).to(columns.dtype)
        vector_gradient.index_add_(0, targets, queries, alpha=-1)
        context.save_for_backward(query_gradient, vector_gradient)
        return total / len(queries)

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query_gradient, vector_gradient = context.saved_tensors
        scale = gradient / len(query_gradient)
        return query_gradient.mul_(scale), vector_gradient.mul_(scale), None, None, None


@dataclass(frozen=True, eq=False)
class Softmax:
    """The softmax of ``queries @ vectors.T``, not yet divided by its sums.

    Parameters
    ----------
    exponents
        (items, queries): exp(score - top).
    tops, sums
        (queries, 1): what was subtracted from each query's scores, and the sum of its exponents.
    means
        (queries, width): the vectors' mean, each weighted by its probability.
    """

    exponents: Tensor
    tops: Tensor
    sums: Tensor
    means: Tensor

    @classmethod
    def of(cls, queries: Tensor, columns: Tensor, bound: float | None) -> Softmax:
        """Compute it from vectors as `wide` lays them out, in their precision.

        No score exceeds `bound`, if that is not `None`.
        """
        width = queries.shape[1]
        exponents = columns[:, :width] @ queries.to(columns.dtype).t()
        if bound is None or bound > SAFE_EXPONENT:
            tops = exponents.amax(0, keepdim=True)
            exponents.sub_(tops)
        else:
            tops = exponents.new_zeros(1, 1)
        exponents.exp_()
        # The column of ones makes the product that weighs the vectors also give the sums.
        weighted = (exponents.t() @ columns).float()
        sums = weighted[:, width, None]
        return cls(exponents, tops.t().float(), sums, weighted[:, :width] / sums)


class LossSettings(Settings):
    """What training minimises.

    Parameters
    ----------
    kind
        `"cross-entropy"` over the whole catalog; or the ranking losses `"top1-max"` and `"bpr-max"`
        (Hidasi and Karatzoglou 2018), over sampled items.
    samples
        Ranking losses: how many items are sampled for each batch, beside the batch's own.
    sample_power
        Ranking losses: items are sampled in proportion to their clicks to this power.
    regularisation
        BPR-max: weight of the sampled items' squared scores.
    """

    kind: Literal["cross-entropy", "top1-max", "bpr-max"] = "cross-entropy"
    samples: int = 2048
    sample_power: float = 0.5
    regularisation: float = 0.0


def loss_of(
    settings: LossSettings,
    targets: Ints,
    n_items: int,
    generator: np.random.Generator,
    *,
    half: bool,
) -> Callable[[Encoder, Tensor, Tensor], Tensor]:
    """Return the function from (encoder, queries, targets) to the loss of a batch."""
    if settings.kind == "cross-entropy":
        return lambda encoder, queries, clicked: cross_entropy(
            queries, encoder.vectors(), clicked, bound=encoder.score_bound, half=half
        )
    popularity = np.bincount(targets, minlength=n_items).astype(np.float64)
    cumulative = np.cumsum(popularity**settings.sample_power * (popularity > 0))

    def loss(encoder: Encoder, queries: Tensor, clicked: Tensor) -> Tensor:
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
