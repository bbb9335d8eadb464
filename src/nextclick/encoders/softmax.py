"""The cross-entropy of a softmax over the whole catalog, never holding all scores at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from nextclick.encoders.item_vectors import wide

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
    scratch: Scratch | None = None,
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
    scratch
        Where the scores are computed, if this is called again and again.

    Examples
    --------
    >>> loss = cross_entropy(torch.eye(2), torch.eye(2), torch.tensor([0, 1]))
    >>> round(float(loss), 4)
    0.3133
    """
    loss: Tensor = _CrossEntropy.apply(  # type: ignore[no-untyped-call] # torch has no types here
        queries, vectors, targets, bound, half, scratch
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
        scratch: Scratch | None,
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
            said = Softmax.of(query, columns, bound, scratch)
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
        return query_gradient.mul_(scale), vector_gradient.mul_(scale), None, None, None, None


class Scratch:
    """Memory to compute in, again and again: to get it anew takes as long as a product of matrices.

    Examples
    --------
    >>> scratch = Scratch()
    >>> first = scratch.product(torch.ones(2, 1), torch.ones(3, 1))
    >>> first.data_ptr() == scratch.product(torch.ones(3, 1), torch.ones(1, 1)).data_ptr()
    True
    """

    def __init__(self) -> None:
        self._kept = torch.empty(0)

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """Return ``left @ right.T``; what was returned before is void."""
        kept, size = self._kept, len(left) * len(right)
        if kept.dtype != left.dtype or kept.device != left.device or len(kept) < size:
            self._kept = left.new_empty(size)
        return torch.mm(left, right.t(), out=self._kept[:size].view(len(left), len(right)))


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
    def of(
        cls,
        queries: Tensor,
        columns: Tensor,
        bound: float | None,
        scratch: Scratch | None = None,
    ) -> Softmax:
        """Compute it from vectors as `wide` lays them out, in their precision.

        No score exceeds `bound`, if that is not `None`. With a scratch, the exponents are good
        until it is used again.
        """
        width = queries.shape[1]
        exponents = (scratch or Scratch()).product(columns[:, :width], queries.to(columns.dtype))
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
