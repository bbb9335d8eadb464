"""`nextclick train`: settings from everywhere, and what is left behind."""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nextclick import persistence
from nextclick.cli import main
from nextclick.datasets.prepared import PreparedData

Capture = pytest.CaptureFixture[str]

SMALL = ["--set", "encoder.embedding=16", "--set", "encoder.hidden=16"]


@pytest.fixture(scope="module")
def shop(tiny_data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train") / "shop"
    tiny_data.save(folder)
    return folder


def train(shop: Path, out: Path, *more: object) -> int:
    return main(["train", str(shop), "--out", str(out), "--threads", "1", *map(str, more)])


def test_it_says_what_it_did(shop: Path, tmp_path: Path, capsys: Capture) -> None:
    assert train(shop, tmp_path / "model", "--method", "popularity") == 0
    text = capsys.readouterr().out
    assert "method  Popularity" in text
    assert "clicks  800 (and 160 for validation)" in text
    assert persistence.load(tmp_path / "model").catalog.find(["item 3"])[0] >= 0

    arguments = ("--method", "popularity", "--seed", 7, "--set", "half_life=500", "--json")
    assert train(shop, tmp_path / "model", *arguments) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["settings"] == {"half_life": 500.0}
    assert (facts["method"], facts["seed"], facts["clicks"]) == ("popularity", 7, 800)
    assert persistence.read_config(tmp_path / "model")["seed"] == 7


def test_flags_choose_the_parts_of_man(shop: Path, tmp_path: Path) -> None:
    flags = ["--encoder", "gru4rec", "--memory", "exact", "--memory-size", 50, "--gate", "fixed"]
    small = [f"neural.{part}" if "encoder" in part else part for part in SMALL]
    assert train(shop, tmp_path / "model", *flags, *small) == 0
    model = persistence.load(tmp_path / "model")
    settings = model.settings
    assert model.label == "MAN-GRU4Rec"
    assert (settings.memory.kind, settings.memory.size) == ("exact", 50)
    assert settings.gate.kind == "fixed"
    assert settings.neural.encoder.hidden == 16


def test_flags_of_man_go_with_man(shop: Path, tmp_path: Path, capsys: Capture) -> None:
    assert train(shop, tmp_path / "model", "--method", "narm", "--encoder", "gru4rec") == 2
    assert "--encoder goes with --method man, not with narm" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


def test_flags_override_the_file(shop: Path, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('method = "s-sknn"\nseed = 5\nsample_size = 70\nk = 30\n')
    assert train(shop, tmp_path / "model", "--settings", file, "--set", "k=20", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    settings = facts["settings"]
    assert (settings["kind"], settings["sample_size"], settings["k"]) == ("s-sknn", 70, 20)
    assert facts["seed"] == 5
    assert train(shop, tmp_path / "model", "--settings", file, "--seed", 6, "--json") == 0
    assert json.loads(capsys.readouterr().out)["seed"] == 6


def test_tables_of_the_file_are_the_methods_own(shop: Path, tmp_path: Path) -> None:
    file = tmp_path / "man.toml"
    file.write_text(
        """
        memory = "exact"     # an option of the command, as is
        memory-size = 30
        [neural.encoder]     # a setting of the method, as are all tables
        kind = "gru4rec"
        hidden = 16
        [neural.training]
        epochs = 1
        """
    )
    assert train(shop, tmp_path / "model", "--settings", file) == 0
    settings = persistence.load(tmp_path / "model").settings
    assert (settings.memory.kind, settings.memory.size) == ("exact", 30)
    assert (settings.neural.encoder.hidden, settings.neural.training.epochs) == (16, 1)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("half_live = 3", "settings.toml: half_live: unknown key; did you mean 'half_life'?"),
        ('half_life = "long"', "settings.toml: half_life: input should be a valid number"),
        ('seed = "x"', "settings.toml: seed: Input should be a valid integer"),
        ("seed = -1", "settings.toml: seed: "),
        ("seed = ", "settings.toml: not TOML: Invalid value (at end of document)"),
        ("a = 1\nseed 3", "settings.toml: not TOML: Expected '=' after a key"),
        (b"\xff\xfe", "settings.toml: not UTF-8 text"),
        (None, "settings.toml: no such file"),
    ],
)
def test_what_is_wrong_with_the_file_is_named(
    content: str | bytes | None, reason: str, shop: Path, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "settings.toml"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    arguments = ("--method", "popularity", "--settings", file)
    assert train(shop, tmp_path / "model", *arguments) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("assignment", "reason"),
    [
        ("half_life", "--set half_life: write --set key=value"),
        ("=3", "--set =3: write --set key=value"),
        ("half_life=soon", "--set: half_life: input should be a valid number"),
        ("halflife=3", "--set: halflife: unknown key; did you mean 'half_life'?"),
        ("a.b=3", "--set: a: unknown key"),
    ],
)
def test_what_is_wrong_with_an_assignment_is_named(
    assignment: str, reason: str, shop: Path, tmp_path: Path, capsys: Capture
) -> None:
    arguments = ("--method", "popularity", "--set", assignment)
    assert train(shop, tmp_path / "model", *arguments) == 2
    assert reason in capsys.readouterr().err


def test_what_cannot_be_written_to_is_said_before_training(
    shop: Path, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "todo.txt").touch()
    for out in (tmp_path / "notes", tmp_path / "notes" / "todo.txt", shop):
        assert train(shop, out, "--method", "popularity") == 2
        assert "exists and is not a nextclick model" in capsys.readouterr().err
    PreparedData.load(shop)
    # Before anything else is looked at, in fact.
    assert train(tmp_path / "absent", tmp_path / "notes") == 2
    assert "exists and is not a nextclick model" in capsys.readouterr().err


def test_data_that_is_not_there(tmp_path: Path, capsys: Capture) -> None:
    for path, reason in (
        (tmp_path / "absent", "no such prepared data"),
        (tmp_path, "is not a nextclick prepared data"),
    ):
        assert train(path, tmp_path / "model", "--method", "popularity") == 2
        assert reason in capsys.readouterr().err


def test_without_a_terminal_nothing_but_the_result(
    shop: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert train(shop, tmp_path / "model", "--method", "gru4rec", *SMALL) == 0
    assert capfd.readouterr().err == ""


LONGER = [*SMALL, "--set", "training.epochs=6", "--set", "training.batch=32"]


@contextmanager
def ctrl_c_when(condition: Callable[[], bool]) -> Iterator[None]:
    """Send this process what Ctrl-C sends, as soon as something is the case."""
    over = threading.Event()

    def watch() -> None:
        while not condition() and not over.wait(0.002):
            pass
        if not over.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        signal.signal(signal.SIGINT, before)


def test_it_goes_on_after_ctrl_c(shop: Path, tmp_path: Path, capsys: Capture) -> None:
    interrupted, whole = tmp_path / "interrupted", tmp_path / "whole"
    checkpoint = tmp_path / "interrupted.checkpoint"
    arguments = ("--method", "gru4rec", *LONGER)
    with ctrl_c_when(checkpoint.exists):
        assert train(shop, interrupted, *arguments) == 130
    said = capsys.readouterr().err
    assert "the same command with --resume goes on" in said
    assert "Traceback" not in said
    assert not interrupted.exists()
    assert checkpoint.exists()

    assert train(shop, interrupted, *arguments, "--resume") == 0
    assert not checkpoint.exists()
    assert train(shop, whole, *arguments) == 0
    for name in ("state.safetensors", "config.json", "catalog.json"):
        assert (interrupted / name).read_bytes() == (whole / name).read_bytes()


def test_a_checkpoint_is_not_taken_for_that_of_another_training(
    shop: Path, tmp_path: Path, capsys: Capture
) -> None:
    arguments = ("--method", "gru4rec", *LONGER)
    with ctrl_c_when((tmp_path / "model.checkpoint").exists):
        assert train(shop, tmp_path / "model", *arguments) == 130
    assert train(shop, tmp_path / "model", *arguments, "--seed", 9, "--resume") == 2
    assert "the checkpoint of a training with other settings or data" in capsys.readouterr().err
    assert (tmp_path / "model.checkpoint").exists()


def test_without_resume_it_begins_at_the_beginning(
    shop: Path, tmp_path: Path, capsys: Capture
) -> None:
    checkpoint = tmp_path / "model.checkpoint"
    checkpoint.write_text("of another training")
    assert train(shop, tmp_path / "model", "--method", "gru4rec", *SMALL) == 0
    assert not checkpoint.exists()
    assert train(shop, tmp_path / "model", "--method", "gru4rec", *SMALL, "--resume") == 0
    assert "not there, so training begins at the beginning" in capsys.readouterr().err
