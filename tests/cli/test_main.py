"""The command line as a whole: help, versions, and who is to blame when something goes wrong."""

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import nextclick
from nextclick import persistence
from nextclick.cli import app, main
from nextclick.cli.train import MethodName
from nextclick.methods import METHODS

Capture = pytest.CaptureFixture[str]

VERBS = [
    ["train"],
    ["evaluate"],
    ["recommend"],
    ["demo"],
    ["paper"],
    ["tune"],
    ["data", "fetch"],
    ["data", "prepare"],
    ["data", "info"],
    ["data", "tuning"],
    ["data", "synthesize"],
    ["serve"],
    ["replay"],
    ["keys", "add"],
    ["keys", "list"],
    ["keys", "remove"],
]


def test_the_version(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"nextclick {nextclick.__version__}\n"


def test_without_a_verb_it_says_what_there_is(capsys: Capture) -> None:
    assert main([]) == 0
    text = capsys.readouterr().out
    assert all(verb in text for verb in ("data", "train", "evaluate", "recommend", "demo"))


def test_half_a_verb_is_no_verb(capsys: Capture) -> None:
    assert main(["data"]) == 2
    text = capsys.readouterr().err
    assert text.startswith("Usage: nextclick data ")
    assert "synthesize" in text


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_shows_an_example(verb: list[str], capsys: Capture) -> None:
    assert main([*verb, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"nextclick {' '.join(verb)} " in text.split("Options:")[1], "an example, below all else"
    assert "--json" in text
    assert "--settings" in text
    assert max(map(len, text.splitlines())) <= 80


def test_every_verb_is_tested_here() -> None:
    groups = [group.typer_instance for group in app.registered_groups]
    commands = [*app.registered_commands, *(c for g in groups if g for c in g.registered_commands)]
    assert len(commands) == len(VERBS)


def test_every_method_can_be_named() -> None:
    assert set(get_args(MethodName)) == set(METHODS)


def test_help_is_quick() -> None:
    code = (
        "import sys; from nextclick.cli import main; main(['train', '--help']);"
        "heavy = {'torch', 'faiss', 'polars', 'numba', 'plotly', 'numpy'};"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["trian"], "No such command 'trian'. Did you mean 'train'?\nsee nextclick --help"),
        (["train", "x", "--method", "best"], "'best' is not one of 'man'"),
        (["train", "x"], "Missing option '--out'.\nsee nextclick train --help"),
        (["train", "x", "--out", "y", "--seed", "z"], "Invalid value for '--seed'"),
        (["evaluate", "x", "y", "--batch", "0"], "Invalid value for '--batch'"),
        (["evaluate", "absent", "y"], "absent: no such model"),
        (["recommend", "absent"], "Missing argument 'ITEM...'"),
        (["recommend", "absent", "item"], "absent: no such model"),
    ],
)
def test_bad_input_is_named_and_exits_with_2(
    arguments: list[str], reason: str, capsys: Capture
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert reason in captured.err
    assert captured.out == ""


def test_what_the_file_system_refuses_is_bad_input(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert main(["demo", "--out", str(tmp_path / "loop" / "demo")]) == 2
    assert "loop" in capsys.readouterr().err


def test_a_defect_is_admitted_and_exits_with_1(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persistence, "load", lambda *_: 1 // 0)
    assert main(["recommend", "model", "item"]) == 1
    text = capsys.readouterr().err
    assert "Traceback" in text
    assert "ZeroDivisionError" in text
    assert "this is a defect of nextclick" in text.splitlines()[-1]


def test_the_installed_command_reports_its_exit_code() -> None:
    command = Path(sys.executable).with_name("nextclick")
    done = subprocess.run(
        [command, "evaluate", "a", "b"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "error: a: no such model\n"
