"""The gates: a small network, and a fixed weight."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nextclick.adam import AdamStep, network_state, restore_network
from nextclick.clicks import Floats, Mask
from nextclick.gate.evidence import FEATURES, Array, Evidence, Lessons
from nextclick.runtime import Runtime
from nextclick.settings import Settings

Row: TypeAlias = NDArray[np.float32]
Rows: TypeAlias = NDArray[np.float32]


class GateSettings(Settings):
    """Settings of the gate.

    Parameters
    ----------
    kind
        `"learned"`: a network weighs each context; `"fixed"`: one weight for all ("shallow").
    weight
        Fixed gate: the neural part's weight; `None` takes what is best on the validation part.
    inputs
        What the network sees: the `"context"`'s representation (the paper), the `"evidence"` that
        the two parts give, or `"both"`.
    bandwidth
        How neighbours are weighed: `"nearest"` by the paper's kernel, whose bandwidth is the
        nearest one's distance; `"learned"` by `exp(-β d²)`, β given by the network (or, for a fixed
        gate, one number) fitted together with the weight.
    recency
        Whether a learned gate's learned kernel also weighs how long ago a neighbour was written,
        and whether it is of the session that asks: `(1 + age)^-δ exp(γ own - β d²)`.
    lean
        Whether the mixture of a learned gate leans towards items by how often, and how long ago,
        they were clicked: see `Leaning`.
    lessons
        What the gate is trained on: `"static"`: the validation part, with the memory as training
        left it (the paper); `"prequential"`: the validation part as it is absorbed, test by test,
        with a memory and an encoder that learn on the way as they will later.
    online
        Whether the gate goes on learning.
    learning_rate
        Adam's learning rate, in training and online.
    hidden
        Units of the hidden layer.
    epochs, patience
        Passes over the validation part at most, and how many to wait for a better one.
    """

    kind: Literal["learned", "fixed"] = "learned"
    weight: float | None = None
    inputs: Literal["context", "evidence", "both"] = "evidence"
    bandwidth: Literal["nearest", "learned"] = "learned"
    recency: bool = True
    lean: bool = True
    lessons: Literal["static", "prequential"] = "prequential"
    online: bool = True
    learning_rate: float = 1e-3
    hidden: int = 100
    epochs: int = 50
    patience: int = 5


@dataclass(frozen=True, eq=False)
class Kernel:
    """The learned kernel `(1 + age)^-δ exp(γ own - β d²)`: β, δ and γ for each context."""

    bandwidths: Floats
    recency: Floats
    loyalty: Floats


@dataclass(frozen=True, eq=False)
class Opening:
    """How far the gate is open for each context.

    Parameters
    ----------
    weights
        The neural part's weight: 1 where nothing else has anything to say.
    kernel
        How neighbours are to be weighed; `None` for the paper's kernel.
    others
        The weights of further predictors, (contexts, predictors). What is left is the memory's.
    """

    weights: Floats
    kernel: Kernel | None
    others: Floats

    @property
    def memory(self) -> Floats:
        """The memory's weight."""
        rest: Floats = 1 - self.weights - self.others.sum(1)
        return rest


class Gate(ABC):
    """Decides the neural part's weight, and the memory's bandwidth, for each context."""

    def __init__(self, settings: GateSettings, dimension: int, runtime: Runtime) -> None:
        self.settings = settings
        self.dimension = dimension
        self.runtime = runtime

    @abstractmethod
    def open(self, evidence: Evidence) -> Opening:
        """Return the weights for these contexts."""

    @abstractmethod
    def fit(self, lessons: Lessons) -> None:
        """Learn from the validation part, from the beginning."""

    @abstractmethod
    def plan(self, lessons: Lessons) -> Callable[[], None]:
        """Compute one online step, and return the function that takes it."""

    @abstractmethod
    def state(self) -> dict[str, Array]:
        """Return what was learned."""

    @abstractmethod
    def restore(self, state: dict[str, Array]) -> None:
        """Take up what `state` returned."""


def make_gate(settings: GateSettings, dimension: int, runtime: Runtime) -> Gate:
    """Make the gate that the settings name."""
    gate = LearnedGate if settings.kind == "learned" else FixedGate
    return gate(settings, dimension, runtime)


class FixedGate(Gate):
    """The same weight for every context ("shallow"), and with a learned bandwidth the same β."""

    def __init__(self, settings: GateSettings, dimension: int, runtime: Runtime) -> None:
        super().__init__(settings, dimension, runtime)
        self._weight = 0.9 if settings.weight is None else settings.weight
        self._bandwidth = 10.0

    def open(self, evidence: Evidence) -> Opening:
        """Return the one weight, or 1 where the memory is silent."""
        silent = ~np.isfinite(evidence.distances[:, 0])
        weights = np.where(silent, 1.0, self._weight)
        if self.settings.bandwidth == "nearest":
            return Opening(weights, None, np.empty((len(silent), 0)))
        nothing = np.zeros(len(silent))
        kernel = Kernel(nothing + self._bandwidth, nothing, nothing)
        return Opening(weights, kernel, np.empty((len(silent), 0)))

    def fit(self, lessons: Lessons) -> None:
        """Take the weight, and the bandwidth, that make the clicked items most likely."""
        weights = np.linspace(0, 1, 101)[1:-1]
        if self.settings.weight is not None:
            weights = np.array([self.settings.weight])
        learned = self.settings.bandwidth == "learned"
        best = -math.inf
        for bandwidth in np.geomspace(0.1, 1000, 25) if learned else [self._bandwidth]:
            memory = _memory_probability(lessons, bandwidth) if learned else lessons.memory
            for weight in weights:
                mixed = np.where(
                    np.isfinite(lessons.evidence.distances[:, 0]),
                    weight * lessons.neural + (1 - weight) * memory,
                    lessons.neural,
                )
                likelihood = float(np.log(np.maximum(mixed, 1e-12)).mean())
                if likelihood > best:
                    best, self._weight, self._bandwidth = likelihood, float(weight), bandwidth

    def plan(self, lessons: Lessons) -> Callable[[], None]:  # noqa: ARG002 - the contract's
        """Stay as it is: what is fixed does not learn."""
        return _stay

    def state(self) -> dict[str, Array]:
        """Return the weight and the bandwidth."""
        return {"fixed": np.array([self._weight, self._bandwidth])}

    def restore(self, state: dict[str, Array]) -> None:
        """Take up the weight and the bandwidth."""
        self._weight, self._bandwidth = map(float, state["fixed"])


class LearnedGate(Gate):
    """A small network: w = σ(W_o tanh(W_h x + b_h) + b_o), and log β, log δ and γ beside it.

    x is the representation c (the paper), the evidence, or both. The evidence is standardised by
    its mean and spread over the validation part.

    With further predictors the weights are a softmax of as many outputs, of which the memory's is
    fixed at 0: with none, the neural part's is σ.

    Parameters
    ----------
    settings, dimension, runtime
        As for every gate.
    others
        How many further predictors there are to be weighed.
    features
        How many facts the evidence has.
    """

    def __init__(
        self,
        settings: GateSettings,
        dimension: int,
        runtime: Runtime,
        *,
        others: int = 0,
        features: int = FEATURES,
    ) -> None:
        super().__init__(settings, dimension, runtime)
        self._contexts_seen = 0 if settings.inputs == "evidence" else dimension
        self._features_seen = 0 if settings.inputs == "context" else features
        torch.manual_seed(runtime.seed)
        output = nn.Linear(settings.hidden, 4 + others)
        with torch.no_grad():  # begin near w = 0.9, β = 10, δ = 0.05, γ = 0
            output.weight.mul_(0.1)
            output.bias.copy_(torch.tensor([2.0, math.log(10.0), -3.0, 0.0] + [0.0] * others))
        hidden = nn.Linear(self._contexts_seen + self._features_seen, settings.hidden)
        self._network = nn.Sequential(hidden, nn.Tanh(), output)
        self._mean = np.zeros(features, dtype=np.float32)
        self._spread = np.ones(features, dtype=np.float32)
        self._optimizer = self._new_optimizer()
        self._lay_out()

    def open(self, evidence: Evidence) -> Opening:
        """Return what the network says, or 1 where the memory is silent."""
        kernel = np.empty((3, len(evidence.distances)))
        weights = np.empty(len(evidence.distances))
        others = np.empty(evidence.silent.shape)
        seen = evidence.contexts, evidence.features, evidence.distances, evidence.silent
        fill_opening(seen, self.tables, (weights, kernel, others))
        if self.settings.bandwidth == "nearest":
            return Opening(weights, None, others)
        return Opening(weights, Kernel(*kernel), others)

    def fit(self, lessons: Lessons) -> None:
        """Train on a random nine tenths of the lessons until the last tenth gets no better."""
        generator = self.runtime.generator("gate")
        features = lessons.evidence.features
        self._mean = features.mean(0)
        self._spread = np.maximum(features.std(0), np.float32(1e-3))
        shuffled = generator.permutation(len(lessons))
        held_out = lessons[shuffled[: max(1, len(shuffled) // 10)]]
        train = shuffled[len(held_out) :]
        best, best_epoch, kept = math.inf, 0, self.state()
        for epoch in range(self.settings.epochs):
            order = generator.permutation(train)
            for start in range(0, len(order), 256):
                self._step(lessons[order[start : start + 256]])
            with torch.inference_mode():
                loss = float(self._loss(held_out))
            if loss < best:
                best, best_epoch, kept = loss, epoch, self.state()
            elif epoch - best_epoch >= self.settings.patience:
                break
        self.restore(kept)

    def plan(self, lessons: Lessons) -> Callable[[], None]:
        """Compute one step of Adam on the lessons of a batch."""
        if not self.settings.online or not len(lessons):
            return _stay
        parameters = list(self._network.parameters())
        gradients = torch.autograd.grad(self._loss(lessons), parameters)
        step = AdamStep(self._optimizer, gradients)

        def take_step() -> None:
            step.take()
            self._lay_out()

        return take_step

    def state(self) -> dict[str, Array]:
        """Return the weights, the optimizer's moments and the standardisation."""
        standard = {"mean": self._mean.copy(), "spread": self._spread.copy()}
        return standard | network_state(self._network, self._optimizer)

    def restore(self, state: dict[str, Array]) -> None:
        """Take up what `state` returned."""
        self._mean = state["mean"]
        self._spread = state["spread"]
        self._optimizer = self._new_optimizer()
        restore_network(self._network, self._optimizer, state)
        self._lay_out()

    def _lay_out(self) -> None:
        """Make the weights ready to open by, whenever others take their place."""
        # A call of torch, even one that names a parameter, costs more than the whole network.
        w_h, b_h, w_o, b_o = (one.detach().numpy() for one in self._network.parameters())
        sees = self._contexts_seen > 0, self._features_seen > 0, self.settings.recency
        self.tables = sees, (self._mean, self._spread), (w_h, b_h, w_o, b_o)

    def _step(self, lessons: Lessons) -> None:
        loss = self._loss(lessons)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call] # torch has no types here
        self._optimizer.step()

    def _loss(self, lessons: Lessons) -> Tensor:
        """Return the cross-entropy of P = Σ_p w_p P_p."""
        out = self._network(torch.from_numpy(self._inputs(lessons.evidence)))
        distances = torch.from_numpy(lessons.evidence.distances)
        neural = torch.from_numpy(lessons.neural).float()
        if self.settings.bandwidth == "learned":
            logarithms = -out[:, 1:2].exp() * distances.clamp(max=1e6)
            if self.settings.recency:
                ages = torch.from_numpy(lessons.ages).clamp(min=0).float()
                logarithms = logarithms - out[:, 2:3].exp() * ages.log1p()
                logarithms = logarithms + out[:, 3:4] * torch.from_numpy(lessons.own)
            memory = (torch.softmax(logarithms, dim=1) * torch.from_numpy(lessons.matches)).sum(1)
        else:
            memory = torch.from_numpy(lessons.memory).float()
        # Logarithms: probabilities as small as they come, without losing them.
        logits = torch.cat([out[:, :1], torch.zeros_like(out[:, :1]), out[:, 4:]], dim=1)
        silent = torch.cat(
            [
                torch.zeros(len(out), 1, dtype=torch.bool),
                torch.isinf(distances[:, :1]),
                torch.from_numpy(lessons.evidence.silent),
            ],
            dim=1,
        )
        weights = torch.log_softmax(logits.masked_fill(silent, -torch.inf), dim=1)
        others = torch.from_numpy(lessons.others).float()
        said = torch.cat([neural[:, None], memory[:, None], others], dim=1)
        return -torch.logsumexp(weights + said.clamp(min=1e-12).log(), dim=1).mean()

    def _inputs(self, evidence: Evidence) -> NDArray[np.float32]:
        features = (evidence.features - self._mean) / self._spread
        contexts = evidence.contexts[:, : self._contexts_seen]
        return np.concatenate([contexts, features[:, : self._features_seen]], axis=1)

    def _new_optimizer(self) -> torch.optim.Adam:
        return torch.optim.Adam(self._network.parameters(), lr=self.settings.learning_rate)


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def fill_opening(
    seen: tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], Mask],
    tables: tuple[tuple[bool, bool, bool], tuple[Row, Row], tuple[Rows, Row, Rows, Row]],
    opening: tuple[Floats, Floats, Floats],
) -> None:
    """Fill in the neural part's weights, the kernel's numbers, and the further weights."""
    contexts, features, distances, silent = seen
    (sees_contexts, sees_features, recency), (mean, spread), (w_h, b_h, w_o, b_o) = tables
    weights, kernel, others = opening
    n_contexts = contexts.shape[1] if sees_contexts else 0
    n_features = features.shape[1] if sees_features else 0
    inputs = np.empty(n_contexts + n_features, dtype=np.float32)
    hidden = np.empty(len(b_h), dtype=np.float32)
    out = np.empty(len(b_o))
    for row in range(len(distances)):
        inputs[:n_contexts] = contexts[row, :n_contexts]
        for column in range(n_features):
            inputs[n_contexts + column] = (features[row, column] - mean[column]) / spread[column]
        _multiply(w_h, inputs, b_h, hidden)
        for unit in range(len(hidden)):
            hidden[unit] = np.tanh(hidden[unit])
        _multiply(w_o, hidden, b_o, out)
        # e^logit of the memory and of each further predictor, divided by the neural part's.
        total = 1.0 if np.isinf(distances[row, 0]) else 1 + np.exp(-out[0])
        for other in range(others.shape[1]):
            others[row, other] = 0.0 if silent[row, other] else np.exp(out[4 + other] - out[0])
            total += others[row, other]
        weights[row] = 1 / total
        others[row] /= total
        kernel[0, row] = np.exp(out[1])
        kernel[1, row], kernel[2, row] = (np.exp(out[2]), out[3]) if recency else (0.0, 0.0)


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _multiply(
    matrix: NDArray[np.float32], vector: NDArray[np.float32], bias: NDArray[np.float32], out: Array
) -> None:
    for row in range(len(matrix)):
        total = bias[row]
        for column in range(len(vector)):
            total += matrix[row, column] * vector[column]
        out[row] = total


def _stay() -> None:
    """Learn nothing."""


def _memory_probability(lessons: Lessons, bandwidth: float) -> Floats:
    distances = lessons.evidence.distances.astype(np.float64)
    nearest = distances[:, :1]
    beyond = np.where(
        np.isfinite(distances), distances - np.where(np.isfinite(nearest), nearest, 0), np.inf
    )
    shares = np.exp(-bandwidth * beyond)
    total = np.maximum(shares.sum(1), 1e-300)
    probability: Floats = (shares * lessons.matches).sum(1) / total
    return probability
