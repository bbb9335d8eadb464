"""Power loss: what was not synced may be gone, torn or out of order; nothing acknowledged is."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
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


@pytest.fixture
def kept_folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Where the record is; `NEXTCLICK_POWER` names a directory that a later run goes on from."""
    given = os.environ.get("NEXTCLICK_POWER")
    if given is None:
        return tmp_path
    folder = Path(given).absolute() / re.sub(r"\W+", "-", request.node.name).strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def recorded(
    recorder: Path, folder: Path, models: Sequence[Path], keep_log: float | None, rounds: int
) -> list[Step]:
    """Let a service live, and return all it did to its files; as the folder has it, if it does."""
    record = folder / "record"
    if record.exists():
        return list(steps(record))
    root, aside = folder / "root", folder / "record.partial"
    shutil.rmtree(root, ignore_errors=True)
    aside.unlink(missing_ok=True)
    root.mkdir()
    day = json.dumps([str(root / "state"), [str(model) for model in models], keep_log, rounds])
    done = subprocess.run(
        [sys.executable, str(HERE / "power.py"), day],
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "LD_PRELOAD": str(recorder),
            "RECORD_ROOT": str(root),
            "RECORD_TO": str(aside),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    aside.rename(record)
    return list(steps(record))


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

    def recover(self, state: Path, model: Path, *, whole: bool) -> tuple[int, dict[int, str]]:
        """Recover a directory, check what is there, and return up to where, and which events.

        Parameters
        ----------
        whole
            Whether nothing was deleted, so that all events must be there.
        """
        files = StateDirectory(state, EngineSettings(), digests.RUNTIME, threading.Lock())
        try:
            learning, live = files.recover(model)
            assert files.problems == []
            for records in files.log.read(learning.position):
                for record in records:
                    learning.take(record)
            assert digests.of_learning(learning) == self.learned[learning.position]
            assert list(live.sessions) == list(learning.sessions)
            events = {}
            if whole:
                there = [record for records in files.log.read(0) for record in records]
                assert there == self.records[: len(there)]
                events = {record.number: record.event_id for record in there if record.event_id}
                assert set(events.values()) <= self.sent
            return learning.position, events
        finally:
            files.close()


@pytest.mark.slow
@pytest.mark.parametrize("keep_log", [None, 0.0])
def test_power_loss_at_every_write(
    keep_log: float | None,
    recorder: Path,
    saved: Callable[[str], Path],
    kept_folder: Path,
    fast_disk: Path,
    amount: Any,
    tell: Any,
) -> None:
    models = [kept(saved(name), kept_folder / name) for name in ("popularity", "s-sknn")]
    done = recorded(recorder, kept_folder, models, keep_log, rounds=int(amount("rounds", 5, 8)))
    expected = Expected(done, models)
    every = int(amount("every_write", 60, 1))
    until = time.monotonic() + 60 * amount("minutes", 60, 24 * 60)
    progress = kept_folder / "checked"
    checked = int(progress.read_text()) if progress.exists() else 0
    disk = Disk(str(kept_folder / "root"))
    acknowledged: dict[int, str] = {}
    counts: Counter[str] = Counter()
    recovered: dict[str, tuple[int, dict[int, str]]] = {}
    began = time.monotonic()
    for place, step in enumerate(done):
        disk.take(step)
        if step.op == "N":
            note = json.loads(step.path)
            if note[0] == "kept":
                acknowledged[note[2]] = note[1]
            continue
        counts["writes"] += 1
        if counts["writes"] % every or counts["writes"] <= checked:
            continue
        if time.monotonic() > until:
            break
        chance = random.Random(place)
        for mode in MODES:
            cut = fast_disk / "cut"
            shutil.rmtree(cut, ignore_errors=True)
            cut.mkdir()
            disk.write(cut, mode, chance)
            print_ = fingerprint(cut)
            try:
                if print_ not in recovered:
                    counts[mode] += 1
                    recovered[print_] = expected.recover(
                        cut / "state", models[0], whole=keep_log is None
                    )
                position, events = recovered[print_]
                assert max(acknowledged, default=0) <= position
                if keep_log is None:
                    assert acknowledged.items() <= events.items()
            except BaseException as error:
                raise AssertionError(f"{mode} after step {place}: {step[:4]}") from error
        progress.write_text(str(counts["writes"]))
    tell(
        keep_log=keep_log,
        **counts,
        of=sum(step.op != "N" for step in done),
        acknowledged=len(acknowledged),
        seconds=round(time.monotonic() - began),
    )


def kept(model: Path, path: Path) -> Path:
    """Keep a model beside the record that names it."""
    if not path.exists():
        shutil.copytree(model, path)
    return path


def fingerprint(folder: Path) -> str:
    sum_ = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        sum_.update(str(path.relative_to(folder)).encode())
        if path.is_file():
            sum_.update(path.read_bytes())
    return sum_.hexdigest()
