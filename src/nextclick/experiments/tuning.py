"""Choosing the settings of a row on the validation part alone, prequentially, with optuna."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Self

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from pydantic import model_validator

from nextclick import __version__
from nextclick.datasets.prepared import PreparedData
from nextclick.errors import BadInputError
from nextclick.evaluation.metrics import Metrics
from nextclick.experiments.cells import Cell
from nextclick.experiments.computing import compute, train
from nextclick.experiments.rows import RowSettings, row_settings
from nextclick.experiments.store import Store
from nextclick.methods import merged, validated
from nextclick.runtime import Runtime
from nextclick.settings import Settings

JUDGED_BY = "HR@5"
"""What the paper tunes by."""

Value = float | int | str


class Dimension(Settings):
    """What one setting is searched in.

    Parameters
    ----------
    low, high
        The ends of a range: of whole numbers, if both are.
    log
        Whether the logarithm is drawn evenly.
    choices
        The values, if it is no range.
    """

    low: int | float | None = None
    high: int | float | None = None
    log: bool = False
    choices: tuple[Value, ...] | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.choices is None) == (self.low is None or self.high is None):
            raise ValueError("give a low and a high end, or choices")
        return self

    def suggest(self, trial: optuna.Trial, name: str) -> Value:
        """Let a trial draw a value."""
        if self.choices is not None:
            chosen = trial.suggest_categorical(name, self.choices)
            assert chosen is not None
            return chosen
        low, high = self.low, self.high
        assert low is not None
        assert high is not None
        if isinstance(low, int) and isinstance(high, int):
            return trial.suggest_int(name, low, high, log=self.log)
        return trial.suggest_float(name, low, high, log=self.log)

    def holds(self, value: object) -> bool:
        """Whether a value can be drawn."""
        if self.choices is not None:
            return value in self.choices
        if self.low is None or self.high is None or not isinstance(value, int | float):
            return False
        return self.low <= value <= self.high


@dataclass(frozen=True, eq=False)
class Tuned:
    """What a study found.

    Parameters
    ----------
    row
        The row's settings, with those that were found and a summary of the study.
    before
        The metrics of the settings that the row had.
    after
        The metrics of those that were found.
    """

    row: RowSettings
    before: Metrics
    after: Metrics


def search_space(row: str) -> dict[str, Dimension]:
    """Return what the settings of a row are searched in.

    Examples
    --------
    >>> search_space("s-sknn")["emphasis"].high
    5.0
    """
    file = resources.files("nextclick.experiments") / "search.toml"
    spaces = tomllib.loads(file.read_text(encoding="utf-8"))
    if row not in spaces:
        raise BadInputError(
            f"there is nothing to search for {row}; there is for: {', '.join(spaces)}"
        )
    return {
        name: validated(Dimension, dimension, source=f"search.toml: {row}.{name}")  # type: ignore[misc] # of this type
        for name, dimension in spaces[row].items()
    }


def tune(
    data_set: str,
    row: str,
    data: PreparedData,
    *,
    trials: int,
    study_file: Path,
    store: Store,
    runtime: Runtime,
    limit: int | None = None,
    tell: Callable[[int, Mapping[str, Value], float], None] | None = None,
) -> Tuned:
    """Search the settings of a row on the validation part, and return the best.

    The first trial is what the row has already. A study that is on file goes on; one with enough
    trials is done at once.

    Parameters
    ----------
    data_set, row
        Which file of settings to improve on.
    data
        All of the data; the test part is not looked at.
    trials
        How many trials the study is to have.
    study_file
        Where the study is kept.
    store
        Where trained networks and the trials' results are kept.
    runtime
        Seed, threads, device and progress.
    limit
        How many transitions of the validation part are tested.
    tell
        Called after each trial.
    """
    space = search_space(row)
    tuning = data.for_tuning()
    fingerprint = store.keep_data(tuning)
    start = row_settings(data_set, row)

    def cell(values: Mapping[str, Any]) -> Cell:
        settings = merged(start.complete(), _nested(values))
        return Cell.of(start.method, settings, seed=runtime.seed, limit=limit)

    def metrics(values: Mapping[str, Any]) -> Metrics:
        asked = cell(values)
        key, network = asked.key(fingerprint), asked.network
        if not store.has_result(key):
            if network and not store.has_network(network.key(fingerprint)):
                train(network, tuning, store, runtime)
            compute(asked, tuning, store, runtime)
        return store.result(key).evaluation.metrics()

    study = _open(study_file, f"{data_set} {row} {fingerprint[:12]} {limit}", runtime.seed)
    begun = _values(cell({}).settings, space)
    if not study.trials and len(begun) == len(space):
        study.enqueue_trial(begun)
    while len(_complete(study)) < trials:
        trial = study.ask()
        drawn = {name: dimension.suggest(trial, name) for name, dimension in space.items()}
        value = metrics(drawn)[JUDGED_BY]
        study.tell(trial, value)
        if tell:
            tell(len(_complete(study)), drawn, value)
    before, after = metrics({}), metrics(study.best_params)
    n_tests = len(tuning.test.transitions()[:limit])
    found = study.best_params if after[JUDGED_BY] > before[JUDGED_BY] else {}
    return Tuned(
        RowSettings(
            method=start.method,
            recipe=start.recipe,
            settings=merged(start.settings, _nested(found)),
            chosen=f"nextclick tune {data_set} {row} --trials {trials}, on the validation part",
            study={
                "judged_by": JUDGED_BY,
                "trials": len(_complete(study)),
                "tests": n_tests,
                "seed": runtime.seed,
                "nextclick": __version__,
                "before": _rounded(before),
                "after": _rounded(max(before, after, key=lambda one: one[JUDGED_BY])),
            },
        ),
        before,
        after,
    )


def to_toml(values: Mapping[str, Any], above: str = "") -> str:
    r"""Return settings as TOML: plain values first, then a table for each that is nested.

    Examples
    --------
    >>> print(to_toml({"method": "sknn", "settings": {"k": 5, "age": None}}), end="")
    method = "sknn"
    <BLANKLINE>
    [settings]
    k = 5
    age = "none"
    """
    tables = {name: value for name, value in values.items() if isinstance(value, Mapping)}
    lines = [f"{_key(n)} = {_value(v)}\n" for n, v in values.items() if n not in tables]
    text = "".join(lines)
    for name, table in tables.items():
        path = f"{above}{_key(name)}"
        inner = to_toml(table, f"{path}.")
        plain = any(not isinstance(value, Mapping) for value in table.values())
        text += f"\n[{path}]\n{inner}" if plain else inner
    return text


def _open(file: Path, name: str, seed: int) -> optuna.Study:
    """Open a study, or begin it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        storage = JournalStorage(JournalFileBackend(str(file)))
        study = optuna.create_study(
            storage=storage, study_name=name, direction="maximize", load_if_exists=True
        )
        # A study that goes on must not draw again what it drew when it began.
        study.sampler = optuna.samplers.TPESampler(seed=seed + len(study.trials))
    except (ValueError, KeyError, TypeError) as error:
        raise BadInputError(f"{file}: not a study, or a damaged one ({error})") from None
    return study


def _complete(study: optuna.Study) -> list[Any]:
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings whose names hold dots as tables.

    Examples
    --------
    >>> _nested({"a.b": 1, "a.c": 2, "d": 3})
    {'a': {'b': 1, 'c': 2}, 'd': 3}
    """
    nested: dict[str, Any] = {}
    for path, value in values.items():
        *tables, key = path.split(".")
        table = nested
        for name in tables:
            table = table.setdefault(name, {})
        table[key] = value
    return nested


def _values(settings: Mapping[str, Any], space: Mapping[str, Dimension]) -> dict[str, Any]:
    """Return what settings have of what is searched, as far as it can be drawn."""
    values = {}
    for path, dimension in space.items():
        value: Any = settings
        for name in path.split("."):
            value = value[name]
        if dimension.holds(value):
            values[path] = value
    return values


def _rounded(metrics: Metrics) -> dict[str, float]:
    return {name: round(value, 4) for name, value in metrics.items()}


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else f'"{name}"'


def _value(value: Any) -> str:
    if value is None:
        return '"none"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)
