from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nextclick.datasets.prepared import PreparedData
from nextclick.errors import BadInputError
from nextclick.recommender import Recommender
from nextclick.runtime import Runtime
from nextclick.serving.engine import Engine
from nextclick.serving.messages import (
    Answer,
    Ask,
    ClosedError,
    Item,
    Kept,
    LogBusyError,
    NewClick,
)
from nextclick.serving.settings import EngineSettings

RUNTIME = Runtime(seed=3, threads=1)


@pytest.fixture(params=["man", "s-sknn", "popularity"])
def engine(
    request: pytest.FixtureRequest, tiny: Callable[[str], Recommender], tmp_path: Path
) -> Iterator[Engine]:
    with Engine.open(
        tmp_path, EngineSettings(write_every=5, flush_after=60), model=tiny(request.param)
    ) as engine:
        yield engine


def ids(answer: Answer) -> list[str]:
    return [item.id for item in answer.items]


def ask(engine: Engine, *args: object, **given: object) -> list[str]:
    return ids(engine.recommend([Ask(*args, **given)]).result()[0])  # type: ignore[arg-type] # any fields


def test_clicks_are_kept_and_seen(engine: Engine) -> None:
    clicks = [NewClick("anna", "item 3", 7, "first"), NewClick("anna", "item 4")]
    assert engine.click(clicks).result() == [Kept(2, False), Kept(3, False)]
    session = engine.get_session("anna")
    assert [click.item for click in session] == ["item 3", "item 4"]
    assert [click.timestamp for click in session] == [7, None]
    assert ask(engine, "anna") == ask(engine, items=["item 3", "item 4"])
    assert engine.get_session("berta") == []
    assert engine.recommend([Ask("berta")]).result()[0].cold


def test_a_retry_is_harmless(engine: Engine) -> None:
    click = NewClick("anna", "item 3", None, "once")
    assert engine.click([click, click]).result() == [Kept(2, False), Kept(2, True)]
    assert engine.click([click]).result() == [Kept(2, True)]
    assert engine.click([NewClick("berta", "item 3", None, "once")]).result() == [Kept(3, False)]
    assert len(engine.get_session("anna")) == 1
    assert engine.stats().duplicates == 2


def test_clicks_and_questions_in_one_go(engine: Engine) -> None:
    engine.click([NewClick("anna", "item 3")]).result()
    kept, answers = engine.click_and_recommend(
        [NewClick("anna", "item 4"), NewClick("berta", "item 9")], [Ask("anna"), Ask("berta")]
    ).result()
    assert [one.number for one in kept] == [3, 4]
    assert answers == engine.recommend([Ask("anna"), Ask("berta")]).result()


def test_a_retry_is_not_counted_twice_in_what_it_is_answered(engine: Engine) -> None:
    first = NewClick("anna", "item 3", None, "1"), NewClick("anna", "item 4", None, "2")
    question = Ask("anna", k=40)
    kept, answers = engine.click_and_recommend(first, [question]).result()
    assert [one.duplicate for one in kept] == [False, False]
    for clicks, duplicates in (
        (first, [True, True]),
        (first[1:], [True]),
        ((first[1], NewClick("anna", "item 9", None, "3")), [True, False]),
    ):
        kept, answers = engine.click_and_recommend(clicks, [question]).result()
        assert [one.duplicate for one in kept] == duplicates
        assert answers == engine.recommend([question]).result()
    session = engine._live.sessions.get("anna")
    assert session is not None
    assert session.items == ("item 3", "item 4", "item 9")


def test_the_last_three_snapshots_are_kept(
    tiny: Callable[[str], Recommender], tmp_path: Path
) -> None:
    with Engine.open(tmp_path, model=tiny("popularity")) as engine:
        taken = []
        for n in range(5):
            engine.click([NewClick("anna", f"item {n}")]).result()
            taken.append(engine.snapshot().result())
        assert sorted((tmp_path / "snapshots").iterdir()) == sorted(taken)[-3:]
        assert all((path / "manifest.json").is_file() for path in taken[-3:])


def test_a_program_that_locks_the_log_refuses_clicks_for_as_long(engine: Engine) -> None:
    engine._log._writer.execute("PRAGMA busy_timeout = 100")  # instead of five seconds
    before = engine.click([NewClick("anna", "item 3")]).result()
    other = sqlite3.connect(engine._log.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for _ in range(3):
        with pytest.raises(LogBusyError, match="another program has locked it"):
            engine.click([NewClick("anna", "item 4")]).result()
    other.execute("ROLLBACK")
    other.close()
    after = engine.click([NewClick("anna", "item 5")]).result()
    assert after[0].number == before[0].number + 1
    assert [click.item for click in engine.get_session("anna")] == ["item 3", "item 5"]
    assert engine.stats().writing_error is None


def test_a_model_that_does_not_learn_stays_as_it_is(
    tiny: Callable[[str], Recommender], tmp_path: Path
) -> None:
    settings = EngineSettings(write_every=5, learn=())
    with Engine.open(tmp_path, settings, model=tiny("man")) as engine:
        before = engine.recommend([Ask(items=["item 3"], k=40)]).result()
        entries = engine.stats().model.memory_entries
        for visitor in range(70):
            engine.click([NewClick(str(visitor), f"item {n}") for n in (3, 9, 4)])
        engine.flush(30)
        assert engine.recommend([Ask(items=["item 3"], k=40)]).result() == before
        stats = engine.stats().model
        assert (stats.start.model.tests, stats.memory_entries) == (140, entries)
    with Engine.open(tmp_path, EngineSettings(learn=("memory",)), runtime=RUNTIME) as engine:
        engine.click([NewClick("anna", f"item {n}") for n in (3, 9, 4)])
        engine.flush(30)
        assert engine.stats().model.memory_entries == (entries or 0) + 2


def test_an_item_never_seen_before_is_soon_recommended(engine: Engine) -> None:
    for visitor in range(7):
        engine.click([NewClick(str(visitor), "item 3"), NewClick(str(visitor), "brand new")])
    engine.flush(10)
    assert "brand new" in ask(engine, items=["item 3"], k=40)
    assert engine.stats().model.start.new.tests == 7


def test_what_is_not_available_is_never_returned_and_k_is_filled(engine: Engine) -> None:
    everything = ask(engine, items=["item 3"], k=40)
    gone = everything[: len(everything) // 2]
    for id_ in gone:
        assert engine.put_item(id_, "A title", available=False).result().available is False
    assert ask(engine, items=["item 3"], k=10) == everything[len(gone) :][:10]
    engine.put_item(gone[0], "Back", "shoes").result()
    back = engine.recommend([Ask(items=["item 3"])]).result()[0].items[0]
    assert (back.id, back.title, back.category) == (gone[0], "Back", "shoes")
    assert engine.get_item(gone[0]) == Item(gone[0], "Back", "shoes")
    kept = everything[-1]
    assert engine.get_item(kept) == Item(kept, f"The {kept.removeprefix('item ')}th")
    assert engine.get_item("nobody knows it") is None


def test_filters(engine: Engine) -> None:
    everything = ask(engine, items=["item 3", "item 5"], k=40)
    some = frozenset(everything[:3])
    assert ask(engine, items=["item 3", "item 5"], k=5, exclude=some) == everything[3:8]
    unseen = [id_ for id_ in everything if id_ not in {"item 3", "item 5"}]
    assert ask(engine, items=["item 3", "item 5"], k=20, exclude_seen=True) == unseen[:20]
    engine.put_item(everything[-1], None, "rare").result()
    rare = Ask(items=["item 3", "item 5"], categories=frozenset({"rare"}))
    assert ids(engine.recommend([rare]).result()[0]) == [everything[-1]]


def test_what_was_kept_is_there_after_a_restart(
    tiny: Callable[[str], Recommender], tmp_path: Path
) -> None:
    with Engine.open(tmp_path, model=tiny("s-sknn")) as engine:
        engine.click([NewClick("anna", "item 3"), NewClick("anna", "item 4")]).result()
        engine.put_item("item 5", available=False).result()
        answer = engine.recommend([Ask("anna")]).result()
        with pytest.raises(BadInputError, match="another service uses this state directory"):
            Engine.open(tmp_path)
    with Engine.open(tmp_path, runtime=RUNTIME) as engine:
        assert [click.item for click in engine.get_session("anna")] == ["item 3", "item 4"]
        assert engine.recommend([Ask("anna")]).result() == answer
        assert engine.stats().clicks == 2


def test_another_model_takes_over(tiny: Callable[[str], Recommender], tmp_path: Path) -> None:
    with Engine.open(tmp_path, model=tiny("popularity")) as engine:
        engine.click([NewClick("anna", "item 3")]).result()
        assert engine.load_model(tiny("s-sknn")).result() == 2
        assert engine.recommend([Ask("anna")]).result()[0].model == 2
        answer = engine.recommend([Ask("anna")]).result()
    with Engine.open(tmp_path, runtime=RUNTIME) as engine:
        assert engine.stats().model.label == "S-SKNN"
        assert engine.recommend([Ask("anna")]).result() == answer


@pytest.mark.parametrize(
    ("click", "complaint"),
    [
        (NewClick("", "x"), "click 0: session: an id is empty"),
        (NewClick("a", "x" * 2000), "click 0: item: an item id is 2,000 characters long"),
        (NewClick("a", "\ud800"), "click 0: item is '.ud800': half of a surrogate pair"),
        (NewClick("a", 5), "click 0: item is 5; give text"),  # type: ignore[arg-type] # what is refused
        (NewClick("a", "x", float("nan")), "click 0: timestamp is nan"),
    ],
)
def test_bad_clicks_are_named(engine: Engine, click: NewClick, complaint: str) -> None:
    with pytest.raises(BadInputError, match=complaint):
        engine.click([click])


def test_a_closed_engine_says_so(engine: Engine) -> None:
    engine.close()
    with pytest.raises(ClosedError):
        engine.click([NewClick("a", "x")])
    with pytest.raises(ClosedError):
        engine.recommend([Ask("a")])


def test_contexts_of_training_are_named_too(
    tiny: Callable[[str], Recommender], tiny_data: PreparedData, tmp_path: Path
) -> None:
    sessions = tiny_data.validation.whole_sessions()
    trained = {tuple(map(tiny_data.catalog.id, session.tolist())) for session in sessions}
    question = Ask(items=("item 4", "item 5"), explain=True)
    with Engine.open(tmp_path, model=tiny("man")) as engine:
        answer = engine.recommend([question]).result()[0]
    voters = [voter for item in answer.items for voter in item.voters]
    assert voters
    for voter in voters:
        assert voter.items
        assert voter.seconds is None
        assert any(voter.items == session[: len(voter.items)] for session in trained)
