"""Sizes of the tests, figures of what they found, and services that start quickly."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest

from nextclick import persistence
from nextclick.recommender import Recommender

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for `digests`, which the zygote imports too

collect_ignore = ["digests.py", "disk.py", "power.py", "zygote.py"]
"""What the tests run as processes of their own; to import it here is to run it."""

START = 120
"""Seconds that a service may take to start: the machine may be busy."""


@pytest.fixture(scope="session")
def amount() -> Callable[[str, float, float], float]:
    """How much of something: ``amount("kills", 20, 1_000)`` in CI and in the soak.

    `NEXTCLICK_KILLS` says otherwise, `make soak` sets `NEXTCLICK_SOAK`.
    """

    def choose(name: str, small: float, full: float) -> float:
        given = os.environ.get(f"NEXTCLICK_{name.upper()}")
        return float(given) if given else full if os.environ.get("NEXTCLICK_SOAK") else small

    return choose


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Tell figures: they go to the file that `NEXTCLICK_FIGURES` names, a line of JSON each."""

    def write(**figures: Any) -> None:
        line = json.dumps({"test": request.node.name, "time": round(time.time())} | figures)
        sys.stdout.write(line + "\n")
        file = os.environ.get("NEXTCLICK_FIGURES")
        if file:
            with Path(file).open("a") as lines:
                lines.write(line + "\n")

    return write


@pytest.fixture
def fast_disk() -> Iterator[Path]:
    """A directory in memory, where there is one: what is written there is lost anyway."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


class Zygote:
    """Starts services without importing everything again."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "serve.log"
        with (folder / "zygote.log").open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / "zygote.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
            )

    def _ask(self, **command: Any) -> int:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def warm_up(self, model: Path) -> None:
        """Let what this model needs be compiled once for all services."""
        assert self._ask(warm=str(model)) == 1

    def serve(self, *arguments: str) -> Service:
        port = _free_port()
        self.log.write_bytes(b"")
        common = ["--threads", "1", "--port", str(port)]
        process = self._ask(serve=[*common, *arguments], log=str(self.log))
        return Service(self, process, port)

    def digest(self, state: Path, to: Path) -> dict[str, Any]:
        assert self.wait(self._ask(digest=str(state), to=str(to))) == 0
        found: dict[str, Any] = json.loads(to.read_text())
        return found

    def wait(self, process: int) -> int:
        return self._ask(wait=process)

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(30)
        assert self._process.stdout
        self._process.stdout.close()


class Service:
    """A service that was forked."""

    def __init__(self, zygote: Zygote, process: int, port: int) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self.port = port
        self._zygote = zygote

    def wait_until_ready(self) -> None:
        until = time.monotonic() + START
        with httpx.Client(base_url=self.url) as http:
            while time.monotonic() < until:
                try:
                    if http.get("/health/ready").status_code == 200:
                        return
                except httpx.TransportError:
                    assert Path(f"/proc/{self.process}").exists()
                time.sleep(0.02)
        raise AssertionError(self._zygote.log.read_text())

    @property
    def resident(self) -> int:
        """Its resident memory in bytes."""
        pages = int(Path(f"/proc/{self.process}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def kill(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        assert self._zygote.wait(self.process) == -signal.SIGKILL, self._zygote.log.read_text()

    def stop(self) -> None:
        os.kill(self.process, signal.SIGTERM)
        assert self._zygote.wait(self.process) == 0, self._zygote.log.read_text()


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    zygote = Zygote(tmp_path_factory.mktemp("zygote"))
    yield zygote
    zygote.close()


@pytest.fixture(scope="session")
def saved(
    tiny: Callable[[str], Recommender], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Write a tiny model to disk, and return its directory."""
    folder = tmp_path_factory.mktemp("models")

    def save(name: str) -> Path:
        if not (folder / name).exists():
            persistence.save(tiny(name), folder / name)
        return folder / name

    return save
