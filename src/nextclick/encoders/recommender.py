"""An encoder as a recommender of its own: P_N = softmax of its scores over the whole catalog."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BeforeValidator, SerializeAsAny
from torch import Tensor
from torch.nn import functional

from nextclick.clicks import CONTEXT_LENGTH, ClickLog, Contexts, Ints, Transitions
from nextclick.encoders.base import Encoder, EncoderSettings
from nextclick.encoders.calibration import fitted_temperature
from nextclick.encoders.item_adam import AdamState
from nextclick.encoders.item_vectors import ItemVectors
from nextclick.encoders.losses import RANKING
from nextclick.encoders.narm import NarmSettings
from nextclick.encoders.online import (
    Batch,
    OnlineSettings,
    PlannedStep,
    Spare,
    placed,
    plan_by_autograd,
    plan_step,
)
from nextclick.encoders.packing import Packing
from nextclick.encoders.prediction import Prediction
from nextclick.encoders.registry import build_encoder, encoder_settings
from nextclick.encoders.sifting import Sifted
from nextclick.encoders.training import (
    TrainingSettings,
    half_precision,
    representations,
    train,
)
from nextclick.errors import BadInputError
from nextclick.growing import Growing
from nextclick.recommender import (
    Ahead,
    Apply,
    Ranked,
    Recommender,
    State,
    nothing_to_apply,
    with_prefix,
    without_prefix,
)
from nextclick.runtime import Runtime
from nextclick.settings import Settings

AT_ONCE = 256
"""Contexts scored at once: their scores over a catalog of 100,000 items are 100 MB."""


class NeuralSettings(Settings):
    """Settings of a neural recommender: the encoder, its training, and its online learning."""

    encoder: Annotated[SerializeAsAny[EncoderSettings], BeforeValidator(encoder_settings)] = (
        NarmSettings()
    )
    training: TrainingSettings = TrainingSettings()
    online: OnlineSettings = OnlineSettings()


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
        self._optimizer = self.settings.online.optimizer(self._encoder)
        self._half = half_precision(self.settings.training.precision, self._device)
        self._vectors = self._vectors_of(self._encoder.items)
        self._clicked = Growing(np.zeros(0, dtype=np.bool_))
        self._spare = Spare()

    @property
    def label(self) -> str:
        """The encoder's name."""
        return self._encoder.label

    @property
    def dimension(self) -> int:
        """The dimension of the representations."""
        return self._encoder.dimension

    @torch.inference_mode()
    def predict(self, contexts: Contexts, k: int) -> Prediction:
        """Return P_N, and its `k` best items, for contexts of known items, none of them empty."""
        states = self._last_states(contexts)
        queries, vectors, n_items = self._encoder.queries(states), self._vectors, self.n_items
        if vectors is None:
            return _prediction(states, queries @ self._encoder.vectors().T, k)
        # The vectors of these items stay as they are until the step after the next is planned.
        return Prediction(
            states.numpy(),
            vectors.best(queries, n_items, k),
            vectors.scores(queries, n_items),
        )

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
        self._calibrate(validation)
        self._optimizer = self.settings.online.optimizer(self._encoder)
        self._lay_out()
        self._clicked.values[log.transitions().items] = True

    def _calibrate(self, validation: ClickLog | None) -> None:
        """Make probabilities of the scores of a ranking loss, if there is what it takes."""
        if self.settings.training.loss.kind not in RANKING or validation is None:
            return
        transitions = validation.transitions()
        if len(transitions):
            self._encoder.temperature = fitted_temperature(self._encoder, transitions)

    def _recommend(self, contexts: Contexts, k: int) -> Ranked:
        chunks = [
            self.predict(contexts[start : start + AT_ONCE], k).top(k)
            for start in range(0, len(contexts), AT_ONCE)
        ]
        items, scores = zip(*chunks, strict=True)
        return Ranked(np.concatenate(items), np.concatenate(scores))

    def _remember(self, transitions: Transitions, parts: frozenset[str], lessons: Any) -> None:
        """All that this method learns takes a gradient step."""

    def _plan(
        self,
        transitions: Transitions,
        parts: frozenset[str],  # noqa: ARG002 - the contract's
        lessons: list[Any],  # noqa: ARG002 - the contract's
        n_items: int,
        ahead: Ahead | None,
    ) -> Apply:
        return self.plan_step(transitions, n_items) if ahead is None else ahead.take

    def _plan_ahead(
        self,
        transitions: Transitions,
        parts: frozenset[str],  # noqa: ARG002 - the contract's
        n_items: int,
    ) -> Apply:
        return self.plan_step(transitions, n_items)

    def plan_step(self, transitions: Transitions, n_items: int) -> Apply:
        """Compute a gradient step over the first `n_items` items; see `Recommender.plan`."""
        contexts = transitions.contexts.last(CONTEXT_LENGTH).known(n_items)
        usable = contexts.lengths > 0
        if not usable.any():
            return nothing_to_apply
        clicked = transitions.items[usable]
        step = self._planned(Batch.of(contexts[usable], clicked, self._device), n_items)

        def take_step() -> None:
            encoder = self._encoder
            now = encoder.items.data
            step.by_adam.take()
            self._spare.vectors = self._vectors
            encoder.items.data, self._vectors = step.items, step.vectors
            if step.adam is not None:
                self._spare.adam = AdamState.of(self._optimizer, encoder.items)
                self._optimizer.state[encoder.items] = step.adam.kept()
            if len(now) > len(step.items):
                _grow_rows(encoder.items, len(now), self._optimizer)
            came_since = slice(n_items, encoder.n_items)
            encoder.items.data[came_since] = now[came_since]
            self._lay_out(n_items)
            self._clicked.values[clicked] = True

        return take_step

    def _planned(self, batch: Batch, n_items: int) -> PlannedStep:
        encoder, online = self._encoder, self.settings.online
        rows, vectors = encoder.items.detach(), self._vectors
        new = ~self._clicked.values[batch.clicked.cpu().numpy()]
        if online.new_item_pull and new.any():
            rows, places = placed(encoder, rows, batch, new, online.new_item_pull, n_items)
            vectors = None if vectors is None else vectors.with_rows(rows, places)
        rate = online.item_learning_rate
        if vectors is not None:
            how = n_items, rate, self._spare
            return plan_step(encoder, vectors, self._optimizer, batch, *how)
        return plan_by_autograd(
            encoder, rows, self._optimizer, batch, n_items, rate, half=self._half
        )

    def _last_states(self, contexts: Contexts) -> Tensor:
        packing = Packing.of(contexts, self._device)
        embedded = functional.embedding(packing.items, self._encoder.items)
        return self._encoder.encode_last(embedded, packing)

    def _lay_out(self, start: int = 0) -> None:
        """Make ready what items are scored by, from one item on or, with new room, of all."""
        rows, vectors = self._encoder.items.data, self._vectors
        if vectors is None or vectors.rows.data_ptr() != rows.data_ptr():
            self._vectors = self._vectors_of(rows)
        else:
            vectors.lay_out(np.arange(start, self._encoder.n_items))

    def _vectors_of(self, rows: Tensor) -> ItemVectors | None:
        if self._device.type != "cpu":
            return None
        cosine = self._encoder.settings.scores == "cosine"
        return ItemVectors.of(rows, cosine=cosine, half=self._half)

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
        start, encoder.n_items = encoder.n_items, n_items
        self._clicked.resize(n_items)
        self._lay_out(start)

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
            "temperature": np.array(self._encoder.temperature),
            **with_prefix("encoder", weights),
            **with_prefix("optimizer", moments),
        }

    def _restore(self, state: State) -> None:
        self._seed = int(state["seed"])
        self._clicked = Growing(state["clicked"])
        self._encoder = self._new_encoder()
        self._encoder.n_items = self.n_items
        # Models that were saved before there were temperatures have none.
        self._encoder.temperature = float(state.get("temperature", 1.0))
        weights = without_prefix("encoder", state)
        moments = without_prefix("optimizer", state)
        self._optimizer = self.settings.online.optimizer(self._encoder)
        for name, parameter in self._encoder.named_parameters():
            parameter.data = torch.tensor(weights[name], device=self._device)
            kept = without_prefix(name, moments)
            if kept:
                self._optimizer.state[parameter] = {
                    key: torch.tensor(value, device=self._device) for key, value in kept.items()
                }
        self._lay_out()

    def _rows(self, name: str, values: Tensor) -> NDArray[np.float32]:
        """Return a parameter or a moment of it as an array, without the room for more items."""
        used = values[: self.n_items] if name == "items" and values.ndim else values
        return used.cpu().numpy()

    def _new_encoder(self) -> Encoder:
        torch.manual_seed(self._seed)
        return build_encoder(self.settings.encoder).to(self._device).eval()


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


def _prediction(states: Tensor, scores: Tensor, k: int) -> Prediction:
    """Return what follows from all scores, on any device."""
    best, items = scores.topk(k)
    found = Sifted(items.cpu().numpy(), best.cpu().numpy(), scores.logsumexp(1).cpu().numpy())

    def score(asked: Ints) -> NDArray[np.float32]:
        known = (asked >= 0) & (asked < scores.shape[1])
        chosen = torch.from_numpy(np.where(known, asked, 0)).to(scores.device)
        given = scores.gather(1, chosen).cpu().numpy()
        return np.where(known, given, -np.inf).astype(np.float32)

    return Prediction(states.cpu().numpy(), found, score)


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError):
        raise BadInputError(
            f"device {name!r} is not there; use cpu, or leave the choice to auto"
        ) from None
