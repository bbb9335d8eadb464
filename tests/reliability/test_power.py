"""Power loss: what was not synced may be gone, torn or out of order; nothing acknowledged is."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import digests
import pytest
from disk import Disk, Step, steps

from nextclick import persistence
from nextclick.serving.learning import Learning
from nextclick.serving.log import Record
from nextclick.serving.pupil import Pupil
from nextclick.serving.settings import EngineSettings
from nextclick.serving.state import StateDirectory

HERE = Path(__file__).parent
MODES = ("synced", "all", "torn", "mixed", "mixed", "mixed")


@pytest.fixture(scope="session")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("the recorder of writes needs a C compiler")
    library = tmp_path_factory.mktemp("recorder") / "recorder.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", library, HERE / "recorder.c", "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return library


def recorded(
    recorder: Path, folder: Path, models: Sequence[Path], keep_log: float | None, rounds: int
) -> list[Step]:
    """Let a service live, and return all it did to its files."""
    root = folder / "root"
    root.mkdir()
    day = json.dumps([str(root / "state"), [str(model) for model in models], keep_log, rounds])
    done = subprocess.run(
        [sys.executable, str(HERE / "power.py"), day],
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "LD_PRELOAD": str(recorder),
            "RECORD_ROOT": str(root),
            "RECORD_TO": str(folder / "record"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return list(steps(folder / "record"))


class Expected:
    """What was noted, and what is learned from it, record by record."""

    def __init__(self, done: Sequence[Step], models: Sequence[Path]) -> None:
        notes = [json.loads(step.path) for step in done if step.op == "N"]
        self.records = [Record(*note[1:]) for note in notes if note[0] == "record"]
        self.sent = {note[1] for note in notes if note[0] == "sent"}
        self._models = {}
        for path in models:
            model = persistence.load(path, digests.RUNTIME)
            self._models[persistence.Picture.of(model).fingerprint()[:16]] = path
        learning = Learning(EngineSettings(), self._pupil(models[0]), self._load)
        self.learned = {0: digests.of_learning(learning)}
        for record in self.records:
            learning.take(record)
            self.learned[record.number] = digests.of_learning(learning)

    def _load(self, name: str) -> Pupil:
        return self._pupil(self._models[name.rpartition("-")[2]])

    @staticmethod
    def _pupil(path: Path) -> Pupil:
        return Pupil(persistence.load(path, digests.RUNTIME), threading.Lock())

    def check(self, state: Path, model: Path, kept: dict[int, str], *, all_kept: bool) -> None:
        """Recover a directory, and check what is there."""
        files = StateDirectory(state, EngineSettings(), digests.RUNTIME, threading.Lock())
        try:
            learning, live = files.recover(model)
            assert files.problems == []
            for records in files.log.read(learning.position):
                for record in records:
                    learning.take(record)
            assert max(kept, default=0) <= learning.position
            assert digests.of_learning(learning) == self.learned[learning.position]
            assert list(live.sessions) == list(learning.sessions)
            if all_kept:
                there = [record for records in files.log.read(0) for record in records]
                assert there == self.records[: len(there)]
                events = {record.number: record.event_id for record in there if record.event_id}
                assert all(events[number] == event for number, event in kept.items())
                assert set(events.values()) <= self.sent
        finally:
            files.close()


@pytest.mark.slow
@pytest.mark.parametrize("keep_log", [None, 0.0])
def test_power_loss_at_every_write(
    keep_log: float | None,
    recorder: Path,
    saved: Callable[[str], Path],
    tmp_path: Path,
    fast_disk: Path,
    amount: Any,
    tell: Any,
) -> None:
    models = [saved("popularity"), saved("s-sknn")]
    done = recorded(recorder, tmp_path, models, keep_log, rounds=int(amount("rounds", 5, 8)))
    expected = Expected(done, models)
    every = int(amount("every_write", 60, 1))
    chance = random.Random(1)
    disk = Disk(str(tmp_path / "root"))
    kept: dict[int, str] = {}
    counts: Counter[str] = Counter()
    seen: set[str] = set()
    began = time.monotonic()
    for place, step in enumerate(done):
        disk.take(step)
        if step.op == "N":
            note = json.loads(step.path)
            if note[0] == "kept":
                kept[note[2]] = note[1]
            continue
        counts["writes"] += 1
        if counts["writes"] % every:
            continue
        for mode in MODES:
            cut = fast_disk / "cut"
            shutil.rmtree(cut, ignore_errors=True)
            cut.mkdir()
            disk.write(cut, mode, chance)
            print_ = fingerprint(cut, max(kept, default=0))
            if print_ in seen:
                continue
            seen.add(print_)
            counts[mode] += 1
            try:
                expected.check(cut / "state", models[0], kept, all_kept=keep_log is None)
            except BaseException as error:
                raise AssertionError(f"{mode} after step {place}: {step[:4]}") from error
    tell(
        keep_log=keep_log,
        **counts,
        acknowledged=len(kept),
        seconds=round(time.monotonic() - began),
    )


def fingerprint(folder: Path, kept: int) -> str:
    sum_ = hashlib.sha256(str(kept).encode())
    for path in sorted(folder.rglob("*")):
        sum_.update(str(path.relative_to(folder)).encode())
        if path.is_file():
            sum_.update(path.read_bytes())
    return sum_.hexdigest()
