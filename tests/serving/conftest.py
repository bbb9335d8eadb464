"""Real services on real ports."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest

from nextclick import persistence
from nextclick.datasets.prepared import PreparedData
from nextclick.recommender import Recommender

START = 180
"""Seconds that a service may take to start: the machine may be busy."""


class Running:
    """A service in a process of its own.

    Parameters
    ----------
    process
        The process.
    url
        Where it listens.
    log
        The file with what it wrote.
    """

    def __init__(self, process: subprocess.Popen[bytes], url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self.port = int(url.rpartition(":")[2])
        self._log = log
        self.http = httpx.Client(base_url=url, timeout=30)

    @property
    def text(self) -> str:
        return self._log.read_text()

    @property
    def resident(self) -> int:
        """Its resident memory in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+)", status)
        assert match
        return 1024 * int(match[1])

    def wait_until_ready(self) -> None:
        until = time.monotonic() + START
        while time.monotonic() < until:
            assert self.process.poll() is None, self.text
            if self.http.get("/health/ready").status_code == 200:
                return
            time.sleep(0.05)
        raise AssertionError(self.text)

    def stop(self) -> int:
        """Ask it to stop, and return its exit code."""
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


def _launch(tmp_path: Path, *arguments: str, ready: bool = True) -> Running:
    """Start ``nextclick serve`` on a free port."""
    log = tmp_path / f"serve-{time.monotonic_ns()}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "nextclick",
                "serve",
                "--port",
                "0",
                "--threads",
                "1",
                *arguments,
            ],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
        )
    until = time.monotonic() + START
    while time.monotonic() < until:
        match = re.search(r"listens at (\S+)", log.read_text())
        if match:
            running = Running(process, match[1], log)
            if ready:
                running.wait_until_ready()
            return running
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    process.kill()
    raise AssertionError(log.read_text())


@contextmanager
def _serving(tmp_path: Path, *arguments: str) -> Iterator[Running]:
    running = _launch(tmp_path, *arguments)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            assert running.stop() == 0, running.text
    assert "defect" not in running.text, running.text


@pytest.fixture(scope="session")
def serving() -> Callable[..., AbstractContextManager[Running]]:
    """Run a service: ``with serving(tmp_path, "model", "--state", "state") as running``."""
    return _serving


@pytest.fixture(scope="session")
def launch() -> Callable[..., Running]:
    """Start a service, which the caller stops."""
    return _launch


@pytest.fixture(scope="session")
def man_model(tiny: Callable[[str], Recommender], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small MAN on disk."""
    path = tmp_path_factory.mktemp("models") / "man"
    persistence.save(tiny("man"), path)
    return path


@pytest.fixture(scope="session")
def popularity_model(
    tiny: Callable[[str], Recommender], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """What is popular, on disk: it starts quickly."""
    path = tmp_path_factory.mktemp("models") / "popularity"
    persistence.save(tiny("popularity"), path)
    return path


@pytest.fixture(scope="session")
def tiny_shop(tiny_data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny data on disk."""
    path = tmp_path_factory.mktemp("data") / "tiny"
    tiny_data.save(path)
    return path


@pytest.fixture(scope="session")
def service(man_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One service for all tests that only ask."""
    folder = tmp_path_factory.mktemp("service")
    with _serving(folder, str(man_model), "--state", str(folder / "state")) as running:
        yield running
