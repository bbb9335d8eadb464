"""Time what a batch of 100 clicks costs MAN-NARM: testing it, writing it to memory, learning it.

Weights do not matter to the time: the model is that of `benchmarks/recommendation.py`, untrained,
over a catalog of DIGINETICA's size. Contexts are as long as sessions are: most short, some of 20.

    python benchmarks/learning_step.py
    python benchmarks/learning_step.py --threads 2 --batches 50
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import perf_counter

import numpy as np
from recommendation import filled, made_up

from nextclick.catalog import Catalog
from nextclick.clicks import Contexts, Transitions

BATCH = 100


def batch_of(generator: np.random.Generator, items: int, first_session: int) -> Transitions:
    """Return random transitions, each of a session of its own."""
    lengths = np.minimum(generator.geometric(1 / 4, size=BATCH), 20)
    contexts = Contexts.of(
        [generator.integers(items, size=length) for length in lengths],
        sessions=first_session + np.arange(BATCH),
    )
    return Transitions(contexts, generator.integers(items, size=BATCH), np.zeros(BATCH))


def main() -> None:
    """Measure, and print the medians of each part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=43_136)
    parser.add_argument("--entries", type=int, default=561_680)
    parser.add_argument("--batches", type=int, default=50)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    transitions = made_up(arguments.items, arguments.entries)
    model = filled(Catalog(range(arguments.items)), transitions, arguments.threads)
    generator = np.random.default_rng(1)
    times: dict[str, list[float]] = {}

    def timed(part: str, call: Callable[[], object]) -> object:
        started = perf_counter()
        result = call()
        times.setdefault(part, []).append(1e3 * (perf_counter() - started))
        return result

    for number in range(arguments.batches + 3):
        if number == 3:
            times.clear()  # what was compiled is compiled
        batch = batch_of(generator, arguments.items, arguments.entries + BATCH * number)
        tested = timed("test", lambda batch=batch: model.test(batch))
        timed("remember", lambda batch=batch, seen=tested: model.remember(batch, seen))
        for part in ("neural", "gate"):
            take = timed(
                f"plan the {part} step",
                lambda batch=batch, seen=tested, part=part: model.plan(batch, [seen], parts={part}),
            )
            timed(f"take the {part} step", take)
    medians = {part: float(np.median(taken)) for part, taken in times.items()}
    print(
        f"A batch of {BATCH}: {arguments.items:,} items, {arguments.entries:,} memory entries, "
        f"{arguments.threads} thread(s), medians of {arguments.batches}"
    )
    for part, median in medians.items():
        print(f"  {part:22} {median:8.2f} ms")
    whole = sum(medians.values())
    print(f"  {'all':22} {whole:8.2f} ms: {1e3 * BATCH / whole:,.0f} transitions a second")


if __name__ == "__main__":
    main()
