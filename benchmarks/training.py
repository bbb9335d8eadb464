"""Time training of NARM: whole sessions and a fused loss, against one prefix at a time.

Both sides run here, one after the other, on the same data and with the same network. The plain side
is what most published code does: every prefix padded and encoded on its own, the scores of the
whole catalog in float32, `torch.nn.functional.cross_entropy`.

    python benchmarks/training.py                            # a synthetic catalog of 40,000 items
    python benchmarks/training.py --data PREPARED --hit-rate 0.49   # and train until HR@20 is that
"""

from __future__ import annotations

import argparse
import contextlib
import time

import numpy as np
import torch
from torch.nn import functional

from nextclick.clicks import ClickLog, Transitions
from nextclick.datasets.prepared import PreparedData
from nextclick.encoders import training
from nextclick.encoders.base import Encoder
from nextclick.encoders.losses import LossSettings
from nextclick.encoders.recommender import NeuralRecommender, NeuralSettings
from nextclick.encoders.training import Runs, TrainingSettings, half_precision, hit_rate
from nextclick.runtime import Runtime


def synthetic_log(items: int = 40_000, sessions: int = 30_000) -> ClickLog:
    """Make sessions of DIGINETICA's lengths over a catalog of its size; their items are noise."""
    generator = np.random.default_rng(0)
    lengths = 2 + generator.geometric(0.26, size=sessions)
    n = int(lengths.sum())
    clicked = np.concatenate([np.arange(items), generator.integers(items, size=max(0, n - items))])
    return ClickLog(np.repeat(np.arange(sessions), lengths), clicked[:n], np.arange(n, dtype=float))


def recommender(settings: TrainingSettings, n_items: int, threads: int) -> NeuralRecommender:
    """Return an untrained NARM over so many items."""
    runtime = Runtime(threads=threads, show_progress=False)
    model = NeuralRecommender(NeuralSettings(training=settings), runtime)
    model.know(n_items)
    return model


def ours(log: ClickLog, settings: TrainingSettings, threads: int, seconds: float) -> float:
    """Return transitions a second of this package."""
    encoder = recommender(settings, log.n_items, threads)._encoder
    transitions = log.transitions()
    optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3, fused=True)
    course = training.Course(encoder, optimizer, epoch=1)
    done, started = 0, 0.0

    def count(steps: float = 1, note: str = "") -> None:  # noqa: ARG001 - Advance's
        nonlocal done, started
        if not started:
            started = time.perf_counter()  # the first batch warms up
            return
        done += int(steps)
        if time.perf_counter() - started > seconds:
            raise TimeoutError

    runs = Runs.of(transitions)
    runtime = Runtime(threads=threads, show_progress=False)
    with contextlib.suppress(TimeoutError):  # how `count` says that time is up
        training._train_epoch(course, runs, transitions.items, settings, runtime, count)
    return done / (time.perf_counter() - started)


def plain(log: ClickLog, settings: TrainingSettings, threads: int, seconds: float) -> float:
    """Return transitions a second of the obvious way: prefix by prefix, all scores in float32."""
    encoder = recommender(settings, log.n_items, threads)._encoder.train()
    transitions = log.transitions()
    optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    shuffled = transitions[np.random.default_rng(0).permutation(len(transitions))]
    done, started = 0, 0.0
    for batch in shuffled.batches(512):
        plain_step(encoder, optimizer, batch)
        if not started:
            started = time.perf_counter()
            continue
        done += len(batch)
        if time.perf_counter() - started > seconds:
            break
    return done / (time.perf_counter() - started)


def plain_step(encoder: Encoder, optimizer: torch.optim.Adam, batch: Transitions) -> None:
    """Take one gradient step on prefixes that are padded and encoded each on its own."""
    items = torch.from_numpy(batch.contexts.padded(fill=0))
    last = torch.from_numpy(batch.contexts.lengths - 1)
    states = encoder(items)[torch.arange(len(last)), last]
    scores = encoder.queries(states) @ encoder.vectors().T
    loss = functional.cross_entropy(scores, torch.from_numpy(batch.items))
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call] # torch has no types here
    optimizer.step()


def time_to_hit_rate(
    data: PreparedData, wanted: float, threads: int, settings: TrainingSettings
) -> None:
    """Train until the static HR@20 on the validation part is as wanted; print each epoch."""
    spent, epoch_began = 0.0, time.perf_counter()
    validation = data.validation.transitions()

    def judged(encoder: Encoder, _: object) -> object:
        def judge() -> float:
            nonlocal spent, epoch_began
            spent += time.perf_counter() - epoch_began
            known = validation.contexts.known(encoder.n_items)
            usable = known.lengths > 0
            part = Transitions(known[usable], validation.items[usable], known.times[usable])
            reached = hit_rate(encoder, part, k=20) * len(part) / len(validation)
            print(
                f"  {spent:6.0f} s of training: HR@20 {reached:.4f} on the validation part",
                flush=True,
            )
            if reached >= wanted:
                raise StopIteration
            epoch_began = time.perf_counter()
            return reached

        return judge

    training._judge = judged  # type: ignore[assignment] # it also stops the training
    model = NeuralRecommender(NeuralSettings(training=settings), Runtime(threads=threads))
    try:
        model.fit(data.train, validation=data.validation, absorb=False)
        print(f"HR@20 {wanted} was not reached in {settings.epochs} epochs ({spent:.0f} s)")
    except StopIteration:
        print(f"HR@20 {wanted} reached after {spent:.0f} s of training")


def main() -> None:
    """Measure both sides and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="a folder that `nextclick data prepare` wrote")
    parser.add_argument("--hit-rate", type=float, help="with --data: train until HR@20 is this")
    parser.add_argument("--epochs", type=int, default=8, help="of that training, at most")
    parser.add_argument("--estimated", type=float, help="share of that training that is sampled")
    parser.add_argument("--batch", type=int, help="transitions a step of that training")
    parser.add_argument("--seconds", type=float, default=20, help="to time each side for")
    parser.add_argument("--threads", type=int, default=Runtime().threads)
    arguments = parser.parse_args()
    data = PreparedData.load(arguments.data) if arguments.data else None
    log = data.train if data else synthetic_log()
    whole = TrainingSettings(loss=LossSettings(estimated=0.0))
    estimated = TrainingSettings(loss=LossSettings(estimated=1.0))
    threads, seconds = arguments.threads, arguments.seconds
    half = half_precision(whole.precision, torch.device("cpu"))
    slow = plain(log, whole, threads, seconds)
    print(f"NARM, {log.n_items:,} items, {threads} threads, bfloat16: {half}")
    print("                                  transitions/s   ratio")
    print(f"  prefix by prefix, plain loss        {slow:8,.0f}")
    for name, settings in (("fused loss", whole), ("estimated loss", estimated)):
        fast = ours(log, settings, threads, seconds)
        print(f"  whole sessions, {name:16}    {fast:8,.0f}  {fast / slow:6.1f}", flush=True)
    if data and arguments.hit_rate:
        loss = LossSettings()
        if arguments.estimated is not None:
            loss = LossSettings(estimated=arguments.estimated)
        settings = TrainingSettings(epochs=arguments.epochs, batch=arguments.batch, loss=loss)
        time_to_hit_rate(data, arguments.hit_rate, threads, settings)


if __name__ == "__main__":
    main()
