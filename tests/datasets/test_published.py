"""The published data sets come out as their papers say (DESIGN.md, section 6)."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from nextclick.datasets import PreparedData, PrepareSettings, prepare
from nextclick.datasets.published import PUBLISHED


@pytest.fixture(scope="module")
def diginetica(shared_data: Path) -> PreparedData:
    return prepare(shared_data / "diginetica")


def test_diginetica_is_the_papers(diginetica: PreparedData) -> None:
    data = diginetica
    parts = data.parts.values()
    assert sum(map(len, parts)) == 993_483
    assert sum(part.n_sessions for part in parts) == 204_789
    assert len(data.catalog) == 43_136
    assert (data.test.n_sessions, len(data.test)) == (59_240, 286_254)
    assert (data.train.n_sessions, data.validation.n_sessions) == (130_994, 14_555)
    before_test = np.union1d(data.train.items, data.validation.items)
    assert len(before_test) == before_test.max() + 1 == 42_294
    assert len(data.test.transitions()) == 227_014
    assert len(data.description.steps) == 1, "cleaning must not change what is clean"
    assert "published split of diginetica" in data.description.split


def test_diginetica_is_the_files_line_by_line(diginetica: PreparedData, shared_data: Path) -> None:
    lines = [
        line.split(" ")
        for n in range(17)
        for line in (shared_data / "diginetica" / f"period_{n}.txt").read_text().splitlines()
    ]
    logs = diginetica.parts.values()
    times, sessions, items = (
        np.concatenate([getattr(log, column) for log in logs])
        for column in ("times", "sessions", "items")
    )
    order = np.argsort(times)
    assert times[order].tolist() == list(range(len(lines)))
    ids = np.array([item.id for item in diginetica.catalog])
    assert ids[items[order]].tolist() == [item for _, item in lines]
    seen: dict[str, int] = {}
    assert sessions[order].tolist() == [seen.setdefault(id_, len(seen)) for id_, _ in lines]


def test_diginetica_for_tuning_knows_nothing_of_the_test_part(diginetica: PreparedData) -> None:
    data = diginetica.for_tuning()
    assert data.test.n_sessions == 14_555
    assert data.validation.n_sessions == 13_099
    assert data.train.n_sessions == 117_895
    assert len(data.catalog) == 42_294
    ids = [diginetica.catalog.id(item) for item in diginetica.validation.items]
    assert [data.catalog.id(item) for item in data.test.items] == ids


YOOCHOOSE = """
import json, resource, sys
from nextclick.datasets import prepare
data = prepare(sys.argv[1])
counts = {name: [log.n_sessions, len(log)] for name, log in data.parts.items()}
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"parts": counts, "items": len(data.catalog), "peak": peak}))
"""


def test_yoochoose_is_split_by_its_last_four_files(shared_data: Path) -> None:
    # In a process of its own, because its memory is measured.
    command = [sys.executable, "-c", YOOCHOOSE, str(shared_data / "yoochoose")]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert sum(clicks for _, clicks in found["parts"].values()) == 3_370_578
    assert sum(sessions for sessions, _ in found["parts"].values()) == 816_019
    assert found["items"] == 25_958
    assert found["parts"]["test"] == [177_580, 706_928]
    assert found["parts"]["train"][0] + found["parts"]["validation"][0] == 638_439
    assert found["parts"]["validation"][0] == 63_844
    assert found["peak"] < 2**21, "KiB: 2 GiB"


@pytest.mark.parametrize("name", ["diginetica", "yoochoose"])
def test_the_sums_are_those_of_the_files(name: str, shared_data: Path) -> None:
    files = sorted((shared_data / name).glob("period_*.txt"))
    sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    assert PUBLISHED[name].sums == sums


def test_part_of_a_published_data_set_is_not_split_as_the_whole(
    shared_data: Path, tmp_path: Path
) -> None:
    for n in range(2):
        (tmp_path / f"period_{n}.txt").symlink_to(shared_data / "diginetica" / f"period_{n}.txt")
    data = prepare(tmp_path)
    assert "a tenth" in data.description.split


def test_the_raw_diginetica_file_is_sorted_by_timeframe(shared_data: Path) -> None:
    source = shared_data / "raw" / "sample_train-item-views.csv"
    clean = PrepareSettings(min_item_clicks=1)
    rows = [line.split(";") for line in source.read_text().splitlines()[1:]]
    by_time = _sessions((session, item, int(frame)) for session, _, item, frame, _ in rows)
    by_file = _sessions((s, item, n) for n, (s, _, item, _, _) in enumerate(rows))
    assert _item_ids(prepare(source, clean)) == by_time != by_file
    with pytest.warns(UserWarning, match="not of time"):
        data = prepare(source, PrepareSettings(min_item_clicks=1, session_order="file"))
    assert _item_ids(data) == by_file
    assert data.description.warning is not None


def test_the_item_hash_order_is_one_order_of_all_items(shared_data: Path) -> None:
    source = shared_data / "raw" / "sample_train-item-views.csv"
    with pytest.warns(UserWarning, match="tells what comes next"):
        data = prepare(source, PrepareSettings(session_order="item-hash"))
    before: dict[int, set[int]] = {}
    for session in data.train.whole_sessions():
        for n, item in enumerate(session.tolist()):
            before.setdefault(item, set()).update(session[:n].tolist())
    for item, earlier in before.items():
        assert all(item not in before.get(one, set()) for one in earlier if one != item)
    assert sum(len(earlier) > 1 for earlier in before.values()) > 50
    # The clicks are the same, and so are their times.
    plain = prepare(source)
    assert plain.train.times.tolist() == data.train.times.tolist()
    assert plain.train.sessions.tolist() == data.train.sessions.tolist()


def test_the_raw_yoochoose_sample(shared_data: Path) -> None:
    source = shared_data / "raw" / "yoochoose-clicks-100k_train_full.txt"
    data = prepare(source, PrepareSettings(min_item_clicks=1, min_session_clicks=1))
    assert data.description.format == "yoochoose"
    assert data.description.steps[0].clicks == 70_278
    rows = [line.split("\t") for line in source.read_text().splitlines()[1:]]
    expected = _sessions(
        (s, item, float(time)) for s, item, time in dict.fromkeys(map(tuple, rows))
    )
    assert _item_ids(data) == expected


def test_raw_samples_lose_what_is_rare_until_nothing_changes(shared_data: Path) -> None:
    source = shared_data / "raw" / "yoochoose-clicks-100k_train_full.txt"
    data = prepare(source)
    items = np.concatenate([part.items for part in data.parts.values()])
    sessions = np.concatenate([part.sessions for part in data.parts.values()])
    assert np.bincount(items).min() == 5
    assert np.bincount(sessions).min() == 2
    once = prepare(source, PrepareSettings(cleaning="once"))
    assert sum(map(len, once.parts.values())) > len(items)
    assert [step.name for step in once.description.steps][-2:] == [
        "items under 5 clicks dropped",
        "sessions under 2 clicks dropped",
    ]


def test_preparing_is_importable_without_torch() -> None:
    code = "import sys, nextclick.datasets; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def _sessions(rows: Iterable[tuple[str, str, float]]) -> list[list[str]]:
    """Return the items of each session in the order of the third column, as a sorted list."""
    sessions: dict[str, list[tuple[float, str]]] = {}
    for session, item, order in rows:
        sessions.setdefault(session, []).append((order, item))
    ordered = [sorted(clicks, key=lambda click: click[0]) for clicks in sessions.values()]
    return sorted([item for _, item in clicks] for clicks in ordered if len(clicks) > 1)


def _item_ids(data: PreparedData) -> list[list[str]]:
    return sorted(
        [data.catalog.id(item) for item in session.tolist()]
        for log in data.parts.values()
        for session in log.whole_sessions()
        if len(session) > 1
    )
