"""`nextclick demo`, on a small shop."""

import json
from pathlib import Path

import pytest

from nextclick import persistence
from nextclick.cli import main
from nextclick.datasets.prepared import PreparedData

Capture = pytest.CaptureFixture[str]

LABELS = ["Popularity", "S-SKNN", "NARM-Fixed", "NARM", "MAN-NARM"]
SMALL = ["--sessions", "500", "--threads", "1"]


@pytest.mark.slow
def test_the_demonstration(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "new" / "demo"
    assert main(["demo", *SMALL, "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    lines = captured.out.splitlines()
    assert max(map(len, lines[:-3])) <= 80, "tables fit; paths are as long as they are"

    rows = [line.split() for line in lines if line.split()[:1] and line.split()[0] in LABELS]
    assert [row[0] for row in rows] == LABELS
    assert all(len(row) == 1 + 4 + 4 + 1 for row in rows)
    heading = next(line for line in lines if line.split()[:1] == ["method"])
    assert heading.split()[1:] == ["HR@5", "MRR@5", "HR@20", "MRR@20"] * 2 + ["ms"]
    assert float(rows[1][3]) > float(rows[0][3]), "S-SKNN knows more than what is popular"

    report = Path(lines[-1])
    assert report == out / "report.html"
    html = report.read_text(encoding="utf-8")
    assert all(f">{label}</th>" in html for label in LABELS)

    # What it recommended can be asked for again, from what it left behind.
    data, model = PreparedData.load(out / "shop"), persistence.load(out / "model")
    again = next(line for line in lines if line.startswith("Ask again:")).split()
    ids = again[again.index(str(out / "model")) + 1 :]
    for recommended in model.recommend_one(ids, 10):
        assert any(recommended.id in line and str(recommended.title) in line for line in lines)
    assert set(ids) <= {data.catalog.id(item) for item in data.test.items.tolist()}

    # The fixed network and the one that learns began as the same.
    assert main(["demo", *SMALL, "--out", str(out), "--json"]) == 0
    second = json.loads(capsys.readouterr().out)
    assert list(second["results"]) == LABELS
    for row, label in zip(rows, LABELS, strict=True):
        for column, metric in enumerate(heading.split()[1:5], start=1):
            assert row[column] == f"{second['results'][label]['metrics'][metric]:.3f}"


def test_what_cannot_be_demonstrated(tmp_path: Path, capsys: Capture) -> None:
    assert main(["demo", "--sessions", "10", "--out", str(tmp_path / "demo")]) == 2
    assert "sessions is 10; the demonstration needs 500" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert main(["demo", *SMALL, "--out", str(tmp_path / "file")]) == 2
    assert "file" in capsys.readouterr().err
    (tmp_path / "mine" / "model").mkdir(parents=True)
    (tmp_path / "mine" / "model" / "clay").touch()
    assert main(["demo", *SMALL, "--out", str(tmp_path / "mine")]) == 2
    assert "exists and is not a nextclick model" in capsys.readouterr().err
