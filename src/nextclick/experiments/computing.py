"""Computing a cell: take the trained network, build the method around it, evaluate, keep."""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from time import perf_counter, process_time
from typing import Any

import numpy as np

from nextclick import methods
from nextclick.clicks import ClickLog, Contexts, Transitions
from nextclick.datasets.prepared import PreparedData
from nextclick.encoders.recommender import NeuralRecommender, NeuralSettings
from nextclick.errors import BadInputError
from nextclick.evaluation.prequential import Evaluation, evaluate
from nextclick.experiments.cells import Cell, Network
from nextclick.experiments.runs import versions
from nextclick.experiments.store import Outcome, Store
from nextclick.memory_augmented import MemoryAugmented
from nextclick.recommender import Recommender
from nextclick.runtime import Runtime

ASKED_ALONE = 100
"""How many contexts are asked one by one, to measure how long an answer takes."""


def train(network: Network, data: PreparedData, store: Store, runtime: Runtime) -> None:
    """Train a network, or go on with a training that was interrupted, and keep it."""
    key = network.key(data.fingerprint)
    runtime = replace(runtime, seed=network.seed, checkpoint=store.checkpoint(key))
    settings = {"encoder": network.encoder, "training": network.training}
    began_before = store.checkpoint(key).exists()
    started, used = perf_counter(), process_time()
    model = NeuralRecommender(NeuralSettings.model_validate(settings), runtime)
    model.fit(data.train, validation=data.validation, catalog=data.catalog, absorb=False)
    facts = {
        "network": network.model_dump(mode="json"),
        "seconds": perf_counter() - started,
        "processor_seconds": process_time() - used,
        "resumed": began_before,
        **_circumstances(runtime),
    }
    store.keep_network(key, model, facts)


def compute(cell: Cell, data: PreparedData, store: Store, runtime: Runtime) -> None:
    """Evaluate a cell, whose network is there if it needs one, and keep what came of it."""
    runtime = replace(runtime, seed=cell.seed)
    started, used = perf_counter(), process_time()
    model = build(cell, data, store, runtime)
    built = perf_counter()
    evaluation = _evaluated(cell, model, data)
    done = perf_counter()
    facts = {
        "cell": cell.model_dump(mode="json"),
        "label": model.label,
        "seconds": {"building": built - started, "evaluation": done - built},
        "processor_seconds": process_time() - used,
        "answer_seconds": answer_seconds(model, data.test.transitions().contexts),
        **_circumstances(runtime),
    }
    store.keep_result(cell.key(data.fingerprint), Outcome(evaluation, facts))


def build(cell: Cell, data: PreparedData, store: Store, runtime: Runtime) -> Recommender:
    """Return the method as it is before the first test."""
    absorb = cell.absorb and cell.on == "test"
    model = methods.create(cell.method, cell.settings, runtime)
    network = cell.network
    if network is not None:
        trained = store.network(network.key(data.fingerprint), runtime)
        online = NeuralSettings.model_validate(cell.settings.get("neural", cell.settings))
        neural = NeuralRecommender(online, runtime).restore(trained.catalog, trained.state())
        if isinstance(model, NeuralRecommender):
            if absorb:
                neural.absorb(data.validation)
            return neural
        model = type(model).around(neural, model.settings)  # type: ignore[attr-defined] # of all with a network
    return model.fit(data.train, validation=data.validation, catalog=data.catalog, absorb=absorb)


def answer_seconds(model: Recommender, contexts: Contexts) -> float:
    """Return the mean time of a recommendation that is asked for alone."""
    asked = np.linspace(0, len(contexts) - 1, ASKED_ALONE).astype(np.int64)
    alone = [contexts[number : number + 1] for number in asked]
    model.recommend(alone[0])
    started = perf_counter()
    for context in alone:
        model.recommend(context)
    return (perf_counter() - started) / len(alone)


def _evaluated(cell: Cell, model: Recommender, data: PreparedData) -> Evaluation:
    tested = data.parts["train" if cell.on == "training" else cell.on].transitions()
    if cell.on == "training":
        tested = tested[-(cell.limit or len(tested)) :]
    return evaluate(
        model,
        tested,
        training=data.train,
        parts=() if cell.on == "training" else cell.parts,
        limit=cell.limit,
        by_part="gate" in model.parts,
        after=_renewal(cell, model, data, tested) if cell.renew else None,
    )


def _renewal(cell: Cell, model: Recommender, data: PreparedData, tested: Transitions) -> Any:
    """Return what encodes all keys of the memory anew, every so many tests."""
    if not isinstance(model, MemoryAugmented):
        raise BadInputError(f"{model.label} has no keys to encode anew")
    before = data.validation
    if model.settings.remember == "all":
        before = _one_after_the_other(data.train, data.validation)
    stream = _one_after_the_other(before, data.test).transitions()
    n_before = len(stream) - len(tested)
    every = cell.renew or 1

    def renew(ranks: Any) -> None:
        now, previous = len(ranks), max(0, len(ranks) - 100)
        if now // every > previous // every:
            model.encode_anew(stream[: n_before + now])

    return renew


def _one_after_the_other(first: ClickLog, second: ClickLog) -> ClickLog:
    """Return two parts of the data as one, as they were learned: the first wholly before."""
    return ClickLog(
        np.concatenate([first.sessions, second.sessions]),
        np.concatenate([first.items, second.items]),
        np.concatenate([first.times, second.times]),
    )


def _circumstances(runtime: Runtime) -> dict[str, Any]:
    return {
        "seed": runtime.seed,
        "threads": runtime.threads,
        "versions": versions(),
        "system": f"{platform.system()}, {platform.machine()}, {os.cpu_count()} cores",
    }
