"""Snapshots: everything that was learned up to a record of the log, in a directory of its own.

====================  ==========================================================================
file                  what it holds
====================  ==========================================================================
``service.json``      up to which record, counts, live quality, and outlines of what is pending
``sessions.jsonl``    the open sessions, a line for each, the one that waited longest first
``items.jsonl``       what was said of items, a line for each
``model/``            the model that serves: the files of `nextclick.persistence`
``model.safetensors``  the arrays of what it takes to go on in the middle of a batch
``shadow…``           the same of the shadow, if there is one
``manifest.json``     the length and the SHA-256 sum of each of these; written last
====================  ==========================================================================
"""

from __future__ import annotations

import errno
import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from nextclick import persistence
from nextclick.errors import BadInputError, NoSpaceError
from nextclick.files import (
    check_directory,
    make_directory,
    new_directory,
    remove_directory,
)
from nextclick.recommender import Recommender, State
from nextclick.runtime import Runtime
from nextclick.serving.learning import Learning, open_session
from nextclick.serving.messages import Item
from nextclick.serving.pupil import PupilState
from nextclick.sessions import OpenSession

KIND = "snapshot"
VERSION = 1
SERVICE, SESSIONS, ITEMS = "service.json", "sessions.jsonl", "items.jsonl"

_ROW_BYTES = 64
"""What a session or an item needs on disk, roughly."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Contents:
    """What goes into a snapshot: a copy, which stays as it is.

    Parameters
    ----------
    service
        The state of `Learning`, and what else JSON takes.
    sessions
        The open sessions behind the learner.
    items
        What was said of items; it may be ahead of the rest, as the log after it says it again.
    pupils
        By the names of their folders.
    """

    service: dict[str, Any]
    sessions: list[tuple[str, OpenSession]]
    items: list[Item]
    pupils: Mapping[str, PupilState]

    @classmethod
    def of(cls, learning: Learning, items: Iterable[Item]) -> Contents:
        """Copy everything there is; for the thread that learns."""
        pupils = {"model": learning.pupil.state()}
        if learning.shadow is not None:
            pupils["shadow"] = learning.shadow.state()
        return cls(learning.state(), list(learning.sessions), list(items), pupils)

    @property
    def position(self) -> int:
        """The number of the last record that is in it."""
        return int(self.service["position"])

    @property
    def nbytes(self) -> int:
        """How many bytes it needs on disk, roughly."""
        pupils = self.pupils.values()
        arrays = (
            array
            for pupil in pupils
            for array in (*pupil.arrays.values(), *pupil.model.state.values())
        )
        catalog = sum(len(pupil.model.items) for pupil in pupils)
        rows = len(self.sessions) + len(self.items) + catalog
        return sum(array.nbytes for array in arrays) + _ROW_BYTES * rows

    def write(self, folder: Path) -> None:
        """Write the files, all but the manifest."""
        outlines = {}
        for name, pupil in self.pupils.items():
            (folder / name).mkdir()
            pupil.model.write(folder / name)
            persistence.write_arrays(folder / f"{name}.safetensors", pupil.arrays)
            outlines[name] = pupil.outline
        service = {**self.service, "pupils": outlines}
        (folder / SERVICE).write_text(json.dumps(service))
        _write_lines(folder / SESSIONS, ((name, *session) for name, session in self.sessions))
        _write_lines(folder / ITEMS, (asdict(item) for item in self.items))


@dataclass(frozen=True, eq=False)
class Restored:
    """What comes out of a snapshot.

    Parameters
    ----------
    service
        As it went in, with the outlines of pupils under `pupils`.
    sessions
        The open sessions, as rows.
    items
        What was said of items.
    models, arrays
        Of each pupil.
    """

    path: Path
    service: dict[str, Any]
    sessions: list[tuple[str, OpenSession]]
    items: dict[str, Item]
    models: dict[str, Recommender]
    arrays: dict[str, State]

    @classmethod
    def read(cls, path: Path, runtime: Runtime) -> Restored:
        """Read a snapshot, or say what is wrong with it."""
        check_directory(path, KIND, VERSION)
        service: dict[str, Any] = json.loads((path / SERVICE).read_bytes())
        names = list(service["pupils"])
        return cls(
            path,
            service,
            [(name, open_session(row)) for name, *row in _lines(path / SESSIONS)],
            {row["id"]: Item(**row) for row in _lines(path / ITEMS)},
            {name: persistence.read(path / name, runtime) for name in names},
            {name: load_file(path / f"{name}.safetensors") for name in names},
        )

    def restore(self, learning: Learning) -> None:
        """Put everything back; the pupils have their models already."""
        pupils = {"model": learning.pupil, "shadow": learning.shadow}
        for name, outline in self.service["pupils"].items():
            pupil = pupils[name]
            if pupil is not None:
                pupil.restore(outline, self.arrays[name])
        learning.restore(self.service, self.sessions)


class Snapshots:
    """The snapshots of a state directory, the newest `keep` of them.

    Parameters
    ----------
    folder
        Where they are.
    keep
        How many to keep.
    """

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder = folder
        self.keep = keep
        make_directory(folder)
        for left in folder.glob(".*.partial"):  # of a service that was stopped while it wrote
            shutil.rmtree(left)

    @property
    def positions(self) -> list[int]:
        """Up to which records there are snapshots, newest first."""
        return sorted((int(path.name) for path in self._all()), reverse=True)

    def write(self, contents: Contents) -> Path:
        """Write a snapshot, which appears whole or not at all, and remove those too old.

        One that would fill the disk is not begun: clicks need the space.
        """
        path = self._path(contents.position)
        needed, free = contents.nbytes, shutil.disk_usage(self.folder).free
        if free < needed + needed // 8:
            raise NoSpaceError(
                f"{path}: no space left on the disk: {needed:,} bytes are needed, {free:,} are free"
            )
        with new_directory(path, KIND, VERSION) as folder:
            contents.write(folder)
        for position in self.positions[self.keep :]:
            remove_directory(self._path(position))
        return path

    def newest(self, runtime: Runtime) -> tuple[Restored | None, list[str]]:
        """Return the newest snapshot that is whole, and what is wrong with those that are not."""
        problems: list[str] = []
        for position in self.positions:
            path = self._path(position)
            try:
                return Restored.read(path, runtime), problems
            except (BadInputError, OSError) as error:
                if isinstance(error, OSError) and error.errno != errno.EIO:
                    raise
                problems.append(str(error))
                _log.warning("%s; an older snapshot is used instead", error)
                aside = self.folder / f"damaged-{path.name}"
                shutil.rmtree(aside, ignore_errors=True)
                path.rename(aside)
        return None, problems

    def _path(self, position: int) -> Path:
        return self.folder / f"{position:015d}"

    def _all(self) -> Iterator[Path]:
        return (path for path in self.folder.iterdir() if path.name.isdecimal())


def _write_lines(path: Path, rows: Iterable[Any]) -> None:
    """Write rows as JSON, a line for each; in pieces, so that no other thread waits long."""
    rows = iter(rows)
    with path.open("w") as file:
        while piece := list(islice(rows, 200)):
            file.write("".join(f"{json.dumps(row)}\n" for row in piece))


def _lines(path: Path) -> Iterator[Any]:
    with path.open() as file:
        for line in file:
            yield json.loads(line)
