"""`nextclick tune`: the validation part alone, first what the row is, then what is drawn."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from nextclick.cli import main
from nextclick.datasets.prepared import PreparedData
from nextclick.datasets.preparing import prepare
from nextclick.errors import BadInputError
from nextclick.experiments.rows import RowSettings, row_cell, row_settings
from nextclick.experiments.store import Store
from nextclick.experiments.tuning import Tuned, search_space, to_toml, tune
from nextclick.methods import METHODS
from nextclick.runtime import Runtime

Capture = pytest.CaptureFixture[str]


def tuned(data: PreparedData, folder: Path, trials: int) -> tuple[Tuned, list[int]]:
    numbers: list[int] = []
    found = tune(
        "diginetica",
        "s-sknn",
        data,
        trials=trials,
        study_file=folder / "study.log",
        store=Store(folder / "cache"),
        runtime=Runtime(threads=1),
        tell=lambda number, _drawn, _value: numbers.append(number),
    )
    return found, numbers


@pytest.fixture
def data(periods: Path) -> PreparedData:
    return prepare(periods)


def test_a_study_goes_on_and_never_gets_worse(data: PreparedData, tmp_path: Path) -> None:
    first, numbers = tuned(data, tmp_path, 3)
    assert numbers == [1, 2, 3]
    more, numbers = tuned(data, tmp_path, 5)
    assert numbers == [4, 5]
    assert first.before == more.before
    assert first.before["HR@5"] <= first.after["HR@5"] <= more.after["HR@5"]
    assert tuned(data, tmp_path, 5)[1] == []
    assert more.row.study is not None
    assert more.row.study["trials"] == 5
    assert more.row.study["after"]["HR@5"] >= more.row.study["before"]["HR@5"]


def test_the_test_part_is_not_looked_at(data: PreparedData, tmp_path: Path) -> None:
    """With another test part, the same settings are found."""
    other = PreparedData(
        data.train,
        data.validation,
        type(data.test)(data.test.sessions, np.flip(data.test.items), data.test.times),
        data.catalog,
        data.description,
    )
    one = tuned(data, tmp_path / "one", 3)[0]
    two = tuned(other, tmp_path / "two", 3)[0]
    assert (one.row, one.before) == (two.row, two.before)


def test_all_that_is_searched_is_a_setting_of_the_row() -> None:
    file = Path(tune.__code__.co_filename).with_name("search.toml")
    for row, space in tomllib.loads(file.read_text()).items():
        if row_settings("diginetica", row).method not in METHODS:
            continue
        settings = row_cell("diginetica", row).settings
        assert set(search_space(row)) == set(space)
        for path in space:
            value = settings
            for name in path.split("."):
                value = value[name]


def test_a_row_is_written_as_it_is_read() -> None:
    row = RowSettings(
        method="man",
        recipe="paper",
        settings={"memory": {"size": 5}, "remember": "all", "neural": {"online": {"x": None}}},
        chosen='by "hand"',
        study={"trials": 3, "before": {"HR@5": 0.25}, "log": True},
    )
    text = to_toml(row.model_dump(mode="json"))
    assert tomllib.loads(text)["study"] == {"trials": 3, "before": {"HR@5": 0.25}, "log": True}
    assert tomllib.loads(text)["settings"]["neural"]["online"] == {"x": "none"}
    assert RowSettings.model_validate(tomllib.loads(text)).chosen == 'by "hand"'


def test_from_the_command_line(periods: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "row.toml"
    command = ["tune", "diginetica", "sknn", "--data", str(periods), "--trials", "2"]
    command += ["--threads", "1"]
    command += ["--cache", str(tmp_path / "cache"), "--out", str(out)]
    assert main(command) == 0
    captured = capsys.readouterr()
    assert captured.err.splitlines()[0].startswith("[1] ")
    assert captured.out.splitlines()[-1] == f"The settings: {out}"
    row = RowSettings.model_validate(tomllib.loads(out.read_text()))
    assert row.method == "sknn"
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["study"]["trials"] == 2


def test_what_cannot_be_tuned(periods: Path, tmp_path: Path, capsys: Capture) -> None:
    with pytest.raises(BadInputError, match="there is nothing to search for narn"):
        search_space("narn")
    (tmp_path / "study").write_text("nonsense\n")
    command = ["tune", "diginetica", "sknn", "--data", str(periods), "--trials", "1"]
    command += ["--cache", str(tmp_path / "cache"), "--study", str(tmp_path / "study")]
    assert main(command) == 2
    assert "not a study, or a damaged one" in capsys.readouterr().err
