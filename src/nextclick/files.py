"""Files that are whole or absent: written aside, synced, renamed, and checked when read."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nextclick.errors import BadInputError, NoSpaceError

MANIFEST = "manifest.json"


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Hand out a path to write to; the file appears under its own name only when it is whole.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with new_file(Path(folder) / "answer.txt") as aside:
    ...         _ = aside.write_text("42")
    ...     (Path(folder) / "answer.txt").read_text()
    '42'
    """
    if path.is_dir():
        raise BadInputError(f"{path} is a directory; give the name of a file")
    aside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with _named_write_errors(path):
            make_directory(path.parent)
            yield aside
            sync(aside)
            aside.replace(path)
            sync(path.parent)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def new_directory(path: Path, kind: str, version: int) -> Iterator[Path]:
    """Hand out a directory to fill; it appears whole, with a manifest of checksums, or not at all.

    A directory of the same kind at `path` is replaced; anything else there is left alone.
    """
    check_target(path, kind)
    aside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with _named_write_errors(path):
            make_directory(path.parent)
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir()
            yield aside
            inside = sorted(aside.rglob("*"))
            files = [file for file in inside if file.is_file()]
            for each in inside:
                sync(each)
            sums = {
                file.relative_to(aside).as_posix(): {
                    "sha256": sha256(file),
                    "bytes": file.stat().st_size,
                }
                for file in files
            }
            content = {"kind": kind, "version": version, "files": sums}
            manifest = aside / MANIFEST
            manifest.write_text(json.dumps({**content, "sha256": _own_sum(content)}, indent=1))
            sync(manifest)
            sync(aside)
            _swap(aside, path)
            sync(path.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def make_directory(path: Path) -> None:
    """Make a directory, and those it is in, that are there after a power loss too.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     make_directory(Path(folder) / "one" / "other")
    ...     (Path(folder) / "one" / "other").is_dir()
    True
    """
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    sync(path.parent)


def remove_directory(path: Path) -> None:
    """Remove a directory so that, whenever this is interrupted, it is there whole or not at all.

    What is left of it under another name then, ``.….partial``, is for the next start to remove.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.removed.partial")
    shutil.rmtree(aside, ignore_errors=True)
    path.rename(aside)
    sync(path.parent)
    shutil.rmtree(aside)


def check_target(path: Path, kind: str) -> None:
    """Refuse to write a directory over anything but one of the same kind, or an empty one.

    Examples
    --------
    >>> check_target(Path("a new name"), "model")
    """
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    try:
        read_manifest(path, kind)
    except BadInputError:
        raise BadInputError(
            f"{path} exists and is not a nextclick {kind}; it is left as it is: "
            "choose another name, or remove it"
        ) from None


def check_directory(path: Path, kind: str, version: int) -> None:
    """Refuse a directory that is not whole, not of this kind, or newer than this program."""
    manifest = read_manifest(path, kind)
    if manifest["version"] > version:
        raise BadInputError(
            f"{path / MANIFEST}: written in format version {manifest['version']}, this nextclick "
            f"reads up to {version}; install a newer nextclick"
        )
    own_sum = manifest.pop("sha256", None)
    if own_sum != _own_sum(manifest):
        raise _damaged_manifest(path)
    for name, expected in manifest["files"].items():
        file = path / name
        if not file.is_file():
            raise BadInputError(
                f"{file}: missing, though {MANIFEST} lists it; restore or remake it"
            )
        if file.stat().st_size != expected["bytes"]:
            raise BadInputError(
                f"{file}: damaged: {file.stat().st_size:,} bytes long, {expected['bytes']:,} were "
                "written; restore or remake it"
            )
        if sha256(file) != expected["sha256"]:
            raise BadInputError(
                f"{file}: damaged: its checksum is not the one in {MANIFEST}; restore or remake it"
            )


def read_manifest(path: Path, kind: str) -> dict[str, Any]:
    """Return the manifest of a directory of this kind, or say what the path is instead."""
    if not path.exists():
        raise BadInputError(f"{path}: no such {kind}")
    file = path / MANIFEST
    if not path.is_dir() or not file.is_file():
        raise BadInputError(f"{path} is not a nextclick {kind} (it holds no {MANIFEST})")
    try:
        manifest = json.loads(file.read_bytes())
        listed = manifest["files"]
        actual = manifest["kind"]
        if not isinstance(manifest["version"], int) or not all(
            isinstance(entry["sha256"], str) and isinstance(entry["bytes"], int)
            for entry in listed.values()
        ):
            raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _damaged_manifest(path) from None
    if actual != kind:
        raise BadInputError(f"{path} is a nextclick {actual}, not a {kind}")
    return dict(manifest)


def sha256(path: Path) -> str:
    """Return a file's SHA-256 sum in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Wait until a file or directory is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _damaged_manifest(path: Path) -> BadInputError:
    return BadInputError(f"{path / MANIFEST}: damaged; restore or remake {path}")


def _own_sum(content: dict[str, Any]) -> str:
    """Return the checksum by which a manifest vouches for itself."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _swap(aside: Path, path: Path) -> None:
    """Put a directory in its place; a reader sees the old one or the new one.

    What was there before is at `aside` afterwards, or gone.
    """
    if not path.exists():
        aside.rename(path)
    elif not _exchange(aside, path):
        _replace_in_two_steps(aside, path)


def _exchange(one: Path, other: Path) -> bool:
    """Let two paths change places at once; false where the system cannot (it needs Linux)."""
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None) if os.name == "posix" else None
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return (
        renameat2 is not None
        and renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0
    )


def _replace_in_two_steps(aside: Path, path: Path) -> None:
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    path.rename(old)
    aside.rename(path)
    shutil.rmtree(old)


@contextmanager
def _named_write_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise NoSpaceError(
                f"{path}: no space left on the disk; nothing was written, what was there before is "
                "still there"
            ) from error
        if error.errno in (errno.ENOTDIR, errno.EEXIST):
            raise BadInputError(
                f"{path}: cannot be written: {error.filename} is not a directory"
            ) from error
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise BadInputError(f"{path}: cannot be written: {error.strerror}") from error
        raise
