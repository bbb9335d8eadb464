"""Adam for the item embeddings: all that it does to a row, while the row is in the caches."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Rows = NDArray[np.float32]

_FAST = {"contract", "nsz"}
"""A product and a sum may be one instruction."""


@dataclass(frozen=True, eq=False)
class AdamState:
    """What Adam knows of the item embeddings, as its optimizer keeps it.

    Parameters
    ----------
    step
        How many steps were taken, as a tensor.
    first, second
        The moments: the running means of the gradients, and of their squares.
    rate, betas, eps
        Its settings.
    """

    step: Tensor
    first: Tensor
    second: Tensor
    rate: float
    betas: tuple[float, float]
    eps: float

    @classmethod
    def of(cls, optimizer: torch.optim.Adam, items: Tensor) -> AdamState:
        """Return what an optimizer knows of these embeddings; before the first step, nothing."""
        kept, how = optimizer.state.get(items), optimizer.defaults
        if not kept:
            kept = {
                "step": torch.zeros(()),
                "exp_avg": torch.zeros_like(items),
                "exp_avg_sq": torch.zeros_like(items),
            }
        return cls(
            kept["step"], kept["exp_avg"], kept["exp_avg_sq"], how["lr"], how["betas"], how["eps"]
        )

    def ahead(self, n_items: int, spare: AdamState | None = None) -> AdamState:
        """Return the state after a step, the moments of the first items yet to be filled in.

        A state that is no longer needed lends its memory, if it fits.
        """
        if spare is not None and spare.first.shape == self.first.shape:
            first, second = spare.first, spare.second
        else:
            first, second = torch.empty_like(self.first), torch.empty_like(self.second)
        first[n_items:], second[n_items:] = self.first[n_items:], self.second[n_items:]
        return AdamState(self.step + 1, first, second, self.rate, self.betas, self.eps)

    def kept(self) -> dict[str, Tensor]:
        """Return it as an optimizer keeps it."""
        return {"step": self.step, "exp_avg": self.first, "exp_avg_sq": self.second}

    def move(self, rows: Rows, gradients: Rows, start: int, ahead: AdamState, moved: Rows) -> None:
        """Fill in what becomes of the rows from `start` on, and of their moments."""
        step, (one, other) = float(ahead.step), self.betas
        # As torch has it: m / (1 - b1^t) * rate / (sqrt(v / (1 - b2^t)) + eps).
        how = (
            np.float32(one),
            np.float32(other),
            np.float32(self.rate / (1 - one**step)),
            np.float32((1 - other**step) ** -0.5),
            np.float32(self.eps),
        )
        part = slice(start, start + len(gradients))
        old = rows[part], self.first[part].numpy(), self.second[part].numpy()
        new = moved[part], ahead.first[part].numpy(), ahead.second[part].numpy()
        _move(gradients, how, old, new)


@numba.njit(cache=True, nogil=True)
def _move(
    gradients: Rows,
    how: tuple[np.float32, np.float32, np.float32, np.float32, np.float32],
    old: tuple[Rows, Rows, Rows],
    new: tuple[Rows, Rows, Rows],
) -> None:
    rows, first, second = old
    moved, new_first, new_second = new
    one, other, rate, correction, eps = how
    for row in range(len(gradients)):
        gradient = gradients[row]
        _average(gradient, np.float32(1) - one, first[row], new_first[row])
        _average_squares(gradient, other, second[row], new_second[row])
        _go(rows[row], (rate, correction, eps), new_first[row], new_second[row], moved[row])


# With more arrays at once the compiler no longer does 16 numbers at a time.


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _average(gradient: Rows, share: np.float32, before: Rows, after: Rows) -> None:
    for dimension in range(len(gradient)):
        after[dimension] = before[dimension] + share * (gradient[dimension] - before[dimension])


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _average_squares(gradient: Rows, kept: np.float32, before: Rows, after: Rows) -> None:
    share = np.float32(1) - kept
    for dimension in range(len(gradient)):
        square = gradient[dimension] * gradient[dimension]
        after[dimension] = kept * before[dimension] + share * square


@numba.njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")  # no check for zero
def _go(
    row: Rows,
    how: tuple[np.float32, np.float32, np.float32],
    mean: Rows,
    square: Rows,
    moved: Rows,
) -> None:
    rate, correction, eps = how
    for dimension in range(len(row)):
        length = np.sqrt(square[dimension]) * correction + eps
        moved[dimension] = row[dimension] - rate * mean[dimension] / length
