"""Files and directories are whole or absent, whatever happens while they are written."""

import json
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nextclick import files
from nextclick.errors import BadInputError
from nextclick.files import MANIFEST, check_directory, new_directory, new_file


def write(path: Path, text: str, *, version: int = 1, kind: str = "thing") -> None:
    with new_directory(path, kind, version) as folder:
        (folder / "one.txt").write_text(text)
        (folder / "two.bin").write_bytes(bytes(range(100)))


def write_half(path: Path) -> None:
    with new_file(path) as aside:
        aside.write_text("half")
        raise ZeroDivisionError


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "new" / "answer.txt"
    with new_file(target) as aside:
        aside.write_text("42")
        assert not target.exists()
    assert target.read_text() == "42"

    with pytest.raises(ZeroDivisionError):
        write_half(target)
    assert target.read_text() == "42"
    assert entries(target.parent) == ["answer.txt"]


def test_a_directory_where_a_file_should_be(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="is a directory; give the name of a file"):
        new_file(tmp_path).__enter__()


def test_a_directory_is_replaced_at_once_and_only_by_a_whole_one(tmp_path: Path) -> None:
    target = tmp_path / "thing"
    write(target, "old")
    inode = target.stat().st_ino
    with pytest.raises(TypeError):
        write(target, None)  # type: ignore[arg-type] # values of many types
    check_directory(target, "thing", 1)
    assert (target / "one.txt").read_text() == "old"

    write(target, "new")
    check_directory(target, "thing", 1)
    assert (target / "one.txt").read_text() == "new"
    assert target.stat().st_ino != inode
    assert entries(tmp_path) == ["thing"]


def test_a_directory_is_replaced_where_the_system_cannot_exchange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "thing", "old")
    monkeypatch.setattr(files, "_exchange", lambda *_: False)
    write(tmp_path / "thing", "new")
    check_directory(tmp_path / "thing", "thing", 1)
    assert (tmp_path / "thing" / "one.txt").read_text() == "new"
    assert entries(tmp_path) == ["thing"]


@pytest.mark.skipif(sys.platform != "linux", reason="exchanging needs Linux")
def test_paths_are_exchanged_at_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    assert files._exchange(tmp_path / "a", tmp_path / "b")
    assert entries(tmp_path / "a") == ["b"]
    assert not files._exchange(tmp_path / "a", tmp_path / "absent")


def test_an_empty_directory_is_filled_and_anything_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path / "empty", "text")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    (tmp_path / "file").touch()
    write(tmp_path / "other", "text", kind="model")
    for name in ("photos", "file", "other"):
        with pytest.raises(BadInputError, match="exists and is not a nextclick thing"):
            write(tmp_path / name, "text")
    assert entries(tmp_path / "photos") == ["cat.jpg"]


def test_any_damage_is_named(tmp_path: Path) -> None:
    target = tmp_path / "thing"
    write(target, "text that matters")
    for file in sorted(target.iterdir()):
        good = file.read_bytes()
        for position in range(len(good)):
            flipped = bytearray(good)
            flipped[position] ^= 1
            file.write_bytes(flipped)
            with pytest.raises(BadInputError, match=str(target)):
                check_directory(target, "thing", 1)
        for length in (0, len(good) // 2, len(good) - 1):
            file.write_bytes(good[:length])
            with pytest.raises(BadInputError, match=f"{file}: damaged"):
                check_directory(target, "thing", 1)
        file.unlink()
        with pytest.raises(BadInputError, match=file.name):
            check_directory(target, "thing", 1)
        file.write_bytes(good)
    check_directory(target, "thing", 1)


def test_what_is_not_a_manifest_is_named(tmp_path: Path) -> None:
    for content in ("[]", "{}", '{"kind": "thing", "version": "1", "files": {}}', "\x00"):
        (tmp_path / MANIFEST).write_text(content)
        with pytest.raises(BadInputError, match=f"{MANIFEST}: damaged"):
            check_directory(tmp_path, "thing", 1)
    with pytest.raises(BadInputError, match="no such thing"):
        check_directory(tmp_path / "absent", "thing", 1)


def test_another_kind_and_a_newer_version_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "thing", "text", version=2)
    with pytest.raises(BadInputError, match="is a nextclick thing, not a model"):
        check_directory(tmp_path / "thing", "model", 2)
    with pytest.raises(BadInputError, match=r"format version 2, .* up to 1; install a newer"):
        check_directory(tmp_path / "thing", "thing", 1)
    # A newer version is called newer even if its manifest has another form of checksum.
    manifest = json.loads((tmp_path / "thing" / MANIFEST).read_text())
    (tmp_path / "thing" / MANIFEST).write_text(json.dumps({**manifest, "version": 3}))
    with pytest.raises(BadInputError, match="install a newer"):
        check_directory(tmp_path / "thing", "thing", 2)


def test_a_file_limit_leaves_what_was_there(tmp_path: Path) -> None:
    write(tmp_path / "thing", "old")
    (tmp_path / "file").write_text("old")
    with files_no_longer_than(1000):
        with pytest.raises(BadInputError, match="no space left"):
            write(tmp_path / "thing", "x" * 5000)
        with (
            pytest.raises(BadInputError, match="no space left"),
            new_file(tmp_path / "file") as aside,
        ):
            aside.write_text("x" * 5000)
    check_directory(tmp_path / "thing", "thing", 1)
    assert entries(tmp_path) == ["file", "thing"]
    assert (tmp_path / "file").read_text() == "old"


def test_a_full_disk_leaves_what_was_there(small_disk: Path) -> None:
    write(small_disk / "thing", "x" * 10_000)
    with pytest.raises(BadInputError, match="no space left"):
        write(small_disk / "thing", "x" * 100_000)
    check_directory(small_disk / "thing", "thing", 1)
    assert entries(small_disk) == ["thing"]


def test_a_parent_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInputError, match=r"cannot be written: .*file is not a directory"):
        write(tmp_path / "file" / "thing", "text")
