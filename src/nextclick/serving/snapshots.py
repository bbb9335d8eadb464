"""Snapshots: everything that was learned up to a record of the log, in a directory of its own."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nextclick import persistence
from nextclick.errors import BadInputError
from nextclick.files import check_directory, new_directory
from nextclick.recommender import Recommender
from nextclick.runtime import Runtime

KIND = "snapshot"
VERSION = 1
SERVICE = "service.json"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Snapshot:
    """What a snapshot holds: the models, and the rest as JSON takes it."""

    position: int
    models: Mapping[str, Recommender]
    service: dict[str, Any]


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
        self.newest_position: int | None = None
        folder.mkdir(exist_ok=True)

    def write(self, snapshot: Snapshot) -> Path:
        """Write a snapshot, which appears whole or not at all, and remove those too old."""
        path = self.folder / f"{snapshot.position:015d}"
        models = path.with_suffix(".models")
        for name, model in snapshot.models.items():
            persistence.save(model, models / name)
        with new_directory(path, KIND, VERSION) as folder:
            content = {"position": snapshot.position, **snapshot.service}
            (folder / SERVICE).write_text(json.dumps(content))
        for old in self._newest_first()[self.keep :]:
            shutil.rmtree(old)
            shutil.rmtree(old.with_suffix(".models"), ignore_errors=True)
        self.newest_position = snapshot.position
        return path

    def newest(self, runtime: Runtime) -> Snapshot | None:
        """Return the newest snapshot that is whole; name those that are not."""
        for path in self._newest_first():
            try:
                return self._read(path, runtime)
            except BadInputError as error:
                _log.warning("%s; an older snapshot is used instead", error)
        return None

    def _read(self, path: Path, runtime: Runtime) -> Snapshot:
        check_directory(path, KIND, VERSION)
        service: dict[str, Any] = json.loads((path / SERVICE).read_bytes())
        models = {
            name: persistence.load(path.with_suffix(".models") / name, runtime)
            for name in service["models"]
        }
        return Snapshot(service.pop("position"), models, service)

    def _newest_first(self) -> list[Path]:
        return sorted(self._all(), reverse=True)

    def _all(self) -> Iterator[Path]:
        return (path for path in self.folder.iterdir() if path.name.isdecimal())
