"""Who asks while a service learns, takes snapshots and changes models sees no half of anything."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import digests
import pytest

from nextclick import persistence
from nextclick.recommender import Recommender
from nextclick.runtime import Runtime
from nextclick.serving.answering import Question, answer
from nextclick.serving.engine import Engine
from nextclick.serving.learning import Learning
from nextclick.serving.log import Record
from nextclick.serving.messages import Answer, Ask, NewClick
from nextclick.serving.pupil import Pupil
from nextclick.serving.settings import EngineSettings

ONE = Runtime(threads=1)
ASK = Ask(items=("item 3", "item 4"), k=1_000)
"""For all items there are: their scores are a distribution."""


def told(given: Answer) -> tuple[Any, ...]:
    return (given.model, *((item.id, item.score) for item in given.items))


class Legal:
    """Every answer that may be given, as a replay finds them: between two changes, not within.

    Stands where the lock is that a service holds while a model changes.
    """

    def __init__(self, saved: Sequence[Path]) -> None:
        self.answers: set[tuple[Any, ...]] = set()
        models = [persistence.load(path, ONE) for path in saved]
        self._known = {
            persistence.Picture.of(model).fingerprint()[:16]: path
            for model, path in zip(models, saved, strict=True)
        }
        self.learning = Learning(EngineSettings(), Pupil(models[0], self), self._load)

    def follow(self, records: Sequence[Record]) -> None:
        self._note()
        for record in records:
            self.learning.take(record)
            self._note()

    def _load(self, name: str) -> Pupil:
        return Pupil(persistence.load(self._known[name.rpartition("-")[2]], ONE), self)

    def _note(self) -> None:
        pupil, version = self.learning.serving
        self.answers.add(told(answer([Question(ASK, None)], pupil, version, {})[0]))

    def __enter__(self) -> None:
        self._note()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._note()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["man", "gru4rec"])
def test_answers_are_from_before_or_after(
    name: str, saved: Callable[[str], Path], tmp_path: Path, amount: Any, tell: Any
) -> None:
    seconds = amount("seconds_of_reading", 2, 60)
    settings = EngineSettings(
        write_every=5, flush_after=0.02, snapshot_clicks=None, snapshot_seconds=None
    )
    models = [saved(name), saved("s-sknn")]
    seen: list[tuple[Any, ...]] = []
    stop = threading.Event()
    counts = {"clicks": 0, "snapshots": 0, "models": 0}
    with Engine.open(tmp_path, settings, model=models[0], runtime=ONE) as engine:

        def ask() -> None:  # alone, so that each is a pass of its own, to the last bit
            while not stop.is_set():
                seen.append(told(engine.recommend([ASK]).result()[0]))

        def click(visitor: int) -> None:
            chance = random.Random(visitor)
            while not stop.is_set():
                item = chance.randrange(40) if chance.random() < 0.97 else chance.randrange(10**6)
                session = f"{visitor} {chance.randrange(10)}"
                engine.click([NewClick(session, f"item {item}")]).result()
                counts["clicks"] += 1

        threads = [threading.Thread(target=ask)]
        threads += [threading.Thread(target=click, args=(n,)) for n in range(2)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            engine.snapshot().result()
            counts["snapshots"] += 1
            time.sleep(0.1)
            if counts["snapshots"] % 5 == 4:
                counts["models"] += 1
                engine.load_model(models[counts["models"] % 2]).result()
        stop.set()
        for thread in threads:
            thread.join()
        engine.flush()
        records = [record for some in engine._log.read(0) for record in some]
    legal = Legal(models)
    legal.follow(records)
    wrong = [one for one in seen if one not in legal.answers]
    assert not wrong, wrong[0][:4]
    assert len(set(seen)) > 2
    tell(model=name, answers=len(seen), different=len(set(seen)), **counts)


def test_many_readers(tiny: Callable[[str], Recommender], tmp_path: Path) -> None:
    """Answered together, by one pass: scores agree up to rounding, and each is a distribution."""
    stop = threading.Event()
    problems: list[object] = []
    asked = [0]
    settings = EngineSettings(write_every=5, flush_after=0.02)
    with Engine.open(tmp_path, settings, model=tiny("man")) as engine:

        def read(reader: int) -> None:
            try:
                while not stop.is_set():
                    items = (f"item {reader}", f"item {reader + 1}")
                    ask = Ask(items=items, k=1_000, explain=reader == 0)
                    given = engine.recommend([ask]).result()[0]
                    scores = [item.score for item in given.items]
                    assert scores == sorted(scores, reverse=True)
                    assert abs(sum(scores) - 1) < 1e-3
                    assert len({item.id for item in given.items}) == len(scores) > 30
                    asked[0] += 1
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=read, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for n in range(300):
            engine.click([NewClick(f"s{n % 7}", f"item {n if n % 9 == 0 else n % 40}")]).result()
            if n % 100 == 50:
                engine.snapshot().result()
        engine.flush()
        stop.set()
        for thread in threads:
            thread.join()
        assert learned_all(engine)
    assert problems == []
    assert asked[0] > 10


def learned_all(engine: Engine) -> bool:
    records = [record for some in engine._log.read(0) for record in some]
    return digests.of_learning(engine._learner.learning)["position"] == str(records[-1].number)
