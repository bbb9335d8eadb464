"""Measure the memory: time, bytes and recall of the clustered one against the exact one.

`python benchmarks/memory.py` makes keys; `--keys FILE.npz` takes real ones: arrays `keys`, `items`
and `sessions` of the entries in time order, `queries` to ask with and, to measure the memory's own
predictions too, `query_items`, the items clicked next.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextclick.memory import Memory, MemorySettings, Neighbours, make_memory
from nextclick.memory.kernel import nearest_weights, votes

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {"clusters": 256, "probes": 1, "codes": "PQ8", "rotate": False},
    "SQ8": {"codes": "SQ8"},
}


@dataclass
class Data:
    """Entries, and queries for them."""

    keys: NDArray[np.float32]
    items: NDArray[np.int64]
    sessions: NDArray[np.int64]
    queries: NDArray[np.float32]
    query_items: NDArray[np.int64] | None

    @classmethod
    def read(cls, path: Path, entries: int | None) -> Data:
        """Read real ones; entries are repeated, slightly moved, until there are enough."""
        with np.load(path) as file:
            columns = {name: file[name] for name in file.files}
        data = cls(*(columns.get(name) for name in cls.__dataclass_fields__))  # type: ignore[arg-type] # by name
        if entries is None:
            return data
        random = np.random.default_rng(0)
        chosen = np.arange(entries) % len(data.keys)
        keys = data.keys[chosen]
        moved = chosen != np.arange(entries)
        spread = 0.05 * keys.std(axis=0)
        keys[moved] += spread * random.standard_normal(keys[moved].shape, dtype=np.float32)
        return cls(
            keys, data.items[chosen], np.arange(entries) // 4, data.queries, data.query_items
        )

    @classmethod
    def make(cls, entries: int, dimension: int) -> Data:
        """Make keys around centres around centres, dimensions of falling weight."""
        random = np.random.default_rng(0)
        weight = np.exp(-np.arange(dimension) / (dimension / 4)).astype(np.float32)
        tastes = random.standard_normal((500, dimension), dtype=np.float32)
        intents = random.standard_normal((20_000, dimension), dtype=np.float32)

        def draw(n: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
            intent = random.integers(20_000, size=n)
            noise = random.standard_normal((n, dimension), dtype=np.float32)
            return (tastes[intent % 500] + 0.7 * intents[intent] + 0.4 * noise) * weight, intent

        keys, items = draw(entries)
        queries, query_items = draw(5_000)
        return cls(keys, items, np.arange(entries) // 4, queries, query_items)


def filled(data: Data, threads: int, **settings: Any) -> Memory:
    """Return a memory trained on a part of the entries and filled with all."""
    memory = make_memory(MemorySettings(**settings), data.keys.shape[1], threads)
    random = np.random.default_rng(0)
    memory.train(data.keys[random.permutation(len(data.keys))[:100_000]])
    for start in range(0, len(data.keys), 50_000):
        part = slice(start, start + 50_000)
        memory.add(data.keys[part], data.items[part], data.sessions[part])
    return memory


def median_ms(ask: Callable[[int], object], times: int) -> float:
    """Return the median time of a call, after a few that do not count."""
    for i in range(3):
        ask(i)
    taken = []
    for i in range(times):
        start = time.perf_counter()
        ask(i)
        taken.append(time.perf_counter() - start)
    return float(np.median(taken)) * 1e3


def search_all(memory: Memory, queries: NDArray[np.float32]) -> Neighbours:
    """Search for many queries, a hundred at a time."""
    parts = [memory.search(queries[i : i + 100]) for i in range(0, len(queries), 100)]
    return Neighbours(
        np.concatenate([part.distances for part in parts]),
        np.concatenate([part.items for part in parts]),
        np.concatenate([part.sessions for part in parts]),
        np.concatenate([part.ages for part in parts]),
    )


def recall(found: Neighbours, true: Neighbours) -> float:
    """Return the share of the true neighbours found; the sessions are to tell entries apart."""
    both = zip(found.sessions, true.sessions, strict=True)
    shares = [len(np.intersect1d(f[f >= 0], t)) / len(t) for f, t in both]
    return float(np.mean(shares))


def hit_rate(found: Neighbours, items: NDArray[np.int64], k: int = 20) -> float:
    """Return how often the memory's own prediction names the next item."""
    answer = votes(found, nearest_weights(found))
    best = np.argsort(-answer.probabilities, axis=1, kind="stable")[:, :k]
    named = np.take_along_axis(answer.items, best, axis=1)
    return float((named == items[:, None]).any(axis=1).mean())


def measure(name: str, data: Data, threads: int, exact: Memory, true: Neighbours) -> None:
    """Print one line about a variant, and its time against the exact memory's."""
    memory = filled(data, threads, **VARIANTS[name])
    n, queries = len(true.items), data.queries
    found = search_all(memory, queries[:n])
    ms = median_ms(lambda i: memory.search(queries[i : i + 1]), 300)
    exact_ms = median_ms(lambda i: exact.search(queries[i : i + 1]), 10)
    kernel_ms = median_ms(lambda i: predict(memory.search(queries[i : i + 1])), 300) - ms
    # Every item takes four bytes, which are not counted; clusters and code words are, here.
    bytes_ = memory.nbytes / len(memory) - 4
    line = (
        f"{name:8s} {ms:.3f} ms a query (exact {exact_ms:.2f} ms: {exact_ms / ms:.0f} times), "
        f"votes {kernel_ms:.3f} ms, {bytes_:.1f} bytes an entry, "
        f"recall@100 {recall(found, true):.3f}"
    )
    if data.query_items is not None:
        items = data.query_items[:n]
        line += f", HR@20 {hit_rate(found, items):.4f} (exact {hit_rate(true, items):.4f})"
    print(line, flush=True)


def predict(found: Neighbours) -> object:
    """Return the memory's prediction."""
    return votes(found, nearest_weights(found))


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=Path, help="an .npz file of real keys")
    parser.add_argument("--entries", type=int, help="how many entries (made keys: 1,000,000)")
    parser.add_argument("--dimension", type=int, default=200, help="of made keys")
    parser.add_argument("--queries", type=int, default=1_000, help="to measure recall with")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--variant", choices=VARIANTS, action="append")
    options = parser.parse_args()
    if options.keys:
        data = Data.read(options.keys, options.entries)
    else:
        data = Data.make(options.entries or 1_000_000, options.dimension)
    # Each entry in a session of its own: what was found can be told from what was not.
    data.sessions = np.arange(len(data.keys))
    exact = filled(data, options.threads, kind="exact")
    true = search_all(exact, data.queries[: options.queries])
    print(f"{len(exact):,} entries of dimension {data.keys.shape[1]}, {options.threads} thread(s)")
    for name in options.variant or VARIANTS:
        measure(name, data, options.threads, exact, true)


if __name__ == "__main__":
    main()
