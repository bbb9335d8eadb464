"""`nextclick recommend`: a table for people, JSON for programs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nextclick import persistence
from nextclick.catalog import Catalog
from nextclick.cli import main
from nextclick.clicks import ClickLog
from nextclick.methods import create
from nextclick.recommender import Recommender

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def man(tiny: Callable[[str], Recommender], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recommend") / "man"
    persistence.save(tiny("man"), folder)
    return folder


def test_a_table_of_what_came_from_where(man: Path, capsys: Capture) -> None:
    assert main(["recommend", str(man), "item 1", "item 2", "-k", "5"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    heading, _, *rows = captured.out.strip().splitlines()
    assert heading.split() == ["item", "title", "score", "neural", "memory", "sessions"]
    assert len(rows) == 5
    for row in rows:
        score, neural, memory = map(float, row.split()[-4:-1])
        assert neural + memory == pytest.approx(score, abs=2e-4)
    assert "The " in rows[0]


def test_json(man: Path, tiny: Callable[[str], Recommender], capsys: Capture) -> None:
    assert main(["recommend", str(man), "item 1", "item 2", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    expected = tiny("man").recommend_one(["item 1", "item 2"])
    assert [one["id"] for one in answer] == [one.id for one in expected]
    assert answer[0].keys() == {"id", "title", "score", "neural", "memory", "sessions"}


def test_a_method_of_one_part_has_fewer_columns(
    tiny: Callable[[str], Recommender], tmp_path: Path, capsys: Capture
) -> None:
    persistence.save(tiny("popularity"), tmp_path / "model")
    assert main(["recommend", str(tmp_path / "model"), "item 1"]) == 0
    assert capsys.readouterr().out.split()[:3] == ["item", "title", "score"]


def test_unknown_items_are_passed_over_and_named(man: Path, capsys: Capture) -> None:
    assert main(["recommend", str(man), "item 1", "nonsense", "--json"]) == 0
    captured = capsys.readouterr()
    assert "does not know 'nonsense'" in captured.err
    assert main(["recommend", str(man), "item 1", "--json"]) == 0
    assert captured.out == capsys.readouterr().out
    assert main(["recommend", str(man), "nonsense", "-k", "3"]) == 0
    assert "none of these items, so this is what is popular" in capsys.readouterr().err


AWKWARD = [
    "two words",
    "a,b;c",
    "靴下",
    "ελληνικά",
    "🧦",
    "--k",
    "[bold]markup[/bold]",
    "quote\"'",
    "x" * 1024,
    "\x1b[31mred\x07",
    "two\nlines",
]


def test_any_id_can_be_asked_about_and_shown(tmp_path: Path, capsys: Capture) -> None:
    log = ClickLog.of([(i, i, float(i)) for i in range(len(AWKWARD))])
    model = create("popularity").fit(log, catalog=Catalog(AWKWARD))
    persistence.save(model, tmp_path / "model")
    assert main(["recommend", str(tmp_path / "model"), "--json", "--", *AWKWARD]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert {one["id"] for one in json.loads(captured.out)} == set(AWKWARD)

    assert main(["recommend", str(tmp_path / "model"), "--", "--k"]) == 0
    table = capsys.readouterr().out
    assert max(map(len, table.splitlines())) <= 80
    assert len(table.strip().splitlines()) == 2 + len(AWKWARD)
    assert "[bold]markup[/bold]" in table
    assert "\x1b" not in table
    assert "\\x1b[31mred\\x07" in table
    assert "two\\nlines" in table


def test_an_id_of_ten_megabytes(man: Path, capsys: Capture) -> None:
    assert main(["recommend", str(man), "x" * 10_000_000, "-k", "1"]) == 0
    assert len(capsys.readouterr().err) < 1000
