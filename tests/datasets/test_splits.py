"""Where the test part begins, on clicks whose times are known."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from nextclick.datasets import PreparedData, PrepareSettings, prepare
from nextclick.errors import BadInputError

DAY = 86_400
START = 1_700_006_400  # 2023-11-15T00:00:00Z


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    """Ten sessions, one a day; each goes on into the next day."""
    lines = ["session_id,item_id,timestamp"]
    for day in range(10):
        lines += [
            f"s{day},{item},{START + DAY * (day + late)}" for item, late in (("a", 0), ("b", 1))
        ]
    file = tmp_path / "clicks.csv"
    file.write_text("\n".join(lines))
    return file


def parts(data: PreparedData) -> tuple[int, ...]:
    return tuple(log.n_sessions for log in data.parts.values())


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (8, 1, 1)),
        ({"test_sessions": 4}, (5, 1, 4)),
        ({"test_sessions": 5, "validation_share": 0.5}, (2, 3, 5)),
        ({"test_sessions": 4, "validation_share": 0}, (6, 0, 4)),
        # The last click is that of day 10.
        ({"test_days": 3}, (6, 1, 3)),
        ({"test_from": datetime(2023, 11, 20)}, (4, 1, 5)),
        ({"test_from": "2023-11-20T00:00:01"}, (5, 1, 4)),
        ({"test_from": "2023-11-20T01:00:00+01:00"}, (4, 1, 5)),
    ],
)
def test_splits(clicks: Path, settings: dict[str, object], expected: tuple[int, ...]) -> None:
    data = prepare(clicks, PrepareSettings(min_item_clicks=1, **settings))  # type: ignore[arg-type] # values of many types
    assert parts(data) == expected
    assert data.description.settings == PrepareSettings(
        min_item_clicks=1,
        **settings,  # type: ignore[arg-type] # values of many types
    ).model_dump(mode="json", exclude_defaults=True)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"test_sessions": 10}, "10 sessions, and there are 10 in all"),
        ({"test_sessions": 9}, "too few to cut a validation part"),
        ({"test_days": 30}, "holds every session: the first one begins 2023-11-15"),
        ({"test_days": 0.5}, "holds no session"),
        ({"test_from": "2030-01-01"}, "holds no session"),
        ({"test_files": 2}, "this is one file"),
    ],
)
def test_impossible_splits(clicks: Path, settings: dict[str, object], reason: str) -> None:
    with pytest.raises(BadInputError, match=reason):
        prepare(clicks, PrepareSettings(min_item_clicks=1, **settings))  # type: ignore[arg-type] # values of many types


def test_only_one_test_part() -> None:
    with pytest.raises(BadInputError, match="--test-sessions and --test-days all say"):
        PrepareSettings(test_sessions=3, test_days=2)


def test_period_files_split_by_files_and_are_not_cleaned(tmp_path: Path) -> None:
    for n, lines in enumerate((["1 a", "2 b"], ["3 a", "1 c"], ["4 d", "3 b", "5 a"])):
        (tmp_path / f"period_{n}.txt").write_text("\n".join(lines) + "\n")
    data = prepare(tmp_path, PrepareSettings(test_files=1))
    assert parts(data) == (2, 1, 2)
    assert [data.catalog.id(item) for item in data.train.items] == ["a", "b", "c"]
    assert data.train.times.tolist() == [0, 1, 3]
    assert not data.description.clock
    for split in ({"test_days": 7}, {"test_from": "2016-05-25"}):
        with pytest.raises(BadInputError, match="no timestamps"):
            prepare(tmp_path, PrepareSettings(**split))  # type: ignore[arg-type] # values of many types
    with pytest.raises(BadInputError, match="hold no other; leave out --session-order file"):
        prepare(tmp_path, PrepareSettings(session_order="file"))
    with pytest.raises(BadInputError, match="3 files, and there are 3"):
        prepare(tmp_path, PrepareSettings(test_files=3))
    (tmp_path / "period_1.txt").unlink()
    with pytest.raises(BadInputError, match=r"period_1.txt is missing"):
        prepare(tmp_path)
