"""Rows of length one, with a gradient that takes half the passes over memory of the general one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def unit_rows(rows: Tensor) -> Tensor:
    """Return each row of a matrix divided by its length; rows of zeros stay zeros.

    Examples
    --------
    >>> unit_rows(torch.tensor([[3.0, 4.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    unit: Tensor = _UnitRows.apply(rows)  # type: ignore[no-untyped-call] # torch has no types here
    return unit


class _UnitRows(Function):
    @staticmethod
    def forward(context: Any, rows: Tensor) -> Tensor:
        lengths: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True).clamp_(min=1e-12)
        unit: Tensor = rows / lengths
        context.save_for_backward(unit, lengths)
        return unit

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> Tensor:
        saved: tuple[Tensor, Tensor] = context.saved_tensors
        unit, lengths = saved
        along = (gradient * unit).sum(1, keepdim=True)
        return torch.addcmul(gradient, along, unit, value=-1).div_(lengths)
