"""Damaged files: detected and named, an older snapshot used, no record skipped in silence."""

from __future__ import annotations

import random
import shutil
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import digests
import pytest

from nextclick import persistence
from nextclick.errors import BadInputError
from nextclick.recommender import Recommender
from nextclick.serving import state as state_module
from nextclick.serving.engine import Engine
from nextclick.serving.messages import DamagedLogError, NewClick
from nextclick.serving.settings import EngineSettings
from nextclick.serving.state import StateDirectory

SETTINGS = EngineSettings(
    write_every=5, flush_after=60, snapshot_clicks=None, snapshot_seconds=None
)


def click(engine: Engine, start: int, stop: int) -> None:
    for n in range(start, stop):
        engine.click([NewClick(f"s{n // 6}", f"item {n * 7 % 41}", n, f"e{n}")]).result()


@pytest.fixture(scope="module")
def images(
    tiny: Callable[[str], Recommender], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """A state as a crash and as an orderly stop leave it: snapshots, and clicks after them."""
    folder = tmp_path_factory.mktemp("images")
    engine = Engine.open(folder / "s", SETTINGS, model=tiny("man"), shadow=tiny("s-sknn"))
    for start in range(0, 150, 50):
        click(engine, start, start + 50)
        engine.snapshot().result()
    engine.put_item("item 3", "Three", available=False).result()
    click(engine, 150, 180)
    shutil.copytree(folder / "s", folder / "crashed")
    engine.close()
    return {"crashed": folder / "crashed", "stopped": folder / "s"}


@pytest.fixture
def copied(images: dict[str, Path], fast_disk: Path) -> Callable[[str], Path]:
    def copy(name: str) -> Path:
        target = fast_disk / "state"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(images[name], target)
        return target

    return copy


def recovered(state: Path) -> tuple[dict[str, str], list[Any], list[str]]:
    """Return what is learned, what is in the log, and what was wrong."""
    files = StateDirectory(state, SETTINGS, digests.RUNTIME, threading.Lock())
    try:
        learning, live = files.recover(None)
        for records in files.log.read(learning.position):
            for record in records:
                learning.take(record)
        assert list(live.sessions) == list(learning.sessions)
        everything = [record for records in files.log.read(0) for record in records]
        return digests.of_learning(learning), everything, files.problems
    finally:
        files.close()


def flip(file: Path, at: int, bit: int = 0) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1 << bit
    file.write_bytes(content)


def cut(file: Path, length: int) -> None:
    with file.open("r+b") as opened:
        opened.truncate(length)


def damages(size: int, flips: int) -> dict[str, Callable[[Path], None]]:
    """Return ways to damage a file of so many bytes."""
    chance = random.Random(size)
    ways: dict[str, Callable[[Path], None]] = {"removed": Path.unlink}
    for length in {0, 1, size // 2, size - 1} if flips > 1 else {size // 2}:
        if 0 <= length < size:
            ways[f"cut to {length}"] = partial(cut, length=length)
    for _ in range(min(size, flips)):
        at, bit = chance.randrange(size), chance.randrange(8)
        ways[f"bit {bit} of {at}"] = partial(flip, at=at, bit=bit)
    return ways


def test_every_file_of_a_snapshot(copied: Callable[[str], Path], amount: Any, tell: Any) -> None:
    flips = int(amount("flips", 1, 40))
    state = copied("crashed")
    newest = sorted((state / "snapshots").iterdir())[-1]
    files = [path for path in sorted(newest.rglob("*")) if path.is_file()]
    sizes = [file.stat().st_size for file in files]
    right = recovered(state)[0]
    tried = 0
    for file, size in zip(files, sizes, strict=True):
        for what, damage in damages(size, flips).items():
            copied("crashed")
            damage(file)
            learned, _, problems = recovered(state)
            assert len(problems) == 1, (file, what)
            assert str(newest if file.name == "manifest.json" else file) in problems[0]
            assert learned == right
            assert (state / "snapshots" / f"damaged-{newest.name}").is_dir()
            tried += 1
    tell(files=len(files), damages=tried)


def test_older_and_older_snapshots(copied: Callable[[str], Path]) -> None:
    state = copied("crashed")
    right = recovered(state)[0]
    newest_first = sorted(images_of(state), reverse=True)
    assert len(newest_first) == 3
    for n in range(1, 4):
        state = copied("crashed")
        for path in newest_first[:n]:
            cut(path / "model" / "state.safetensors", 100)
        if n < 3:
            learned, _, problems = recovered(state)
            assert learned == right
            assert len(problems) == n
        else:
            with pytest.raises(
                BadInputError, match=r"no snapshot can be used .*safetensors.*backup"
            ):
                recovered(state)


def images_of(state: Path) -> list[Path]:
    return [path for path in (state / "snapshots").iterdir() if path.name.isdecimal()]


@pytest.mark.parametrize("name", ["crashed", "stopped"])
def test_every_file_of_the_log(
    name: str, copied: Callable[[str], Path], amount: Any, tell: Any
) -> None:
    """What comes back is everything, or a refusal that names the log."""
    flips = int(amount("flips", 1, 40)) * 20
    state = copied(name)
    sizes = {file: file.stat().st_size for file in sorted(state.glob("clicks.*"))}
    right, records, _ = recovered(state)
    counts: Counter[str] = Counter()
    for file, size in sizes.items():
        for what, damage in damages(size, flips).items():
            copied(name)
            damage(file)
            refusal = None
            try:
                learned, there, _ = recovered(state)
            except BadInputError as error:
                refusal = str(error)
            if refusal is None:
                assert there == records, (file.name, what)
                assert learned == right, (file.name, what)
            else:
                assert "clicks.db" in refusal, (file.name, what)
            counts[f"{file.name} {'unharmed' if refusal is None else 'refused'}"] += 1
    assert counts["clicks.db refused"]
    tell(image=name, **counts)


CHANGES = {
    "UPDATE records SET item = 'item 9' WHERE number = 100": "record 100 is damaged",
    "UPDATE records SET crc = crc + 1 WHERE number = 170": "record 170 is damaged",
    "UPDATE records SET arrived = arrived + 1 WHERE number = 171": "record 171 is damaged",
    "DELETE FROM records WHERE number = 120": "record 120 is missing",
    "DELETE FROM records WHERE number = 172": "record 172 is missing",
    "DELETE FROM records WHERE number > 175": "records 176 to 183 were acknowledged",
    "DELETE FROM records": "records 1 to 183 were acknowledged",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_record_that_is_not_what_was_written(change: str, copied: Callable[[str], Path]) -> None:
    state = copied("crashed")
    change_log(state, change)
    with pytest.raises(DamagedLogError, match=CHANGES[change]):
        recovered(state)


def change_log(state: Path, change: str) -> None:
    connection = sqlite3.connect(state / "clicks.db")
    connection.execute(change)
    connection.commit()
    connection.close()


def test_old_damage_in_a_large_log_is_reported(
    copied: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is learned already stops nothing, but is told."""
    monkeypatch.setattr(state_module, "_CHECKED_AT_START", 0)
    state = copied("crashed")
    change_log(state, "UPDATE records SET item = 'item 9' WHERE number = 20")
    with Engine.open(state, SETTINGS) as engine:
        until = time.monotonic() + 20
        while not engine.stats().problems and time.monotonic() < until:
            time.sleep(0.02)
        assert "record 20 is damaged" in engine.stats().problems[0]
        click(engine, 500, 510)


def test_a_damaged_mark_is_told_and_mended(copied: Callable[[str], Path]) -> None:
    state = copied("crashed")
    flip(state / "clicks.mark", 2)
    with Engine.open(state, SETTINGS) as engine:
        assert "clicks.mark: damaged" in engine.stats().problems[0]
        click(engine, 500, 501)
    with Engine.open(state, SETTINGS) as engine:
        assert engine.stats().problems == ()


def test_a_model_that_an_older_snapshot_needs_is_kept(
    tiny: Callable[[str], Recommender], tmp_path: Path
) -> None:
    with Engine.open(tmp_path, SETTINGS, model=tiny("popularity")) as engine:
        click(engine, 0, 20)
        engine.snapshot().result()
        engine.load_model(tiny("s-sknn")).result()
        click(engine, 20, 40)
    with Engine.open(tmp_path, SETTINGS) as engine:  # begins after the model was loaded
        click(engine, 40, 60)
        newest = engine.snapshot().result()
        answer = engine.stats().model
    others = sorted(images_of(tmp_path))[1:]
    assert newest in others
    for path in others:
        cut(path / "service.json", 10)
    with Engine.open(tmp_path, SETTINGS) as engine:
        engine._learner.call(lambda: None).result()
        assert engine.stats().learning_error is None
        assert engine.stats().model == answer


@pytest.mark.parametrize("name", ["config.json", "manifest.json", "state.safetensors"])
def test_a_copy_of_a_model_that_is_not_whole_is_made_again(
    name: str, tiny: Callable[[str], Recommender], tmp_path: Path
) -> None:
    """A service was killed while it removed one that it needs again."""
    with Engine.open(tmp_path, SETTINGS, model=tiny("popularity"), shadow=tiny("s-sknn")) as engine:
        click(engine, 0, 20)
    (copy,) = (tmp_path / "models").iterdir()
    (copy / name).unlink()
    with Engine.open(tmp_path, SETTINGS, shadow=tiny("s-sknn")) as engine:
        click(engine, 20, 40)
        assert engine.stats().shadow is not None
    persistence.load(copy)
