"""DIGINETICA's test part through a service: the figures of an evaluation, to the last digit."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(
    not os.environ.get("NEXTCLICK_SOAK"),
    reason="the first 20,000 clicks, and all of them, are for `make soak`; tests/serving has a few",
)

COMMAND = [sys.executable, "-m", "nextclick"]
START = 300
"""Seconds that a service may take to start."""


def nextclick(*arguments: object) -> str:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


@pytest.fixture(scope="module")
def trained(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """DIGINETICA, and MAN-NARM trained on it for two epochs: what they are."""
    folder = tmp_path_factory.mktemp("diginetica")
    data, model = folder / "data", folder / "model"
    nextclick("data", "prepare", shared_data / "diginetica", "--out", data)
    settings = ("--threads", 1, "--set", "neural.training.epochs=2")
    nextclick("train", data, "--method", "man", *settings, "--out", model)
    return data, model


@contextmanager
def service(model: Path, folder: Path) -> Iterator[str]:
    """Run a service that closes no group by the clock; hand out where it listens."""
    settings, log = folder / "serve.toml", folder / "serve.log"
    settings.write_text("[engine]\nflush_after = 5\n")
    arguments = ["serve", model, "--state", folder / "state", "--settings", settings]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments), "--port", "0", "--threads", "1"],
            stdout=out,
            stderr=out,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    try:
        until = time.monotonic() + START
        while not (found := re.search(r"listens at (\S+)", log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.2)
        while '"started"' not in log.read_text():
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.2)
        yield found[1]
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0, log.read_text()


@pytest.mark.parametrize("limit", [20_000, None])
def test_live_figures_are_those_of_an_evaluation(
    trained: tuple[Path, Path], tmp_path: Path, tell: Callable[..., None], limit: int | None
) -> None:
    data, model = trained
    some = () if limit is None else ("--limit", limit)
    with service(model, tmp_path) as url:
        live: Any = json.loads(nextclick("replay", data, "--url", url, *some, "--json"))
    assert live["early_groups"] == 0
    tests = live["tests"]["model"]
    how = ("--write-every", live["write_every"], "--limit", tests, "--threads", 1, "--json")
    offline: Any = json.loads(nextclick("evaluate", model, data, *how))
    metrics = offline["metrics"]
    tell(live=live, offline=metrics)
    assert offline["tests"] == tests
    assert metrics["HR@20"] == live["HR@20"]["model"]
    assert metrics["MRR@20"] == live["MRR@20"]["model"]
