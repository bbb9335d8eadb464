"""A thread of a service that ends at a defect: it is told, and nobody waits for it for ever."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from nextclick.recommender import Recommender
from nextclick.runtime import Runtime
from nextclick.serving.engine import Engine
from nextclick.serving.keys import Keys
from nextclick.serving.limits import Limits
from nextclick.serving.messages import Ask, DefectError, NewClick
from nextclick.serving.refusals import RefusalError
from nextclick.serving.service import Service

PARTS = ("writer", "server", "learner")
CLICK = NewClick("anna", "item 3")


@pytest.fixture
def engine(tiny: Callable[[str], Recommender], tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "state", model=tiny("popularity")) as engine:
        engine.click([CLICK]).result(10)
        engine.flush(10)
        yield engine


def give_what_nothing_can_be_made_of(engine: Engine, part: str) -> None:
    if part == "learner":
        engine._learner.call(sys.exit)
    else:
        getattr(engine, f"_{part}").worker.mailbox.put(object())


def break_(engine: Engine, part: str) -> None:
    """End a thread by a defect, and wait until it has ended."""
    give_what_nothing_can_be_made_of(engine, part)
    until = time.monotonic() + 10
    while not engine.stats().defects and time.monotonic() < until:
        time.sleep(0.005)
    (defect,) = engine.stats().defects
    assert f"the {part} ended at a defect" in defect


def refused(do: Callable[[], Any]) -> bool:
    """Whether something is refused because of a defect, soon."""
    try:
        do().result(10)
    except DefectError:
        return True
    return False


@pytest.mark.parametrize("part", PARTS)
def test_what_needs_the_thread_is_refused_and_the_rest_goes_on(engine: Engine, part: str) -> None:
    break_(engine, part)
    for _ in range(2):
        assert refused(lambda: engine.click([CLICK])) == (part == "writer")
        assert refused(lambda: engine.put_item("item 3")) == (part == "writer")
        assert refused(lambda: engine.recommend([Ask("anna")])) == (part == "server")
        both = refused(lambda: engine.click_and_recommend([CLICK], [Ask("anna")]))
        assert both == (part != "learner")
    assert refused(engine.snapshot) == (part == "learner")
    stats = engine.stats()
    assert (stats.writing_error is not None) == (part == "writer")
    assert (stats.learning_error is not None) == (part == "learner")


def test_what_waited_for_the_thread_is_refused(engine: Engine) -> None:
    with engine._files._changing:  # the server waits for its turn
        first = engine.recommend([Ask("anna")])
        while engine._server.waiting:
            time.sleep(0.001)
        give_what_nothing_can_be_made_of(engine, "server")
        asked = [engine.recommend([Ask("anna")]) for _ in range(100)]  # more than fit in one pass
    assert first.result(10)
    assert all(refused(lambda question=question: question) for question in asked)


@pytest.mark.parametrize("part", PARTS)
def test_what_was_acknowledged_is_there_after_the_next_start(
    part: str, tiny: Callable[[str], Recommender], tmp_path: Path
) -> None:
    kept = 0
    with Engine.open(tmp_path, model=tiny("s-sknn")) as engine:
        for n in range(100):
            if n == 50:
                give_what_nothing_can_be_made_of(engine, part)
            with suppress(DefectError):  # counted below: how many were refused
                engine.click([NewClick("anna", f"item {n % 40}", None, str(n))]).result(10)
                kept += 1
    assert kept == (50 if part == "writer" else 100)
    with Engine.open(tmp_path, runtime=Runtime(threads=1)) as engine:
        assert len(engine.get_session("anna")) == kept
        engine.flush(10)
        assert engine.stats().model.start.model.tests == kept - 1


@pytest.mark.parametrize("part", PARTS)
def test_health_says_so(part: str, engine: Engine, tmp_path: Path) -> None:
    async def status(health: Callable[[Any], Awaitable[Any]]) -> tuple[int, str]:
        await asyncio.sleep(1.05)  # figures are not older than a second
        try:
            reply = await health(None)
        except RefusalError as refusal:
            return refusal.status, refusal.problem.code
        return reply.status, ""

    async def look() -> None:
        service = Service(lambda: engine, Keys(tmp_path), Limits())
        await service.start()
        assert await status(service.ready) == (200, "")
        assert await status(service.live) == (200, "")
        break_(engine, part)
        assert await status(service.ready) == (503, "broken")
        assert await status(service.live) == (503, "broken")
        assert b"nextclick_broken 1.0" in service.metrics.text()

    asyncio.run(look())
