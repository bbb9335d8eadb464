"""Splits, numbering, and prepared data on disk."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextclick.catalog import Catalog, Item
from nextclick.clicks import ClickLog
from nextclick.datasets import PreparedData, PrepareSettings, prepare
from nextclick.errors import BadInputError

TEXT = st.characters(exclude_categories=["Cs"], exclude_characters="\x00\r\n")
IDS = st.sampled_from(["a", "b", "c d", "é,;", '"q"', "靴下"]) | st.text(
    TEXT, min_size=1, max_size=6
).filter(lambda id_: id_ not in ("NaN", "nan"))
TIMES = st.integers(1_000_000_000, 1_000_000_005)
CLICKS = st.lists(st.tuples(IDS, IDS, TIMES), min_size=10, max_size=60)


@pytest.fixture(scope="module")
def csv_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clicks") / "clicks.csv"


@settings(max_examples=50)
@given(CLICKS, st.data())
def test_from_csv_to_parts_nothing_is_lost_or_made_up(
    csv_file: Path, clicks: list[tuple[str, str, int]], data: st.DataObject
) -> None:
    names = ["session_id", "item_id", "timestamp"]
    pl.DataFrame(clicks, schema=names, orient="row").write_csv(csv_file)
    kept = list(dict.fromkeys(clicks))
    by_time = sorted(kept, key=lambda click: click[2])
    n_sessions = len({session for session, _, _ in clicks})
    if n_sessions < 3 or len({item for _, item, _ in clicks}) < 2:
        return
    n_test = data.draw(st.integers(1, n_sessions - 2))
    options = PrepareSettings(
        format="csv", min_item_clicks=1, min_session_clicks=1, test_sessions=n_test
    )
    prepared = prepare(csv_file, options)

    order = list(dict.fromkeys(session for session, _, _ in by_time))
    assert prepared.test.n_sessions == n_test
    found = []
    first = 0
    for log in prepared.parts.values():
        assert np.all(np.diff(log.times) >= 0)
        present = np.unique(log.sessions)
        assert present.tolist() == list(range(first, first + len(present)))
        first += len(present)
        found += [(order[s], prepared.catalog.id(item), int(time)) for s, item, time in log]
    assert sorted(found) == sorted(kept)
    for session in order:
        expected = [item for s, item, _ in by_time if s == session]
        assert [item for s, item, _ in found if s == session] == expected
    numbers = np.concatenate([log.items for log in prepared.parts.values()])
    appearance = list(dict.fromkeys(numbers.tolist()))
    assert appearance == list(range(len(prepared.catalog)))
    assert prepared.n_train_items == len(np.unique(prepared.train.items))


def test_every_step_of_the_cleaning_is_counted(tmp_path: Path) -> None:
    # Item z goes for having one click, and with it session s4, which leaves item y with one.
    rows = [
        *(f"s{n},{item},{n}{k}" for n in range(4) for k, item in enumerate("wx")),
        "s1,x,11",
        "s5,w,99",
        "s5,y,95",
        "s4,y,90",
        "s4,z,91",
    ]
    file = tmp_path / "clicks.csv"
    file.write_text("\n".join(["session_id,item_id,timestamp", *rows]))
    data = prepare(file, PrepareSettings(min_item_clicks=2, test_sessions=1))
    counts = [(s.name, s.clicks, s.sessions, s.items) for s in data.description.steps]
    assert counts == [
        ("read", 13, 6, 4),
        ("exact duplicates dropped", 12, 6, 4),
        ("1 clicks put in time order within their session", 12, 6, 4),
        ("items under 2 clicks dropped", 11, 6, 3),
        ("sessions under 2 clicks dropped", 10, 5, 3),
        ("items under 2 clicks dropped", 9, 5, 2),
        ("sessions under 2 clicks dropped", 8, 4, 2),
    ]
    once = prepare(file, PrepareSettings(min_item_clicks=2, test_sessions=1, cleaning="once"))
    assert once.description.steps == data.description.steps[:5]


def shop(n_sessions: int = 30) -> PreparedData:
    rng = np.random.default_rng(0)
    clicks = sorted(
        (s, int(rng.integers(12)), float(10 * s + rng.integers(40)))
        for s in range(n_sessions)
        for _ in range(4)
    )
    clicks.sort(key=lambda click: click[2])
    ranks = {s: n for n, s in enumerate(dict.fromkeys(session for session, _, _ in clicks))}
    log = ClickLog.of([(ranks[s], item, time) for s, item, time in clicks])
    items = [Item(f"item {n}", f"Title «{n}»", None if n % 2 else "odd, even") for n in range(12)]
    return PreparedData.cut(log, items, validation=n_sessions - 12, test=n_sessions - 6)


def test_what_is_saved_is_what_is_loaded(tmp_path: Path) -> None:
    data = shop()
    data.save(tmp_path / "data")
    again = PreparedData.load(tmp_path / "data")
    for name, log in data.parts.items():
        loaded = again.parts[name]
        for column in ("sessions", "items", "times"):
            ours, theirs = getattr(log, column), getattr(loaded, column)
            assert ours.dtype == theirs.dtype
            assert ours.tolist() == theirs.tolist()
    assert list(again.catalog) == list(data.catalog)
    assert again.description == data.description


def test_every_damaged_file_is_named(tmp_path: Path) -> None:
    data = shop()
    data.save(tmp_path / "data")
    files = sorted(file.name for file in (tmp_path / "data").iterdir())
    assert len(files) == 6
    for name in files:
        file = tmp_path / "data" / name
        whole = file.read_bytes()
        for damaged in (whole[:-1], whole[:40] + bytes([whole[40] ^ 1]) + whole[41:], b""):
            file.write_bytes(damaged)
            if name == "manifest.json" and damaged[:40] == whole[:40] and len(damaged) > 1:
                damaged_names = "manifest.json|train|test|validation|items|description"
            else:
                damaged_names = name
            with pytest.raises(BadInputError, match=damaged_names):
                PreparedData.load(tmp_path / "data")
        file.write_bytes(whole)
    PreparedData.load(tmp_path / "data")


def test_newer_data_are_refused(tmp_path: Path) -> None:
    shop().save(tmp_path / "data")
    manifest = tmp_path / "data" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "version": 99}))
    with pytest.raises(BadInputError, match="install a newer nextclick"):
        PreparedData.load(tmp_path / "data")


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = shop()
    data.save(tmp_path / "data")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(pl.DataFrame, "write_parquet", full)
        with pytest.raises(BadInputError, match="no space left"):
            shop(40).save(tmp_path / "data")
    assert PreparedData.load(tmp_path / "data").train.n_sessions == data.train.n_sessions
    assert [file.name for file in tmp_path.iterdir()] == ["data"]


def test_tuning_data_are_the_data_of_a_week_before() -> None:
    data = shop()
    tuning = data.for_tuning(0.25)
    assert tuning.test.n_sessions == data.validation.n_sessions
    assert tuning.train.n_sessions + tuning.validation.n_sessions == data.train.n_sessions
    assert tuning.test.times.tolist() == data.validation.times.tolist()
    known = [{data.catalog.id(item) for item in log.items} for log in (data.train, data.validation)]
    assert {item.id for item in tuning.catalog} == set.union(*known)
    assert tuning.n_train_items == len(np.unique(tuning.train.items))
    titles = {item.id: item.title for item in data.catalog}
    assert all(item.title == titles[item.id] for item in tuning.catalog)
    assert "for tuning" in tuning.description.split


def test_the_newest_are_cut_in_the_same_shares() -> None:
    data = shop(60)
    small = data.newest(0.5)
    assert [log.n_sessions for log in small.parts.values()] == [24, 3, 3]
    clicks = [
        (data.catalog.id(item), time)
        for log in data.parts.values()
        for session, item, time in log
        if session >= 30
    ]
    kept = [(small.catalog.id(c.item), c.time) for log in small.parts.values() for c in log]
    assert sorted(kept) == sorted(clicks)
    assert np.unique(np.concatenate([log.sessions for log in small.parts.values()])).tolist() == [
        *range(30)
    ]
    assert "the last 30 of 60 sessions" in small.description.split


def test_a_fingerprint_is_of_the_clicks_and_the_items(tmp_path: Path) -> None:
    data = shop()
    data.save(tmp_path / "data")
    assert PreparedData.load(tmp_path / "data").fingerprint == data.fingerprint
    turned = ClickLog(data.test.sessions, data.test.items[::-1].copy(), data.test.times)
    others = [replace(data, test=turned), data.newest(0.9)]
    names = Catalog(["another name", *(item.id for item in list(data.catalog)[1:])])
    others.append(replace(data, catalog=names))
    assert len({data.fingerprint, *(other.fingerprint for other in others)}) == 4


def test_tuning_needs_a_validation_part() -> None:
    data = shop()
    empty = ClickLog.of([])
    without = PreparedData(data.train, empty, data.test, data.catalog, data.description)
    with pytest.raises(BadInputError, match="no validation part"):
        without.for_tuning()
