"""An encoder as a recommender of its own: P_N = softmax of its scores over the whole catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, SerializeAsAny
from torch import Tensor
from torch.nn import functional

from nextclick.clicks import ClickLog, Contexts, Floats, Ints, Transitions
from nextclick.encoders.base import Encoder, EncoderSettings
from nextclick.encoders.losses import SAFE_EXPONENT, cross_entropy
from nextclick.encoders.narm import NarmSettings
from nextclick.encoders.registry import build_encoder, encoder_settings
from nextclick.encoders.top_k import top_k
from nextclick.encoders.training import (
    TrainingSettings,
    half_precision,
    representations,
    train,
)
from nextclick.errors import BadInputError
from nextclick.growing import Growing
from nextclick.recommender import Ranked, Recommender, State, with_prefix, without_prefix
from nextclick.runtime import Runtime
from nextclick.settings import Settings

AT_ONCE = 256
"""Contexts scored at once: their scores over a catalog of 100,000 items are 100 MB."""


class OnlineSettings(Settings):
    """How an encoder goes on learning from single batches.

    Parameters
    ----------
    learning_rate
        Adam's learning rate. Its moments start afresh where training ends.
    item_learning_rate
        The item embeddings' learning rate by plain gradient descent, which moves the items that a
        batch is about and hardly any other; `None` leaves them to Adam too, which moves all of them
        (the paper).
    new_item_pull
        Where the embedding of an item starts that is clicked for the first time: the cosine of its
        angle to the contexts that it was clicked after. At 0 it starts anywhere; at 1 these
        contexts recommend it at once, before all others.
    """

    learning_rate: float = 5e-4
    item_learning_rate: float | None = 1.5
    new_item_pull: float = Field(default=0.0, ge=0, le=1)


class NeuralSettings(Settings):
    """Settings of a neural recommender: the encoder, its training, and its online learning."""

    encoder: Annotated[SerializeAsAny[EncoderSettings], BeforeValidator(encoder_settings)] = (
        NarmSettings()
    )
    training: TrainingSettings = TrainingSettings()
    online: OnlineSettings = OnlineSettings()


@dataclass(frozen=True, eq=False)
class Prediction:
    """P_N for some contexts, kept as scores and their log-sum-exp."""

    representations: NDArray[np.float32]
    scores: Tensor
    log_sum: Tensor

    def top(self, k: int) -> tuple[Ints, Floats]:
        """Return the `k` most probable items and their probabilities."""
        if self.scores.device.type == "cpu":
            items, best = top_k(self.scores.numpy(), k)
            return items, self._probabilities(torch.from_numpy(best))
        best_scores, best_items = self.scores.topk(k)
        return best_items.cpu().numpy(), self._probabilities(best_scores)

    def at(self, items: Ints) -> Floats:
        """Return the probabilities of items, (contexts, m); 0 for what is not in the catalog."""
        known = (items >= 0) & (items < self.scores.shape[1])
        chosen = torch.from_numpy(np.where(known, items, 0)).to(self.scores.device)
        return np.where(known, self._probabilities(self.scores.gather(1, chosen)), 0.0)

    def _probabilities(self, scores: Tensor) -> Floats:
        return (scores - self.log_sum).exp().double().cpu().numpy()


class NeuralRecommender(Recommender):
    """A neural encoder that recommends by the softmax of its scores.

    `learn` takes one gradient step on the batch: cross-entropy over the whole catalog, items that
    are new in this batch included; Adam for the network, plain descent for the item embeddings.

    Examples
    --------
    >>> from nextclick.encoders.gru4rec import Gru4RecSettings
    >>> log = ClickLog.of([(s, (s + i) % 7, 10 * s + i) for s in range(40) for i in range(4)])
    >>> settings = NeuralSettings(
    ...     encoder=Gru4RecSettings(embedding=16, hidden=16), training=TrainingSettings(batch=32)
    ... )
    >>> model = NeuralRecommender(settings).fit(log)
    >>> model.recommend(Contexts.of([[2, 3]]), k=1).items.tolist()
    [[4]]
    """

    name = "neural"
    settings_type = NeuralSettings
    parts = frozenset({"neural"})

    def __init__(
        self, settings: NeuralSettings | None = None, runtime: Runtime | None = None
    ) -> None:
        super().__init__(settings, runtime)
        torch.set_num_threads(self.runtime.threads)
        self._device = _device(self.runtime.device)
        self._seed = self.runtime.seed
        self._encoder = self._new_encoder()
        self._optimizer = self._new_optimizer()
        self._vectors: Tensor | None = None
        self._clicked = Growing(np.zeros(0, dtype=np.bool_))

    @property
    def label(self) -> str:
        """The encoder's name."""
        return self._encoder.label

    @property
    def dimension(self) -> int:
        """The dimension of the representations."""
        return self._encoder.dimension

    @torch.inference_mode()
    def predict(self, contexts: Contexts) -> Prediction:
        """Return P_N for contexts of known items, none of them empty."""
        states = self._last_states(contexts)
        if self._vectors is None:
            # Laid out by dimension, one query's product reads them at twice the speed.
            self._vectors = self._encoder.vectors().T.contiguous()
        scores = self._encoder.queries(states) @ self._vectors
        bound = self._encoder.score_bound
        if bound is not None and bound <= SAFE_EXPONENT:
            log_sum = scores.exp().sum(1, keepdim=True).log()
        else:
            log_sum = scores.logsumexp(1, keepdim=True)
        return Prediction(states.cpu().numpy(), scores, log_sum)

    @torch.inference_mode()
    def encode(self, contexts: Contexts) -> NDArray[np.float32]:
        """Return the representations of contexts of known items, none of them empty."""
        return self._last_states(contexts).cpu().numpy()

    def represent(self, transitions: Transitions) -> NDArray[np.float32]:
        """Return the representations of all contexts, whole sessions encoded in one pass."""
        return representations(self._encoder, transitions).numpy()

    def _fit(self, log: ClickLog, validation: ClickLog | None) -> None:
        self._seed = self.runtime.seed
        torch.manual_seed(self._seed)
        self._encoder = self._new_encoder()
        self._clicked = Growing(np.zeros(0, dtype=np.bool_))
        self._grow(self.n_items)
        train(self._encoder, log, validation, self.settings.training, self.runtime)
        self._optimizer = self._new_optimizer()
        self._vectors = None
        self._clicked.values[log.transitions().items] = True

    def _recommend(self, contexts: Contexts, k: int) -> Ranked:
        chunks = [
            self.predict(contexts[start : start + AT_ONCE]).top(k)
            for start in range(0, len(contexts), AT_ONCE)
        ]
        items, scores = zip(*chunks, strict=True)
        return Ranked(np.concatenate(items), np.concatenate(scores))

    def _remember(self, transitions: Transitions, parts: frozenset[str], lessons: Any) -> None:
        """All that this method learns takes a gradient step."""

    def _step(
        self,
        transitions: Transitions,
        parts: frozenset[str],  # noqa: ARG002 - the contract's
        lessons: list[Any],  # noqa: ARG002 - the contract's
    ) -> None:
        contexts = self._usable(transitions.contexts)
        usable = contexts.lengths > 0
        if usable.any():
            self._descend(contexts[usable], torch.from_numpy(transitions.items[usable]))

    def _descend(self, contexts: Contexts, clicked: Tensor) -> None:
        clicked = clicked.to(self._device)
        states = self._last_states(contexts)
        queries = self._encoder.queries(states)
        if self.settings.online.new_item_pull:
            self._place_new_items(queries.detach(), clicked)
        loss = cross_entropy(
            queries,
            self._encoder.vectors(),
            clicked,
            bound=self._encoder.score_bound,
            half=half_precision(self.settings.training.precision, self._device),
        )
        self._encoder.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call] # torch has no types here
        self._optimizer.step()
        rate = self.settings.online.item_learning_rate
        if rate is not None and self._encoder.items.grad is not None:
            with torch.no_grad():
                self._encoder.items.sub_(self._encoder.items.grad, alpha=rate)
        self._clicked.values[clicked.cpu().numpy()] = True
        self._vectors = None

    def _last_states(self, contexts: Contexts) -> Tensor:
        last = torch.from_numpy(contexts.lengths - 1).to(self._device)
        items = torch.from_numpy(contexts.padded(fill=0)).to(self._device)
        states: Tensor = self._encoder(items)[torch.arange(len(last), device=self._device), last]
        return states

    @torch.no_grad()
    def _place_new_items(self, queries: Tensor, clicked: Tensor) -> None:
        """Turn the embeddings of items clicked for the first time towards their contexts."""
        new = ~self._clicked.values[clicked.cpu().numpy()]
        if not new.any():
            return
        rows = torch.from_numpy(np.flatnonzero(new)).to(self._device)
        items, place = torch.unique(clicked[rows], return_inverse=True)
        directions = queries.new_zeros(len(items), queries.shape[1])
        directions.index_add_(0, place, functional.normalize(queries[rows], dim=1))
        directions = functional.normalize(directions, dim=1)
        aside = self._encoder.items[items]
        aside -= (aside * directions).sum(1, keepdim=True) * directions
        pull = self.settings.online.new_item_pull
        placed = pull * directions + (1 - pull**2) ** 0.5 * functional.normalize(aside, dim=1)
        length = self._encoder.items[: self.n_items].norm(dim=1).mean()
        self._encoder.items[items] = placed * length

    def _grow(self, n_items: int) -> None:
        encoder = self._encoder
        if n_items > len(encoder.items):
            capacity = max(n_items, int(1.25 * len(encoder.items)))
            _grow_rows(encoder.items, capacity, self._optimizer)
        with torch.no_grad():
            rows = new_rows(self._seed, encoder.n_items, n_items, encoder.settings.embedding)
            encoder.items[encoder.n_items : n_items] = (
                torch.from_numpy(rows) * encoder.new_item_spread
            )
        encoder.n_items = n_items
        self._clicked.resize(n_items)
        self._vectors = None

    def _state(self) -> State:
        moments = {
            f"{name}/{key}": self._rows(name, value)
            for name, parameter in self._encoder.named_parameters()
            for key, value in self._optimizer.state.get(parameter, {}).items()
        }
        weights = {
            name: self._rows(name, parameter.detach())
            for name, parameter in self._encoder.named_parameters()
        }
        return {
            "seed": np.array(self._seed),
            "clicked": self._clicked.values,
            **with_prefix("encoder", weights),
            **with_prefix("optimizer", moments),
        }

    def _restore(self, state: State) -> None:
        self._seed = int(state["seed"])
        self._clicked = Growing(state["clicked"])
        self._encoder = self._new_encoder()
        self._encoder.n_items = self.n_items
        weights = without_prefix("encoder", state)
        moments = without_prefix("optimizer", state)
        self._optimizer = self._new_optimizer()
        for name, parameter in self._encoder.named_parameters():
            parameter.data = torch.tensor(weights[name], device=self._device)
            kept = without_prefix(name, moments)
            if kept:
                self._optimizer.state[parameter] = {
                    key: torch.tensor(value, device=self._device) for key, value in kept.items()
                }
        self._vectors = None

    def _rows(self, name: str, values: Tensor) -> NDArray[np.float32]:
        """Return a parameter or a moment of it as an array, without the room for more items."""
        used = values[: self.n_items] if name == "items" and values.ndim else values
        return used.cpu().numpy()

    def _new_encoder(self) -> Encoder:
        torch.manual_seed(self._seed)
        return build_encoder(self.settings.encoder).to(self._device).eval()

    def _new_optimizer(self) -> torch.optim.Adam:
        online = self.settings.online
        by_adam = [
            parameter
            for parameter in self._encoder.parameters()
            if online.item_learning_rate is None or parameter is not self._encoder.items
        ]
        return torch.optim.Adam(by_adam, lr=online.learning_rate, fused=True)


def new_rows(seed: int, start: int, stop: int, width: int) -> NDArray[np.float32]:
    """Return standard normal rows for the items from `start` to `stop`.

    An item's row does not depend on when the catalog grew to it.
    """
    block = 1024
    blocks = [
        np.random.default_rng([seed, number]).standard_normal((block, width), dtype=np.float32)
        for number in range(start // block, -(-stop // block))
    ]
    first = start - start % block
    return np.concatenate([np.empty((0, width), np.float32), *blocks])[start - first : stop - first]


def _grow_rows(parameter: Tensor, rows: int, optimizer: torch.optim.Optimizer) -> None:
    """Make room in a parameter, and in the optimizer's moments of it, filled with zeros."""

    def larger(values: Tensor) -> Tensor:
        room = values.new_zeros(rows, *values.shape[1:])
        room[: len(values)] = values
        return room

    moments = optimizer.state.get(parameter, {})
    parameter.grad = None
    parameter.data = larger(parameter.data)
    for name, values in moments.items():
        if values.ndim:
            moments[name] = larger(values)


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError):
        raise BadInputError(
            f"device {name!r} is not there; use cpu, or leave the choice to auto"
        ) from None
