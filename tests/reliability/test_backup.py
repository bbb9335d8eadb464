"""A backup of a running service, made and restored as the operator's guide says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "operating.md"


def commands() -> list[str]:
    """Return the guide's commands for a backup, a line each."""
    section = GUIDE.read_text().partition("## Backups")[2]
    block = re.search(r"```\n(.*?)```", section, re.DOTALL)
    assert block
    return block[1].splitlines()


class Visitors:
    """Visitors who click without end, and note what was acknowledged."""

    def __init__(self, url: str, key: str) -> None:
        self.kept: list[tuple[str, str]] = []
        self._done = threading.Event()
        self._threads = [
            threading.Thread(target=self._visit, args=(url, key, f"v{n}")) for n in range(3)
        ]
        for thread in self._threads:
            thread.start()

    def _visit(self, url: str, key: str, name: str) -> None:
        headers = {"authorization": f"Bearer {key}"}
        with httpx.Client(base_url=url, headers=headers, timeout=60) as http:
            n = 0
            while not self._done.is_set():
                n += 1
                body = {"item_id": f"item {n * 7 % 40}", "event_id": str(n)}
                assert http.post(f"/v1/sessions/{name}/clicks", json=body).status_code == 200
                self.kept.append((name, str(n)))

    def wait_for(self, clicks: int) -> None:
        until = len(self.kept) + clicks
        while len(self.kept) < until:
            assert all(thread.is_alive() for thread in self._threads)
            self._done.wait(0.01)

    def leave(self) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.skipif(
    shutil.which("sqlite3") is None or shutil.which("curl") is None,
    reason="the guide's commands need curl and sqlite3",
)
def test_a_backup_while_it_runs(
    zygote: Any, saved: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from nextclick.cli import main

    state, backup = tmp_path / "state", tmp_path / "backup"
    scopes = [part for scope in ("read", "write", "admin") for part in ("--scope", scope)]
    assert main(["keys", "add", "all", "--state", str(state), *scopes]) == 0
    key = capsys.readouterr().out.strip()
    service = zygote.serve(str(saved("man")), "--state", str(state))
    service.wait_until_ready()
    visitors = Visitors(service.url, key)
    try:
        visitors.wait_for(60)
        before = list(visitors.kept)
        for command in commands():
            shell(command.replace("http://127.0.0.1:8000", service.url), tmp_path, key)
            visitors.wait_for(10)
            path = str(saved("s-sknn" if "snapshots" in command else "man"))
            admin(service.url, key, "model", {"path": path})  # another one at any time
            admin(service.url, key, "snapshot", {})
        visitors.wait_for(10)
    finally:
        visitors.leave()
    service.stop()
    shutil.rmtree(state)
    assert not list(backup.glob("clicks.db-*"))

    restored = tmp_path / "elsewhere"
    backup.rename(restored)
    again = zygote.serve("--state", str(restored))
    again.wait_until_ready()
    headers = {"authorization": f"Bearer {key}"}
    with httpx.Client(base_url=again.url, headers=headers, timeout=60) as http:
        there = {
            (name, click["event_id"])
            for name in ("v0", "v1", "v2")
            for click in http.get(f"/v1/sessions/{name}").json()["clicks"]
        }
        assert set(before) <= there <= set(visitors.kept)
        until_learned(http)
        stats = http.get("/v1/stats").json()
        assert (stats["learning_error"], stats["writing_error"], stats["defects"]) == (
            None,
            None,
            [],
        )
        assert stats["problems"] == []
    again.stop()


def shell(command: str, folder: Path, key: str) -> None:
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, "ADMIN": key},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, (command, done.stderr)


def admin(url: str, key: str, what: str, body: dict[str, str]) -> None:
    headers = {"authorization": f"Bearer {key}"}
    answer = httpx.post(f"{url}/v1/admin/{what}", json=body, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text


def until_learned(http: httpx.Client) -> None:
    for _ in range(100):
        stats = http.get("/v1/stats").json()
        if stats["lag_clicks"] == 0:
            return
        threading.Event().wait(0.1)
    raise AssertionError(stats)
