"""`nextclick evaluate`: tables, and the JSON file with everything in it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nextclick import persistence
from nextclick.catalog import Item
from nextclick.cli import main
from nextclick.clicks import ClickLog
from nextclick.datasets.prepared import PreparedData
from nextclick.experiments.runs import evaluate_on
from nextclick.recommender import Recommender

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def folder(
    tiny_data: PreparedData,
    tiny: Callable[[str], Recommender],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A shop, and two models trained on it."""
    folder = tmp_path_factory.mktemp("evaluate")
    tiny_data.save(folder / "shop")
    for method in ("man", "popularity"):
        persistence.save(tiny(method), folder / method)
    return folder


def evaluate(folder: Path, model: str, *more: object) -> int:
    paths = [str(folder / model), str(folder / "shop")]
    return main(["evaluate", *paths, "--threads", "1", *map(str, more)])


def test_a_table_that_fits(folder: Path, capsys: Capture) -> None:
    assert evaluate(folder, "man") == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert "Next items of MAN-NARM" in text
    assert "HR@5  MRR@5  HR@20  MRR@20" in text
    assert "learning          neural gate memory" in text


def test_the_file_holds_everything(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "new" / "result.json"
    assert evaluate(folder, "man", "--out", out, "--limit", 90, "--batch", 30, "--json") == 0
    result = json.loads(out.read_text())
    assert json.loads(capsys.readouterr().out) == result
    for metrics in (result["metrics"], result["new"]["metrics"]):
        assert metrics.keys() == {"HR@5", "MRR@5", "HR@20", "MRR@20"}
    assert (result["tests"], result["batch"], result["limit"]) == (90, 30, 90)
    assert result["updated"] == ["neural", "gate", "memory"]
    assert result["curve"]["tests"][-1] == 90
    assert result["seconds"]["per_recommendation"] > 0
    assert result["seconds"]["learning"] > 0
    assert result["settings"]["neural"]["encoder"]["hidden"] == 16
    assert (result["method"], result["label"], result["seed"]) == ("man", "MAN-NARM", 3)
    assert result["versions"].keys() >= {"nextclick", "torch", "numpy", "python"}
    assert result["data"]["format"] == "memory"


def test_it_is_what_the_library_finds(
    folder: Path, tiny_data: PreparedData, tiny: Callable[[str], Recommender], capsys: Capture
) -> None:
    assert evaluate(folder, "man", "--json") == 0
    assert (
        json.loads(capsys.readouterr().out)["metrics"]
        == evaluate_on(tiny_data, tiny("man")).metrics()
    )


@pytest.mark.parametrize(
    ("update", "learning"),
    [
        ("all", ["neural", "gate", "memory"]),
        ("none", []),
        ("memory", ["memory"]),
        ("memory,neural", ["neural", "memory"]),
        ("neural, gate, memory", ["neural", "gate", "memory"]),
    ],
)
def test_what_learns(update: str, learning: list[str], folder: Path, capsys: Capture) -> None:
    assert evaluate(folder, "man", "--update", update, "--limit", 50, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["updated"] == learning
    assert (result["seconds"]["learning"] > 0) == bool(learning)


def test_the_model_on_disk_stays_as_it_is(folder: Path) -> None:
    before = {file.name: file.read_bytes() for file in (folder / "man").iterdir()}
    assert evaluate(folder, "man", "--limit", 50) == 0
    assert before == {file.name: file.read_bytes() for file in (folder / "man").iterdir()}


def test_settings_from_a_file(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "evaluate.toml"
    file.write_text('update = "none"\nbatch = 7\nlimit = 20\njson = true\n')
    assert evaluate(folder, "popularity", "--settings", file, "--limit", 30) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["updated"], result["batch"], result["tests"]) == ([], 7, 30)
    for content, reason in (
        ("bach = 7", "evaluate.toml: bach: unknown key; did you mean 'batch'?"),
        ("zzz = 7", "evaluate.toml: zzz: unknown key; there are: update, batch, "),
        ("[batch]\na = 1", "evaluate.toml: batch: unknown key"),
        ("batch = 0", "evaluate.toml: batch: "),
        ("[batch", "evaluate.toml: not TOML"),
    ):
        file.write_text(content)
        assert evaluate(folder, "popularity", "--settings", file) == 2
        assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--update", "gate"], "update: Popularity has no 'gate'; there are: all, none, memory"),
        (["--update", "everything"], "update: Popularity has no 'everything'"),
        (["--out", "."], ". is a directory; give the name of a file"),
    ],
)
def test_bad_input(more: list[str], reason: str, folder: Path, capsys: Capture) -> None:
    assert evaluate(folder, "popularity", *more) == 2
    assert reason in capsys.readouterr().err


def test_a_damaged_model_is_named(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    model = persistence.load(folder / "popularity")
    persistence.save(model, tmp_path / "model")
    state = tmp_path / "model" / persistence.STATE
    state.write_bytes(state.read_bytes()[:-1])
    assert main(["evaluate", str(tmp_path / "model"), str(folder / "shop")]) == 2
    assert f"error: {state}: damaged" in capsys.readouterr().err


def test_no_space_for_the_results(folder: Path, small_disk: Path, capsys: Capture) -> None:
    (small_disk / "filling").write_bytes(bytes(64 * 1024))
    assert evaluate(folder, "popularity", "--out", small_disk / "result.json") == 2
    assert "result.json: no space left on the disk" in capsys.readouterr().err
    assert [path.name for path in small_disk.iterdir()] == ["filling"]


def test_data_without_a_test_part(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    log = ClickLog.of([(0, 0, 1.0), (0, 0, 2.0)])
    PreparedData.cut(log, [Item("item 1")], validation=1, test=1).save(tmp_path / "shop")
    assert main(["evaluate", str(folder / "popularity"), str(tmp_path / "shop")]) == 2
    assert "no test part" in capsys.readouterr().err


def test_a_model_meets_data_it_was_not_trained_on(
    folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    """Items are matched by their ids, and sessions are not taken for those of the training."""
    log = ClickLog.of([(s, (s + i) % 3, 2.0 * s + i) for s in range(8) for i in range(2)])
    items = [Item("item 5"), Item("elsewhere"), Item("item 2")]
    PreparedData.cut(log, items, validation=2, test=4).save(tmp_path / "shop")
    arguments = ["evaluate", str(folder / "man"), str(tmp_path / "shop"), "--batch", "1", "--json"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["tests"] == 4
