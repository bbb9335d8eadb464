"""Clocks that go backwards, events that come twice or late, and clicks that grow old."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import digests
import pytest

from nextclick.recommender import Recommender
from nextclick.runtime import Runtime
from nextclick.serving.engine import Engine
from nextclick.serving.learning import Learning
from nextclick.serving.log import Record
from nextclick.serving.messages import NewClick
from nextclick.serving.pupil import Pupil
from nextclick.serving.settings import EngineSettings

ONE = Runtime(threads=1)
HOUR = 3600.0


class Clock:
    """The machine's clock, put forward or back."""

    def __init__(self) -> None:
        self.offset = 0.0
        self._real = time.time

    def __call__(self) -> float:
        return self._real() + self.offset


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "time", clock)
    return clock


def records(engine: Engine) -> list[Record]:
    return [record for some in engine._log.read(0) for record in some]


def learned(engine: Engine) -> dict[str, str]:
    return engine._learner.call(lambda: digests.of_learning(engine._learner.learning)).result(30)


def replayed(model: Recommender, log: Sequence[Record]) -> dict[str, str]:
    def load(_: str) -> Pupil:
        raise AssertionError

    learning = Learning(EngineSettings(), Pupil(model, threading.Lock()), load)
    for record in log:
        learning.take(record)
    return digests.of_learning(learning)


@pytest.mark.parametrize("name", ["man", "stan"])
def test_a_clock_that_goes_back(
    name: str, clock: Clock, tiny: Callable[[str], Recommender], tmp_path: Path
) -> None:
    settings = EngineSettings(write_every=50, flush_after=0.05, idle=0.3)
    with Engine.open(tmp_path, settings, model=tiny(name)) as engine:
        for n in range(6):
            engine.click([NewClick("a", f"item {n}")]).result()
        clock.offset = -HOUR
        engine.click([NewClick("a", "item 6"), NewClick("b", "item 7")]).result()
        engine.click([NewClick("a", "item 8")]).result()
        assert engine._live.sessions.get("a").items[-3:] == ("item 5", "item 6", "item 8")
        until = time.monotonic() + 20
        while time.monotonic() < until:
            stats = engine.stats()
            if stats.lag_clicks == 0 and stats.lag_seconds == 0:
                break
            time.sleep(0.01)
        assert stats.lag_seconds == 0  # a flush does not wait for the clock
        time.sleep(0.4)
        engine.click([NewClick("a", "item 9")]).result()
        assert engine._live.sessions.get("a").items == ("item 9",)  # sessions end all the same
    with Engine.open(tmp_path, settings, runtime=ONE) as engine:
        clock.offset = -2 * HOUR
        engine.click([NewClick("a", "item 10")]).result()
        assert engine._live.sessions.get("a").items == ("item 9", "item 10")
        there = records(engine)
        arrived = [record.arrived for record in there]
        assert arrived == sorted(arrived)
        assert learned(engine) == replayed(tiny(name), records(engine))


def test_a_clock_that_was_wrong_once(
    clock: Clock, tiny: Callable[[str], Recommender], tmp_path: Path
) -> None:
    """A year ahead for a moment: the log's clock goes on from there, and old clicks still go."""
    settings = EngineSettings(idle=0.3, keep_log=0.5, keep_snapshots=1, snapshot_seconds=None)
    with Engine.open(tmp_path, settings, model=tiny("popularity")) as engine:
        clock.offset = 365 * 24 * HOUR
        engine.click([NewClick("a", "item 1")]).result()
        clock.offset = 0
        for n in range(10):
            engine.click([NewClick(f"s{n}", "item 2")]).result()
        time.sleep(0.6)
        engine.click([NewClick("b", "item 3")]).result()
        assert engine._live.sessions.get("a") is None
        engine.flush()
        engine.snapshot().result()
        until = time.monotonic() + 5
        while len(engine.get_session("a")) and time.monotonic() < until:
            time.sleep(0.02)
        assert engine.get_session("a") == []


@pytest.mark.parametrize("name", ["man", "stan", "s-sknn"])
def test_events_that_come_twice_and_late(
    name: str, tiny: Callable[[str], Recommender], tmp_path: Path
) -> None:
    """Each is kept once, in the order it first came, whatever its timestamp; on every retry."""
    chance = random.Random(3)
    events = [
        NewClick(f"s{n // 5}", f"item {n * 3 % 40}", 1e9 + chance.uniform(-HOUR, HOUR), f"e{n}")
        for n in range(120)
    ]
    sent: list[NewClick] = []
    for number, event in enumerate(events):
        sent += [event, *chance.choices(events[max(0, number - 20) : number + 1], k=2)]
    chance.shuffle(sent)
    settings = EngineSettings(write_every=7, flush_after=60, snapshot_seconds=None)
    numbers: dict[str, int] = {}
    model: Recommender | None = tiny(name)
    for start in range(0, len(sent), 90):  # a restart now and then
        with Engine.open(tmp_path, settings, model=model, runtime=ONE) as engine:
            model = None
            for at in range(start, min(start + 90, len(sent)), 9):
                piece = sent[at : at + 9]
                for click, kept in zip(piece, engine.click(piece).result(), strict=True):
                    assert kept.duplicate == (click.event_id in numbers)
                    assert numbers.setdefault(str(click.event_id), kept.number) == kept.number
    with Engine.open(tmp_path, settings, runtime=ONE) as engine:
        there = records(engine)
        clicks = [record for record in there if record.kind == "click"]
        assert {str(click.event_id): click.number for click in clicks} == numbers
        assert len(clicks) == len(numbers) == 120
        for n in range(24):
            told = [click.event_id for click in engine.get_session(f"s{n}")]
            assert told == sorted(told, key=lambda event: numbers[str(event)])
        assert learned(engine) == replayed(tiny(name), there)


def test_one_event_from_many_at_once(tiny: Callable[[str], Recommender], tmp_path: Path) -> None:
    with Engine.open(tmp_path, EngineSettings(), model=tiny("popularity")) as engine:
        futures = [
            engine.click([NewClick("a", "item 1", None, f"e{n % 50}")]) for n in range(1_000)
        ]
        kept = [future.result()[0] for future in futures]
        assert sum(not one.duplicate for one in kept) == 50
        assert len(engine.get_session("a")) == 50


def test_old_clicks_go_and_what_was_learned_stays(
    tiny: Callable[[str], Recommender], tmp_path: Path
) -> None:
    settings = EngineSettings(
        write_every=10, flush_after=60, keep_log=0.0, keep_snapshots=1, snapshot_seconds=None
    )
    sizes = []
    everything: list[Record] = []
    model: Recommender | None = tiny("s-sknn")
    for round_ in range(6):
        with Engine.open(tmp_path, settings, model=model, runtime=ONE) as engine:
            model = None
            clicks = [
                NewClick(f"{round_} {n // 5}", f"item {n * 7 % 40}", None, str(n))
                for n in range(1_500)
            ]
            for start in range(0, len(clicks), 100):
                engine.click(clicks[start : start + 100]).result()
            last = everything[-1].number if everything else 0
            everything += [record for some in engine._log.read(last) for record in some]
            engine.snapshot().result()
            until = time.monotonic() + 10
            while engine._log._before_first() < engine._log.last - 1 and time.monotonic() < until:
                time.sleep(0.02)
            assert engine._log._before_first() == engine._log.last - 1
            assert learned(engine) == replayed(tiny("s-sknn"), everything)
            assert engine.stats().clicks == 1_500 * (round_ + 1)
        sizes.append(sum(path.stat().st_size for path in tmp_path.glob("clicks.*")))
    assert max(sizes[2:]) <= 1.05 * sizes[1]


def test_a_future_that_is_cancelled_harms_nobody(
    tiny: Callable[[str], Recommender], tmp_path: Path
) -> None:
    """Who waited for an answer has left: the threads that bring answers go on."""
    with Engine.open(tmp_path, EngineSettings(), model=tiny("popularity")) as engine:
        for n in range(50):
            engine.click([NewClick("a", f"item {n}")]).cancel()
            engine.click_and_recommend([NewClick("a", f"item {n}")], []).cancel()
            engine.snapshot().cancel()
        engine.click([NewClick("a", "item 1")]).result(10)
        engine.flush(10)
        assert engine.stats().clicks == 101
