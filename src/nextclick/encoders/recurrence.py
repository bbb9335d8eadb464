"""A gated recurrent layer over contexts of different lengths, with its gradient.

The same as `torch.nn.GRU` on a `PackedSequence`, which it is on other devices. On the CPU torch
makes some twenty calls for each place of the contexts, and as many for the gradient, on a few rows
each: here the steps from click to click are one compiled pass, and the rest are products of all
clicks at once.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence

from nextclick.clicks import Ints
from nextclick.encoders.exponential import exponential
from nextclick.encoders.packing import Packing
from nextclick.encoders.products import product

Rows = NDArray[np.float32]

_FAST = {"reassoc", "contract", "nsz"}
"""Sums may be added up several terms at a time."""


def states_of(gru: nn.GRU, embedded: Tensor, packing: Packing) -> Tensor:
    """Return the layer's state after each click of packed contexts, (clicks, hidden).

    Parameters
    ----------
    gru
        One layer, that begins with zeros.
    embedded
        The clicks, (clicks, embedding).
    packing
        How they are packed.
    """
    if embedded.device.type != "cpu":
        packed = PackedSequence(embedded, torch.from_numpy(packing.sizes))
        states: Tensor = gru(packed)[0].data
        return states
    weights = gru.weight_ih_l0, gru.weight_hh_l0, gru.bias_ih_l0, gru.bias_hh_l0
    computed: Tensor = _States.apply(  # type: ignore[no-untyped-call] # torch has no types here
        embedded, *weights, packing.sizes
    )
    return computed


class _States(Function):
    """r, z = σ(W x + U h), n = tanh(W x + r U h), h' = (1 - z) n + z h, biases left out."""

    @staticmethod
    def forward(
        context: Any,
        clicks: Tensor,
        of_clicks: Tensor,
        of_states: Tensor,
        click_bias: Tensor,
        state_bias: Tensor,
        sizes: Ints,
    ) -> Tensor:
        given = product(clicks, of_clicks, click_bias)
        n, hidden = len(clicks), of_states.shape[1]
        states, before = clicks.new_empty(n, hidden), clicks.new_empty(n, hidden)
        recalled = clicks.new_empty(n, hidden)
        _step_through(
            given.numpy(),
            of_states.detach().t().contiguous().numpy(),
            state_bias.detach().numpy(),
            sizes,
            (states.numpy(), before.numpy(), recalled.numpy()),
        )
        # What was given has become the gates.
        context.save_for_backward(clicks, of_clicks, of_states, given, before, recalled)
        context.sizes = sizes
        return states

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        clicks, of_clicks, of_states, gates, before, recalled = context.saved_tensors
        to_given, to_recalled = torch.empty_like(gates), torch.empty_like(gates)
        _step_back(
            gradient.contiguous().numpy(),
            of_states.detach().numpy(),
            context.sizes,
            (gates.numpy(), before.numpy(), recalled.numpy()),
            (to_given.numpy(), to_recalled.numpy()),
        )
        return (
            product(to_given, of_clicks.t()),
            product(to_given.t(), clicks.t()),
            product(to_recalled.t(), before.t()),
            to_given.sum(0),
            to_recalled.sum(0),
            None,
        )


@numba.njit(cache=True, nogil=True)
def _step_through(
    gates: Rows, weights: Rows, bias: Rows, sizes: Ints, results: tuple[Rows, Rows, Rows]
) -> None:
    states, before, recalled = results
    width = states.shape[1]
    now = np.empty(3 * width, dtype=np.float32)
    start = 0
    for time in range(len(sizes)):
        for place in range(start, start + sizes[time]):
            now[:] = bias
            if time:
                before[place] = states[place - sizes[time - 1]]
                _add_product(before[place], weights, now)
            else:
                before[place] = 0
            recalled[place] = now[2 * width :]
            _open_gates(gates[place], now, before[place], states[place])
        start += sizes[time]


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _add_product(vector: Rows, matrix: Rows, product: Rows) -> None:
    """Add a vector times a matrix."""
    whole = len(vector) - len(vector) % 4
    for row in range(0, whole, 4):  # four at a time: fewer loads and stores
        first, second, third, fourth = (
            matrix[row],
            matrix[row + 1],
            matrix[row + 2],
            matrix[row + 3],
        )
        a, b, c, d = vector[row], vector[row + 1], vector[row + 2], vector[row + 3]
        for column in range(len(product)):
            product[column] += (a * first[column] + b * second[column]) + (
                c * third[column] + d * fourth[column]
            )
    for row in range(whole, len(vector)):
        for column in range(len(product)):
            product[column] += vector[row] * matrix[row, column]


@numba.njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")  # no check for zero
def _open_gates(gates: Rows, now: Rows, before: Rows, state: Rows) -> None:
    """Make gates of what the click gives, and a state of them and the state before."""
    width = len(state)
    for unit in range(2 * width):
        gates[unit] = _sigmoid(gates[unit] + now[unit])
    resets, keeps, news = gates[:width], gates[width : 2 * width], gates[2 * width :]
    recalled = now[2 * width :]
    for unit in range(width):
        new = np.float32(2) * _sigmoid(
            np.float32(2) * (news[unit] + resets[unit] * recalled[unit])
        ) - np.float32(1)
        news[unit] = new
        state[unit] = new + keeps[unit] * (before[unit] - new)


@numba.njit(cache=True, nogil=True, fastmath=_FAST, inline="always", error_model="numpy")
def _sigmoid(x: np.float32) -> np.float32:
    power = exponential(-abs(x))
    numerator = np.float32(1) if x >= 0 else power
    return numerator / (np.float32(1) + power)


@numba.njit(cache=True, nogil=True)
def _step_back(
    gradients: Rows,
    weights: Rows,
    sizes: Ints,
    kept: tuple[Rows, Rows, Rows],
    results: tuple[Rows, Rows],
) -> None:
    gates, before, recalled = kept
    to_given, to_recalled = results
    width = gradients.shape[1]
    carried = np.zeros((sizes[0], width), dtype=np.float32)
    start = len(gradients)
    for time in range(len(sizes) - 1, -1, -1):
        start -= sizes[time]
        for row in range(sizes[time]):
            place = start + row
            _close_gates(
                gradients[place],
                carried[row],
                (gates[place], before[place], recalled[place]),
                (to_given[place], to_recalled[place]),
            )
            if time:
                _add_product(to_recalled[place], weights, carried[row])


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _close_gates(
    gradient: Rows,
    carried: Rows,
    kept: tuple[Rows, Rows, Rows],
    results: tuple[Rows, Rows],
) -> None:
    """Go back from a state's gradient to those of what the gates were made of.

    What is carried comes from the next click's state, and becomes what goes to the one before.
    """
    gates, before, recalled = kept
    to_given, to_recalled = results
    width = len(gradient)
    resets, keeps, news = gates[:width], gates[width : 2 * width], gates[2 * width :]
    for unit in range(width):
        reset, keep, new = resets[unit], keeps[unit], news[unit]
        of_state = gradient[unit] + carried[unit]
        of_new = of_state * (1 - keep) * (1 - new * new)
        of_keep = of_state * (before[unit] - new) * keep * (1 - keep)
        of_reset = of_new * recalled[unit] * reset * (1 - reset)
        to_given[unit] = to_recalled[unit] = of_reset
        to_given[width + unit] = to_recalled[width + unit] = of_keep
        to_given[2 * width + unit] = of_new
        to_recalled[2 * width + unit] = of_new * reset
        carried[unit] = of_state * keep
