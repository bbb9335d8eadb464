"""Time one recommendation of MAN-NARM, beside NARM alone and beside the mixture written out.

Weights do not matter to the time: the network is untrained, over a catalog of DIGINETICA's size,
and the memory holds as many entries as DIGINETICA's training and validation parts.

    python benchmarks/recommendation.py
    python benchmarks/recommendation.py --entries 100000 --context 10 --threads 1
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from nextclick.catalog import Catalog
from nextclick.clicks import Contexts, Ints, Transitions
from nextclick.encoders.recommender import NeuralRecommender
from nextclick.memory_augmented import MemoryAugmented
from nextclick.runtime import Runtime

THEMES = 2_000
"""How many lists of items there are that made-up contexts are drawn from."""


def themes(items: int) -> Ints:
    """Return lists of items that are clicked together, so that contexts share items in bursts."""
    lists: Ints = np.random.default_rng(0).integers(items, size=(THEMES, 30))
    return lists


def made_up(items: int, entries: int) -> Transitions:
    """Return transitions out of contexts of four clicks that differ as real ones do."""
    generator = np.random.default_rng(1)
    chosen = themes(items)[generator.integers(THEMES, size=entries)]
    clicks = np.take_along_axis(chosen, generator.integers(30, size=(entries, 5)), axis=1)
    contexts = Contexts.of(clicks[:, :4], sessions=np.arange(entries))
    return Transitions(contexts, clicks[:, 4], np.zeros(entries))


def filled(catalog: Catalog, transitions: Transitions, threads: int) -> MemoryAugmented:
    """Return an untrained MAN-NARM whose memory holds these transitions."""
    model = MemoryAugmented(runtime=Runtime(threads=threads, show_progress=False))
    model.catalog = catalog
    model.know(len(catalog))
    model._popular.add(transitions.items)
    model.encode_anew(transitions)
    return model


def written_out(model: MemoryAugmented, context: Contexts, k: int) -> Ints:
    """Recommend the obvious way: the whole softmax, the whole mixture, sorted."""
    said = model._consult(context)
    neural = said.neural.at(np.arange(model.n_items)[None])
    memory = np.zeros_like(neural)
    voted = said.votes
    for item, probability in zip(voted.items[0], voted.probabilities[0], strict=True):
        if item >= 0:
            memory[0, item] += probability
    weight = said.opening.weights[0]
    best: Ints = np.argsort(-(weight * neural + (1 - weight) * memory)[0])[:k]
    return best


def milliseconds(ask: Callable[[Contexts], object], contexts: list[Contexts]) -> np.ndarray:
    """Time a call for each context."""
    times = []
    for context in contexts:
        started = time.perf_counter()
        ask(context)
        times.append(1e3 * (time.perf_counter() - started))
    return np.array(times)


def main() -> None:
    """Measure, in turns, and print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=43_136)
    parser.add_argument("--entries", type=int, default=561_680)
    parser.add_argument("--context", type=int, default=10, help="clicks of a context")
    parser.add_argument("--requests", type=int, default=1_000)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    transitions = made_up(arguments.items, arguments.entries)
    model = filled(Catalog(range(arguments.items)), transitions, arguments.threads)
    neural: NeuralRecommender = model._neural
    generator = np.random.default_rng(1)
    contexts = [
        Contexts.of([generator.integers(arguments.items, size=arguments.context)])
        for _ in range(arguments.requests)
    ]
    asks: dict[str, Callable[[Contexts], object]] = {
        "NARM": lambda context: neural.recommend(context, 20),
        "MAN-NARM": lambda context: model.recommend(context, 20),
        "MAN-NARM, written out": lambda context: written_out(model, context, 20),
    }
    times: dict[str, list[np.ndarray]] = {name: [] for name in asks}
    for ask in asks.values():
        milliseconds(ask, contexts[:50])
    for start in range(0, len(contexts), 100):  # in turns: what disturbs one disturbs all
        for name, ask in asks.items():
            times[name].append(milliseconds(ask, contexts[start : start + 100]))
    medians = {name: float(np.median(np.concatenate(parts))) for name, parts in times.items()}
    print(
        f"One recommendation of 20 items: {arguments.items:,} items, {arguments.entries:,} memory "
        f"entries, contexts of {arguments.context}, {arguments.threads} thread(s)"
    )
    for name, parts in times.items():
        p99 = float(np.percentile(np.concatenate(parts), 99))
        print(f"  {name:22} median {medians[name]:6.2f} ms   p99 {p99:6.2f} ms")
    added = medians["MAN-NARM"] / medians["NARM"] - 1
    print(f"  MAN adds {added:.1%} to NARM's time")
    ratio = medians["MAN-NARM, written out"] / medians["MAN-NARM"]
    print(f"  the mixture written out takes {ratio:.2f} times as long")


if __name__ == "__main__":
    main()
