"""`nextclick replay`: what a service does live is what `nextclick evaluate` does offline."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextclick import persistence
from nextclick.catalog import Item
from nextclick.cli import main
from nextclick.clicks import ClickLog
from nextclick.datasets.prepared import PreparedData
from nextclick.methods import create
from nextclick.runtime import Runtime

Make = Callable[[str], tuple[Path, Path]]

NETWORK: dict[str, Any] = {
    "encoder": {"embedding": 16, "hidden": 16},
    "training": {"epochs": 2, "batch": 64},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "man": {"neural": NETWORK, "gate": {"epochs": 3}, "memory": {"neighbours": 20}},
    "s-sknn": {},
    "popularity": {},
}


@pytest.fixture(scope="module")
def busy_shop() -> PreparedData:
    """Sessions of many visitors at a time, on items of which new ones come all the time."""
    random = np.random.default_rng(5)
    n, length = 400, 5
    begun = np.sort(random.uniform(0, 4_000, n))
    times = begun[:, None] + np.cumsum(random.uniform(1, 60, (n, length)), axis=1)
    items = np.arange(n)[:, None] // 8 + random.integers(0, 6, (n, length))
    order = np.argsort(times, axis=None)
    sessions = np.repeat(np.arange(n), length)
    log = ClickLog(sessions[order], items.ravel()[order], times.ravel()[order])
    numbers = np.unique(log.items, return_inverse=True)[1]
    items_ = [Item(f"item {number}") for number in range(numbers.max() + 1)]
    return PreparedData.cut(
        ClickLog(log.sessions, numbers, log.times), items_, validation=180, test=240
    )


@pytest.fixture(scope="module")
def make(busy_shop: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Train a method; return the model's directory, and the data's."""
    folder = tmp_path_factory.mktemp("replay")
    busy_shop.save(folder / "shop")

    def trained(method: str) -> tuple[Path, Path]:
        model = create(method, SETTINGS[method], Runtime(seed=2, threads=1))
        model.fit(busy_shop.train, validation=busy_shop.validation, catalog=busy_shop.catalog)
        persistence.save(model, folder / method)
        return folder / method, folder / "shop"

    return trained


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("method", ["man", "s-sknn"])
def test_live_figures_are_those_of_an_evaluation_to_the_last_digit(
    make: Make,
    serving: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    method: str,
) -> None:
    model, shop = make(method)
    settings = tmp_path / "serve.toml"
    # No group is closed by the clock, however busy the machine is.
    settings.write_text("[engine]\nflush_after = 3\nwrite_every = 10\n")
    arguments = [str(model), "--state", str(tmp_path / "state"), "--settings", str(settings)]
    with serving(tmp_path, *arguments) as running:
        live = said(capsys, "replay", str(shop), "--url", running.url)
    assert live["early_groups"] == 0
    assert live["tests"]["model"] > 500
    told = said(
        capsys, "evaluate", str(model), str(shop), "--write-every", str(live["write_every"])
    )
    assert told["tests"] == live["tests"]["model"]
    assert told["metrics"]["HR@20"] == live["HR@20"]["model"]
    assert told["metrics"]["MRR@20"] == live["MRR@20"]["model"]


def test_a_table_a_speed_and_the_command_that_compares(
    make: Make, serving: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, shop = make("popularity")
    log = PreparedData.load(shop).test
    speed = f"{float(log.times[39] - log.times[0]) / 1.5:g}x"
    with serving(tmp_path, str(model), "--state", str(tmp_path / "state")) as running:
        for limit in (90, 120):
            assert main(["replay", str(shop), "--url", running.url, "--limit", str(limit)]) == 0
            text = capsys.readouterr().out
            assert max(map(len, text.splitlines())) <= 80 or str(shop) in text
            assert "the model" in text
            assert f"clicks sent  {limit}" in text
            # The second time, sessions go on from the first: nothing offline is like that.
            assert ("nextclick evaluate MODEL" in text) == (limit == 90)
        arguments = ("replay", str(shop), "--url", running.url, "--limit", "40")
        told = said(capsys, *arguments, "--speed", speed)
    assert told["clicks"] == 40
    assert told["seconds"] >= 1.5


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--speed", "fast"], "--speed fast: write a factor, as in 100x, or max"),
        (["--url", "http://127.0.0.1:9"], "http://127.0.0.1:9: "),
        (["--url", "nonsense"], "nonsense: "),
        (["--limit", "0"], "--limit"),
    ],
)
def test_what_cannot_be_replayed_is_explained(
    make: Make, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    _, shop = make("popularity")
    assert main(["replay", str(shop), *arguments]) == 2
    assert reason in capsys.readouterr().err
