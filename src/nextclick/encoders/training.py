"""Training an encoder on past sessions: whole sessions in one pass, batches by length."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from nextclick.clicks import ClickLog, Ints, Transitions
from nextclick.encoders.base import Encoder
from nextclick.encoders.losses import LossSettings, loss_of
from nextclick.errors import BadInputError
from nextclick.files import new_file
from nextclick.runtime import Runtime
from nextclick.settings import Settings


class TrainingSettings(Settings):
    """How an encoder is trained.

    Parameters
    ----------
    epochs
        Passes over the training part, at most.
    batch
        Transitions per gradient step; `None` takes a five-hundredth of them, between 64 and 1,024:
        small logs need steps, large ones need batches that fill the machine.
    learning_rate
        The highest learning rate: Adam's, in one cycle that rises at first and then falls along a
        cosine to nothing.
    warm_up
        Share of the training in which the learning rate rises.
    clip
        The gradient's norm is cut to this.
    patience
        Stop when validation HR@5 has not risen for so many epochs; `None` to never stop early. The
        epoch that was best on the validation part is kept either way.
    loss
        What is minimised.
    precision
        `"bfloat16"` computes the scores of the catalog in bfloat16, `"float32"` does not, `"auto"`
        uses bfloat16 where the processor has instructions for it.
    """

    epochs: int = 8
    batch: int | None = None
    learning_rate: float = 4e-3
    warm_up: float = 0.1
    clip: float = 1.0
    patience: int | None = 2
    loss: LossSettings = LossSettings()
    precision: Literal["auto", "bfloat16", "float32"] = "auto"


def batch_size(settings: TrainingSettings, transitions: int) -> int:
    """Return how many of these transitions make a gradient step.

    Examples
    --------
    >>> [batch_size(TrainingSettings(), n) for n in (1_000, 100_000, 10_000_000)]
    [64, 200, 1024]
    """
    return settings.batch or min(max(transitions // 500, 64), 1024)


def half_precision(precision: str, device: torch.device) -> bool:
    """Return whether the scores of the catalog are to be computed in bfloat16."""
    if precision == "auto":
        if device.type == "cuda":
            return bool(torch.cuda.is_bf16_supported())
        return bool(torch.cpu._is_avx512_bf16_supported())
    return precision == "bfloat16"


@dataclass(frozen=True, eq=False)
class Runs:
    """Stretches of clicks to encode in one pass each, and where in them each transition is.

    Transitions whose contexts begin at the same click are prefixes of one another, and share a run.
    """

    items: Ints
    starts: Ints
    lengths: Ints
    first: Ints
    """Where each run's transitions begin in `order`."""
    order: Ints
    """The transitions, run by run."""
    positions: Ints
    """Per transition, in that order: the position in its run after which it is predicted."""

    @classmethod
    def of(cls, transitions: Transitions) -> Runs:
        """Group transitions by the click that their contexts begin with."""
        contexts = transitions.contexts
        order = np.lexsort((contexts.ends, contexts.starts))
        starts = contexts.starts[order]
        change = np.flatnonzero(np.diff(starts, prepend=-1))
        last = np.append(change[1:], len(order)) - 1
        lengths = contexts.ends[order[last]] - starts[change]
        positions = contexts.lengths[order] - 1
        bounds = np.append(change, len(order))
        return cls(contexts.items, starts[change], lengths, bounds, order, positions)

    def __len__(self) -> int:
        return len(self.starts)

    def batch(self, runs: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Return (items padded behind, rows, positions, transitions) of some of the runs."""
        width = int(self.lengths[runs].max())
        column = np.arange(width)
        index = self.starts[runs, None] + np.minimum(column, self.lengths[runs, None] - 1)
        counts = self.first[runs + 1] - self.first[runs]
        rows = np.repeat(np.arange(len(runs)), counts)
        at = np.concatenate([np.arange(self.first[r], self.first[r + 1]) for r in runs])
        return self.items[index], rows, self.positions[at], self.order[at]

    def batches(
        self, transitions: int, generator: np.random.Generator | None = None
    ) -> Iterator[Ints]:
        """Cut the runs into batches of about so many transitions, of similar lengths.

        With a generator, runs are shuffled, sorted by length only within stretches of 50 batches,
        and the batches of a stretch shuffled: random enough, and little padding.
        """
        counts = np.diff(self.first)
        if generator is None:
            yield from _cut(np.argsort(self.lengths, kind="stable"), counts, transitions)
            return
        for stretch in _cut(generator.permutation(len(self)), counts, 50 * transitions):
            by_length = stretch[np.argsort(self.lengths[stretch], kind="stable")]
            batches = list(_cut(by_length, counts, transitions))
            for batch in generator.permutation(len(batches)):
                yield batches[batch]


def _cut(runs: Ints, counts: Ints, transitions: int) -> Iterator[Ints]:
    number = (np.cumsum(counts[runs]) - 1) // transitions
    yield from np.split(runs, np.flatnonzero(np.diff(number)) + 1)


VALIDATION_SAMPLE = 20_000
"""How many transitions of the validation part an epoch is judged by, evenly spread."""


@dataclass(eq=False)
class Course:
    """Where a training stands after an epoch: all that is needed to go on with the next."""

    encoder: Encoder
    optimizer: torch.optim.Optimizer
    epoch: int = 0
    best_hit_rate: float = -1.0
    best_epoch: int = 0
    best: dict[str, Tensor] = field(default_factory=dict)

    def judge(self, hit_rate: float) -> None:
        """Keep the weights if they are the best so far."""
        if hit_rate > self.best_hit_rate:
            self.best_hit_rate, self.best_epoch = hit_rate, self.epoch
            self.best = {name: value.clone() for name, value in self.encoder.state_dict().items()}

    def save(self, runtime: Runtime, fingerprint: str) -> None:
        """Leave a checkpoint, if one is wanted."""
        if runtime.checkpoint is None:
            return
        tensors = {f"encoder/{name}": value for name, value in self.encoder.state_dict().items()}
        tensors |= {f"best/{name}": value for name, value in self.best.items()}
        for number, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer/{number}/{key}": value for key, value in moments.items()}
        facts = {
            "fingerprint": fingerprint,
            "epoch": self.epoch,
            "best_hit_rate": self.best_hit_rate,
            "best_epoch": self.best_epoch,
        }
        with new_file(runtime.checkpoint) as path:
            path.write_bytes(save(tensors, {"course": json.dumps(facts)}))

    def resume(self, runtime: Runtime, fingerprint: str) -> None:
        """Take up the checkpoint, if there is one."""
        path = runtime.checkpoint
        if path is None or not path.exists():
            return
        try:
            with safe_open(path, framework="pt") as file:
                facts = json.loads(file.metadata()["course"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no dict
        except (SafetensorError, OSError, TypeError, ValueError, KeyError):
            raise BadInputError(
                f"{path}: not a checkpoint, or a damaged one; train without resuming"
            ) from None
        if facts.pop("fingerprint") != fingerprint:
            raise BadInputError(
                f"{path}: the checkpoint of a training with other settings or data; train "
                "without resuming, or with what it was begun with"
            )
        for name, value in facts.items():
            setattr(self, name, value)
        self.encoder.load_state_dict(_under("encoder/", tensors))
        self.best = _under("best/", tensors)
        state = self.optimizer.state_dict()
        for name, value in _under("optimizer/", tensors).items():
            number, key = name.split("/")
            state["state"].setdefault(int(number), {})[key] = value
        self.optimizer.load_state_dict(state)


def train(
    encoder: Encoder,
    log: ClickLog,
    validation: ClickLog | None,
    settings: TrainingSettings,
    runtime: Runtime,
) -> None:
    """Train an encoder whose catalog has room for the items of `log`.

    With a validation part, the epoch that is best on it is kept. After each epoch a checkpoint is
    left in `runtime.checkpoint`, from which the same call goes on.
    """
    transitions = log.transitions()
    optimizer = torch.optim.Adam(encoder.parameters(), lr=settings.learning_rate, fused=True)
    course = Course(encoder, optimizer)
    if not len(transitions):
        return
    runs = Runs.of(transitions)
    fingerprint = _fingerprint(log, settings, encoder, runtime)
    course.resume(runtime, fingerprint)
    judge = _judge(encoder, validation)
    with runtime.progress(f"Training {encoder.label}", len(transitions) * settings.epochs) as go:
        go(len(transitions) * course.epoch)
        while course.epoch < settings.epochs:
            course.epoch += 1
            _train_epoch(course, runs, transitions.items, settings, runtime, go)
            course.judge(judge() if judge else float(course.epoch))
            course.save(runtime, fingerprint)
            go(0, f"HR@5 {course.best_hit_rate:.3f}" if judge else "")
            waited = course.epoch - course.best_epoch
            if settings.patience is not None and waited >= settings.patience:
                break
    encoder.load_state_dict(course.best)


def _train_epoch(
    course: Course,
    runs: Runs,
    targets: Ints,
    settings: TrainingSettings,
    runtime: Runtime,
    advance: Callable[..., None],
) -> None:
    # Seeded anew for each epoch, so that one that is resumed is the same.
    generator = runtime.generator(f"epoch {course.epoch}")
    torch.manual_seed(int(generator.integers(2**62)))
    encoder, optimizer = course.encoder, course.optimizer
    device = encoder.items.device
    half = half_precision(settings.precision, device)
    loss_of_batch = loss_of(settings.loss, targets, encoder.n_items, generator, half=half)
    total = len(targets) * settings.epochs
    done = len(targets) * (course.epoch - 1)
    encoder.train()
    for batch in runs.batches(batch_size(settings, len(targets)), generator):
        items, rows, positions, transitions = runs.batch(batch)
        states = encoder(torch.from_numpy(items).to(device))
        queries = encoder.queries(states[torch.from_numpy(rows), torch.from_numpy(positions)])
        clicked = torch.from_numpy(targets[transitions]).to(device)
        loss = loss_of_batch(encoder, queries, clicked, done / total)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call] # torch has no types here
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), settings.clip)
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * one_cycle(done / total, settings.warm_up)
        optimizer.step()
        done += len(transitions)
        advance(len(transitions), f"loss {loss.item():.2f}")
    encoder.eval()


def one_cycle(done: float, warm_up: float) -> float:
    """Return the share of the highest learning rate when so much of the training is done.

    Examples
    --------
    >>> [round(one_cycle(done, 0.1), 2) for done in (0.0, 0.05, 0.1, 0.55, 1.0)]
    [0.04, 0.52, 1.0, 0.5, 0.0]
    """
    if done < warm_up:
        return 0.04 + 0.96 * done / warm_up
    return 0.5 + 0.5 * math.cos(math.pi * (done - warm_up) / (1 - warm_up))


def _judge(encoder: Encoder, validation: ClickLog | None) -> Callable[[], float] | None:
    """Return a function that measures HR@5 on the validation part, if there is one."""
    transitions = None if validation is None else validation.transitions()
    if not transitions:
        return None
    sample = np.unique(np.linspace(0, len(transitions) - 1, VALIDATION_SAMPLE).astype(np.int64))
    contexts = transitions.contexts[sample].known(encoder.n_items)
    usable = contexts.lengths > 0
    known = Transitions(contexts[usable], transitions.items[sample][usable], contexts.times[usable])
    return (lambda: hit_rate(encoder, known) * len(known) / len(sample)) if len(known) else None


@torch.inference_mode()
def hit_rate(encoder: Encoder, transitions: Transitions, k: int = 5) -> float:
    """Return HR@k of the encoder as it is, on contexts of known items."""
    device = encoder.items.device
    clicked = torch.from_numpy(transitions.items).to(device)
    queries = encoder.queries(representations(encoder, transitions).to(device))
    vectors = encoder.vectors()
    hits = 0
    for start in range(0, len(queries), 1024):
        scores = queries[start : start + 1024] @ vectors.T
        target = clicked[start : start + 1024, None]
        own = scores.gather(1, target.clamp(max=encoder.n_items - 1))
        better = (scores > own).sum(1, keepdim=True)
        hits += int(((better < k) & (target < encoder.n_items)).sum())
    return hits / len(transitions)


@torch.inference_mode()
def representations(encoder: Encoder, transitions: Transitions, batch: int = 4096) -> Tensor:
    """Return the representation of every transition's context, in their order, on the CPU."""
    encoder.eval()
    runs = Runs.of(transitions)
    result = torch.empty(len(transitions), encoder.dimension)
    for chunk in runs.batches(batch):
        items, rows, positions, order = runs.batch(chunk)
        states = encoder(torch.from_numpy(items).to(encoder.items.device))
        selected = states[torch.from_numpy(rows), torch.from_numpy(positions)]
        result[torch.from_numpy(order)] = selected.cpu()
    return result


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


def _fingerprint(
    log: ClickLog, settings: TrainingSettings, encoder: Encoder, runtime: Runtime
) -> str:
    """Return a sum over all that a training is determined by."""
    texts = (settings.model_dump_json(), encoder.settings.model_dump_json(), str(runtime.seed))
    digest = hashlib.sha256("\n".join(texts).encode())
    digest.update(log.sessions.tobytes())
    digest.update(log.items.tobytes())
    return digest.hexdigest()
