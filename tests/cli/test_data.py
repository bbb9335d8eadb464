"""`nextclick data`, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nextclick.cli import main
from nextclick.datasets import PreparedData, PrepareSettings, prepare

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("shop") / "clicks.csv"
    assert main(["data", "synthesize", "--sessions", "400", "--seed", "3", "--out", str(file)]) == 0
    return file


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_from_a_made_up_shop_to_prepared_data(shop: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "data"
    assert run("data", "prepare", shop, "--test-days", 5, "--out", out) == 0
    text = capsys.readouterr().out
    assert "sessions of the last 5 days" in text
    assert "items under 5 clicks dropped" in text
    expected = prepare(shop, PrepareSettings(test_days=5))
    data = PreparedData.load(out)
    assert data.test.items.tolist() == expected.test.items.tolist()
    assert data.description == expected.description

    assert run("data", "info", out) == 0
    assert capsys.readouterr().out == text
    assert run("data", "info", out, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["parts"]["test"]["sessions"] == data.test.n_sessions
    assert facts["parts"]["test"]["clicks"] == len(data.test)
    assert facts["parts"]["train"]["items"] == data.n_train_items
    assert facts["parts"]["train"]["new_items"] == 0
    assert facts["items"] == len(data.catalog)
    assert facts["description"]["settings"] == {"test_days": 5.0}


def test_tables_fit_eighty_columns(shop: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run("data", "prepare", shop, "--out", tmp_path / "data") == 0
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith(" ")]
    assert any("clicks dropped" in line for line in table)
    assert any("validation" in line for line in table)
    assert max(map(len, table)) <= 80


def test_tuning_data(shop: Path, tmp_path: Path, capsys: Capture) -> None:
    run("data", "prepare", shop, "--out", tmp_path / "data")
    assert run("data", "tuning", tmp_path / "data", "--out", tmp_path / "tuning") == 0
    data, tuning = PreparedData.load(tmp_path / "data"), PreparedData.load(tmp_path / "tuning")
    assert tuning.test.times.tolist() == data.validation.times.tolist()
    assert "for tuning" in capsys.readouterr().out


def test_settings_from_a_file_and_flags(shop: Path, tmp_path: Path) -> None:
    file = tmp_path / "prepare.toml"
    file.write_text(f'out = "{tmp_path}/data"\ntest-sessions = 30\nmin-item-clicks = 3\n')
    assert run("data", "prepare", shop, "--settings", file, "--test-sessions", 20) == 0
    data = PreparedData.load(tmp_path / "data")
    assert data.test.n_sessions == 20
    assert data.description.settings == {"test_sessions": 20, "min_item_clicks": 3}


def test_users_and_pauses(tmp_path: Path) -> None:
    lines = ["user_id,item_id,timestamp"]
    # Each user comes back every 40 minutes, and stays away for a day after every tenth click.
    times = [1_700_000_000 + 600 * n + 86_400 * (n // 40) for n in range(160)]
    lines += [f"u{n % 4},i{n % 3},{time}" for n, time in enumerate(times)]
    file = tmp_path / "log.csv"
    file.write_text("\n".join(lines))
    out = tmp_path / "data"
    assert run("data", "prepare", file, "--out", out) == 2
    assert run("data", "prepare", file, "--session-gap", "45m", "--out", out) == 0
    data = PreparedData.load(out)
    assert sum(log.n_sessions for log in data.parts.values()) == 16
    assert run("data", "prepare", file, "--session-gap", "0m", "--out", out) == 2


def test_another_order_than_time_warns(shop: Path, tmp_path: Path, capsys: Capture) -> None:
    arguments = ("data", "prepare", shop, "--session-order", "item-hash", "--out", tmp_path / "d")
    assert run(*arguments) == 0
    assert "warning: the clicks of each session are in a fixed" in capsys.readouterr().err
    assert run("data", "info", tmp_path / "d", "--json") == 0
    captured = capsys.readouterr()
    assert "not of time" in json.loads(captured.out)["description"]["warning"]
    assert "not of time" in captured.err


ONE_SESSION = "session_id,item_id,timestamp\n" + "a,x,1\na,y,2\n" * 6
ONE_ITEM = "session_id,item_id,timestamp\n" + "".join(f"s{n // 2},x,{n}\n" for n in range(20))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "the file is empty"),
        ("a,b\n1,2\n", "no column 'timestamp'"),
        (ONE_SESSION, "no clicks are left|only one session is left"),
        (ONE_ITEM, "only one item is left"),
        ("session_id,item_id,timestamp\na,x,noon\n", "line 2"),
    ],
)
def test_bad_clicks_end_with_two(
    content: str, reason: str, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "clicks.csv"
    file.write_text(content)
    assert run("data", "prepare", file, "--out", tmp_path / "data") == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {file}")
    assert any(part in error for part in reason.split("|"))
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "options",
    [
        ("--test-sessions", "3", "--test-days", "2"),
        ("--test-sessions", "0"),
        ("--test-days", "-1"),
        ("--test-from", "yesterday"),
        ("--validation-share", "2"),
        ("--session-gap", "a while"),
        ("--format", "excel"),
        ("--cleaning", "never"),
    ],
)
def test_bad_options_end_with_two(
    options: tuple[str, ...], shop: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert run("data", "prepare", shop, *options, "--out", tmp_path / "data") == 2
    assert options[0] in capsys.readouterr().err or options[0] == "--session-gap"


def test_what_is_not_prepared_data_is_left_alone(
    shop: Path, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("Dear")
    assert run("data", "prepare", shop, "--out", tmp_path / "letters") == 2
    assert "left as it is" in capsys.readouterr().err
    assert run("data", "info", tmp_path / "letters") == 2
    assert run("data", "info", shop) == 2
    assert run("data", "prepare", tmp_path, "--out", tmp_path / "data") == 2
    assert "is a directory without period_0.txt" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["letters"]


def test_fetch_names_what_there_is(tmp_path: Path, capsys: Capture) -> None:
    assert run("data", "fetch", "amazon", "--out", tmp_path) == 2
    assert "there are diginetica, yoochoose" in capsys.readouterr().err


def test_fetched_data_are_prepared_by_name(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    folder = tmp_path / "data" / "diginetica"
    folder.mkdir(parents=True)
    for file in (shared_data / "diginetica").glob("period_*.txt"):
        (folder / file.name).symlink_to(file)
    monkeypatch.chdir(tmp_path)
    # All files are there and whole, so that nothing is asked of the network.
    assert run("data", "fetch", "diginetica", "--base-url", "http://127.0.0.1:9") == 0
    assert "nextclick data prepare diginetica" in capsys.readouterr().out
    assert run("data", "prepare", "diginetica", "--out", "prepared") == 0
    assert "the last 59,240 sessions (the published split" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["fetch", "prepare", "info", "tuning", "synthesize"])
def test_help_shows_an_example(verb: str, capsys: Capture) -> None:
    assert run("data", verb, "--help") == 0
    assert f"nextclick data {verb}" in capsys.readouterr().out.split("Example", 1)[1]
