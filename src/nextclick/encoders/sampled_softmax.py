"""The cross-entropy of a softmax over the whole catalog, estimated from a sample of the items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from nextclick.clicks import Floats, Ints
from nextclick.encoders.base import Encoder
from nextclick.encoders.item_vectors import wide
from nextclick.encoders.softmax import SAFE_EXPONENT, Scratch


@dataclass(frozen=True, eq=False)
class Sampler:
    """Draws items, each by its own probability, independently of the others."""

    probabilities: Floats

    @classmethod
    def of(cls, weights: Floats, samples: int) -> Sampler:
        """Draw so many items on average, in proportion to their weights, but none twice.

        Examples
        --------
        >>> Sampler.of(np.array([8.0, 1.0, 2.0, 1.0]), 2).probabilities.tolist()
        [1.0, 0.25, 0.5, 0.25]
        """
        if samples >= len(weights):
            return cls(np.ones(len(weights)))
        order = np.argsort(-weights, kind="stable")
        heaviest = weights[order]
        rest = np.cumsum(heaviest[::-1])[::-1]
        # The factor if the k heaviest are certain to be drawn: the first that makes no more so.
        factors = (samples - np.arange(samples)) / rest[:samples]
        certain = int(np.argmax(factors * heaviest[:samples] <= 1))
        return cls(np.minimum(weights * factors[certain], 1.0))

    def draw(self, generator: np.random.Generator) -> Sample:
        """Return the items of one draw."""
        items = np.flatnonzero(generator.random(len(self.probabilities)) < self.probabilities)
        return Sample(items, 1 / self.probabilities[items])


@dataclass(frozen=True, eq=False)
class Sample:
    """Items in ascending order, and how many of the catalog each stands for.

    With a weight of one divided by the probability that an item is drawn, a sum over the sample is,
    on average, the sum over the catalog.
    """

    items: Ints
    weights: Floats

    def places(self, items: Ints) -> Ints:
        """Return where in the sample these items are, -1 for those that are not in it.

        Examples
        --------
        >>> Sample(np.array([2, 5]), np.ones(2)).places(np.array([5, 1, 9])).tolist()
        [1, -1, -1]
        """
        places = np.searchsorted(self.items, items)
        found = np.append(self.items, -1)[places] == items
        return np.where(found, places, -1)


def estimated_cross_entropy(
    encoder: Encoder,
    queries: Tensor,
    clicked: Tensor,
    sample: Sample,
    scratch: Scratch,
    *,
    half: bool = False,
) -> Tensor:
    """Return the mean of log(exp(own) + Σ_j w_j exp(score_j)) - own over the clicked items.

    The sum goes over the sampled items but the clicked one. On average, what the logarithm is taken
    of is the sum over the catalog.

    Parameters
    ----------
    encoder
        Whose items these are.
    queries, clicked
        (n, dimension) and (n,): who asks, and which item was clicked.
    sample
        The sampled items.
    scratch
        Where the scores are computed.
    half
        Whether the products are computed in bfloat16, for CPUs that have it.
    """
    device = queries.device
    items = torch.cat([torch.from_numpy(sample.items).to(device), clicked])
    vectors = encoder.vectors_of(functional.embedding(items, encoder.items))
    sampled, own = vectors[: len(sample.items)], vectors[len(sample.items) :]
    weights = torch.from_numpy(sample.weights).to(vectors)
    places = torch.from_numpy(sample.places(clicked.cpu().numpy())).to(device)
    loss: Tensor = _Estimated.apply(  # type: ignore[no-untyped-call] # torch has no types here
        queries, sampled, own, weights, places, encoder.score_bound, scratch, half
    )
    return loss


class _Estimated(Function):
    @staticmethod
    def forward(
        context: Any,
        queries: Tensor,
        sampled: Tensor,
        clicked: Tensor,
        weights: Tensor,
        places: Tensor,
        bound: float | None,
        scratch: Scratch,
        half: bool,
    ) -> Tensor:
        width = queries.shape[1]
        columns = wide(sampled, torch.bfloat16 if half else sampled.dtype)
        columns[:, :width] = sampled
        own = (queries * clicked).sum(1, keepdim=True)
        exponents = scratch.product(columns[:, :width], queries.to(columns.dtype))
        tops = torch.zeros_like(own)
        if bound is None or bound > SAFE_EXPONENT:
            tops = torch.cat([exponents, own.t().to(columns.dtype)]).amax(0).unsqueeze(1).float()
            exponents.sub_(tops.t())
        exponents.exp_().mul_(weights.to(columns.dtype).unsqueeze(1))
        rows = torch.nonzero(places >= 0).squeeze(1)
        exponents[places[rows], rows] = 0
        # The column of ones makes the product that weighs the vectors also give the sums.
        weighted = (exponents.t() @ columns).float()
        of_own = (own - tops).exp()
        sums = weighted[:, width, None] + of_own
        surplus = of_own / sums - 1
        context.save_for_backward(
            weighted[:, :width] / sums + surplus * clicked,
            (exponents @ (queries / sums).to(columns.dtype)).to(sampled.dtype),
            surplus * queries,
        )
        return (sums.log() + tops - own).mean()

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        of_queries, of_sampled, of_clicked = context.saved_tensors
        scale = gradient / len(of_queries)
        of_rest = (None,) * 5
        return of_queries * scale, of_sampled * scale, of_clicked * scale, *of_rest
