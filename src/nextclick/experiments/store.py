"""Where results and trained networks are kept, so that nothing is computed twice."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from nextclick import persistence
from nextclick.datasets.prepared import PreparedData
from nextclick.encoders.recommender import NeuralRecommender
from nextclick.errors import BadInputError
from nextclick.evaluation.prequential import Evaluation
from nextclick.files import MANIFEST, check_directory, new_directory, new_file
from nextclick.recommender import Recommender
from nextclick.runtime import Runtime

RESULT = "result"
NETWORK = "trained network"
VERSION = 1

FACTS = "facts.json"
TESTS = "tests.npz"
MODEL = "model"
BY_PART = "by_part/"


def default_store() -> Path:
    """Return the folder that results are kept in unless another one is named."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "nextclick" / "paper"


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a cell.

    Parameters
    ----------
    evaluation
        Every test.
    facts
        The cell, the seconds that each stage took, the versions and the machine.
    """

    evaluation: Evaluation
    facts: dict[str, Any]


@dataclass(frozen=True)
class Store:
    """A folder of prepared data, trained networks and results, each whole or absent.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Store(Path(folder)).has_result("0123")
    False
    """

    root: Path

    # Data

    def data(self, fingerprint: str) -> Path:
        """Return the folder of prepared data."""
        return self.root / "data" / fingerprint[:24]

    def keep_data(self, data: PreparedData) -> str:
        """Keep prepared data, and return its fingerprint."""
        fingerprint = data.fingerprint
        if not (self.data(fingerprint) / MANIFEST).exists():
            data.save(self.data(fingerprint))
        return fingerprint

    # Networks

    def checkpoint(self, key: str) -> Path:
        """Return the file that a training leaves its last finished epoch in."""
        return self.root / "networks" / f"{key}.checkpoint"

    def has_network(self, key: str) -> bool:
        """Whether a network is there."""
        return (self._network(key) / MANIFEST).exists()

    def keep_network(self, key: str, model: NeuralRecommender, facts: dict[str, Any]) -> None:
        """Keep a trained network, and forget the checkpoint of its training."""
        with new_directory(self._network(key), NETWORK, VERSION) as folder:
            persistence.save(model, folder / MODEL)
            (folder / FACTS).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        self.checkpoint(key).unlink(missing_ok=True)

    def network(self, key: str, runtime: Runtime) -> Recommender:
        """Return a network as training left it."""
        check_directory(self._network(key), NETWORK, VERSION)
        return persistence.load(self._network(key) / MODEL, runtime)

    def network_facts(self, key: str) -> dict[str, Any]:
        """Return what was written down about a training."""
        return _facts(self._network(key))

    def _network(self, key: str) -> Path:
        return self.root / "networks" / key

    # Results

    def has_result(self, key: str) -> bool:
        """Whether a result is there."""
        return (self._result(key) / MANIFEST).exists()

    def keep_result(self, key: str, outcome: Outcome) -> None:
        """Keep a result."""
        with new_directory(self._result(key), RESULT, VERSION) as folder:
            with (folder / TESTS).open("wb") as file:
                np.savez_compressed(file, **_arrays(outcome.evaluation))
            (folder / FACTS).write_text(
                json.dumps(outcome.facts, indent=1) + "\n", encoding="utf-8"
            )

    def result(self, key: str) -> Outcome:
        """Return a result."""
        folder = self._result(key)
        check_directory(folder, RESULT, VERSION)
        with np.load(folder / TESTS, allow_pickle=False) as arrays:
            evaluation = _evaluation(dict(arrays))
        return Outcome(evaluation, _facts(folder))

    def _result(self, key: str) -> Path:
        return self.root / "results" / key

    # Comparisons of results

    def comparison(self, key: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return what compares some results; it is made once, and kept."""
        file = self.root / "comparisons" / f"{key}.json"
        try:
            kept: dict[str, Any] = json.loads(file.read_bytes())
        except (OSError, ValueError):
            kept = make()
            with new_file(file) as aside:
                aside.write_text(json.dumps(kept) + "\n", encoding="utf-8")
        return kept


def _facts(folder: Path) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = json.loads((folder / FACTS).read_bytes())
    except (OSError, ValueError):
        raise BadInputError(
            f"{folder / FACTS}: missing or damaged; remove {folder} to have it computed again"
        ) from None
    return facts


def _arrays(evaluation: Evaluation) -> dict[str, Any]:
    arrays = {
        field.name: getattr(evaluation, field.name)
        for field in fields(Evaluation)
        if field.name != "by_part" and getattr(evaluation, field.name) is not None
    }
    return arrays | {f"{BY_PART}{part}": ranks for part, ranks in evaluation.by_part.items()}


def _evaluation(arrays: dict[str, Any]) -> Evaluation:
    by_part = {
        name.removeprefix(BY_PART): arrays.pop(name)
        for name in list(arrays)
        if name.startswith(BY_PART)
    }
    k, batch = int(arrays.pop("k")), int(arrays.pop("batch"))
    arrays.setdefault("frequencies", None)
    return Evaluation(**arrays, k=k, batch=batch, by_part=by_part)
