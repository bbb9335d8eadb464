"""A full disk: clicks are refused, recommendations go on, and it recovers by itself."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from nextclick.errors import NoSpaceError
from nextclick.recommender import Recommender
from nextclick.serving.engine import Engine
from nextclick.serving.messages import NewClick
from nextclick.serving.settings import EngineSettings
from nextclick.serving.snapshots import Contents

SIZE = 4 * 2**20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small file system can be mounted only by root")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path) -> Path:
    """Take all the space there is."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65_536, 4_096, 512):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return filler


@pytest.mark.parametrize("name", ["man", "popularity"])
def test_a_full_disk(
    name: str, zygote: Any, saved: Callable[[str], Path], disk: Path, tmp_path: Path, tell: Any
) -> None:
    settings = tmp_path / "serve.toml"
    settings.write_text("[engine]\nwrite_every = 5\nsnapshot_clicks = 100\n")
    arguments = [str(saved(name)), "--state", str(disk / "state"), "--settings", str(settings)]
    service = zygote.serve(*arguments)
    service.wait_until_ready()
    kept: list[str] = []
    refused: list[str] = []
    with httpx.Client(base_url=service.url, timeout=30) as http:

        def click(number: int) -> int:
            event = f"e{number}"
            body = {"item_id": f"item {number % 40}", "event_id": event}
            answer = http.post(f"/v1/sessions/s{number // 5}/clicks", json=body)
            (kept if answer.status_code == 200 else refused).append(event)
            if answer.status_code != 200:
                assert answer.status_code == 507, answer.text
                assert answer.json()["error"]["code"] == "disk_full"
                assert answer.headers["retry-after"] == "10"
            return answer.status_code

        assert {click(number) for number in range(30)} == {200}
        filler = fill(disk)
        number, in_a_row = 30, 0
        while in_a_row < 20:  # SQLite has some space in its files yet, and finds some again
            number += 1
            assert number < 5_000
            in_a_row = in_a_row + 1 if click(number) == 507 else 0
        for _ in range(5):
            answer = http.get("/v1/sessions/s1/recommendations?explain=true")
            assert len(answer.json()["items"]) == 20
        assert http.put("/v1/items/x", json={}).status_code == 507
        snapshot = http.post("/v1/admin/snapshot")
        assert (snapshot.status_code, snapshot.json()["error"]["code"]) == (507, "disk_full")
        model = http.post("/v1/admin/model", json={"path": str(saved(name))})
        assert model.status_code == 507
        assert http.get("/health/ready").status_code == 200

        filler.unlink()
        freed = time.monotonic()
        number += 1
        assert click(number) == 200  # at once, by itself
        seconds = time.monotonic() - freed
        for _ in range(300):
            number += 1
            assert click(number) == 200
        assert http.post("/v1/admin/snapshot").status_code == 200
    service.kill()
    connection = sqlite3.connect(disk / "state" / "clicks.db")
    rows = connection.execute("SELECT event_id FROM records WHERE kind = 'click' ORDER BY number")
    assert [event for (event,) in rows] == kept
    connection.close()
    again = zygote.serve(*arguments)
    again.wait_until_ready()
    again.stop()
    tell(model=name, kept=len(kept), refused=len(refused), seconds_to_recover=round(seconds, 3))


def test_starting_on_a_full_disk(zygote: Any, saved: Callable[[str], Path], disk: Path) -> None:
    """After a crash it starts and recommends; after an orderly stop it says what is missing."""
    arguments = [str(saved("popularity")), "--state", str(disk / "state")]
    service = zygote.serve(*arguments)
    service.wait_until_ready()
    clicks = [{"session_id": "a", "item_id": f"item {n}"} for n in range(10)]
    assert httpx.post(f"{service.url}/v1/clicks", json=clicks).json()["accepted"] == 10
    service.kill()
    filler = fill(disk)
    full = zygote.serve(*arguments)
    full.wait_until_ready()
    assert len(httpx.get(f"{full.url}/v1/sessions/a").json()["clicks"]) == 10
    assert httpx.get(f"{full.url}/v1/sessions/a/recommendations").status_code == 200
    filler.unlink()
    full.stop()
    filler = fill(disk)
    refused = zygote.serve(*arguments)
    assert zygote.wait(refused.process) == 2, zygote.log.read_text()
    assert "no space left" in zygote.log.read_text()
    filler.unlink()
    again = zygote.serve(*arguments)
    again.wait_until_ready()
    assert len(httpx.get(f"{again.url}/v1/sessions/a").json()["clicks"]) == 10
    again.stop()


def test_a_snapshot_leaves_the_space_that_clicks_need(
    tiny: Callable[[str], Recommender], disk: Path
) -> None:
    """One that would take all there is but a little is not begun."""
    settings = EngineSettings(snapshot_clicks=None, snapshot_seconds=None)
    with Engine.open(disk / "state", settings, model=tiny("man")) as engine:
        engine.click([NewClick("anna", "item 3"), NewClick("anna", "item 4")]).result()
        engine.flush()
        needed = Contents.of(engine._learner.learning, ()).nbytes
        filler = fill(disk)
        os.truncate(filler, filler.stat().st_size - needed - needed // 16)
        free = shutil.disk_usage(disk).free
        assert needed < free < needed + needed // 8
        with pytest.raises(NoSpaceError, match="are needed"):
            engine.snapshot().result()
        assert shutil.disk_usage(disk).free == free
        engine.click([NewClick("anna", f"item {n % 40}") for n in range(200)]).result()
        filler.unlink()
        assert engine.snapshot().result().is_dir()
