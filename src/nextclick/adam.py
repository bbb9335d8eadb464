"""A step of Adam that is computed aside and taken later, and the state of what takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn


class AdamStep:
    """One step of an optimizer, computed when this is made, and taken by `take`.

    Until then neither the parameters nor the optimizer's moments change; then both are replaced by
    other tensors, which takes microseconds.

    Parameters
    ----------
    optimizer
        One group of parameters.
    gradients
        Of its parameters, in their order.
    values
        What the parameters are before the step, if not what they are now.
    parameters
        Which of its parameters it is about, if not all.

    Examples
    --------
    >>> weight = torch.nn.Parameter(torch.ones(1))
    >>> step = AdamStep(torch.optim.Adam([weight], lr=0.25), [torch.ones(1)])
    >>> weight.item()
    1.0
    >>> step.take()
    >>> weight.item()
    0.75
    """

    def __init__(
        self,
        optimizer: torch.optim.Adam,
        gradients: Sequence[Tensor],
        values: Sequence[Tensor] | None = None,
        parameters: Sequence[Tensor] | None = None,
    ) -> None:
        (group,) = optimizer.param_groups
        self._optimizer = optimizer
        self._parameters: Sequence[Tensor] = parameters or group["params"]
        self.ahead = [value.detach().clone() for value in values or self._parameters]
        self._twin = torch.optim.Adam(self.ahead, **optimizer.defaults)
        for parameter, ahead, gradient in zip(self._parameters, self.ahead, gradients, strict=True):
            ahead.grad = gradient
            moments = optimizer.state.get(parameter)
            if moments:
                self._twin.state[ahead] = {name: kept.clone() for name, kept in moments.items()}
        self._twin.step()

    def take(self) -> None:
        """Put the new values into the parameters, and the new moments into the optimizer."""
        for parameter, ahead in zip(self._parameters, self.ahead, strict=True):
            parameter.data = ahead.data
            self._optimizer.state[parameter] = self._twin.state[ahead]


def network_state(network: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, NDArray[Any]]:
    """Return copies of a small network's weights, and of the optimizer's moments.

    Examples
    --------
    >>> network = torch.nn.Linear(1, 1)
    >>> sorted(network_state(network, torch.optim.Adam(network.parameters())))
    ['weights/bias', 'weights/weight']
    """
    state: dict[str, NDArray[Any]] = {}
    for name, parameter in network.named_parameters():
        state[f"weights/{name}"] = parameter.detach().numpy().copy()
        for key, value in optimizer.state.get(parameter, {}).items():
            state[f"moments/{name}/{key}"] = value.numpy().copy()
    return state


def restore_network(
    network: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, NDArray[Any]]
) -> None:
    """Take up what `network_state` returned; other names in it are left alone."""
    for name, parameter in network.named_parameters():
        parameter.data = torch.tensor(state[f"weights/{name}"])
        prefix = f"moments/{name}/"
        moments = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
        if moments:
            optimizer.state[parameter] = {k: torch.tensor(v) for k, v in moments.items()}
