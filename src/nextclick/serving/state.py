"""A state directory: what is in it, and what comes back from it.

====================  ==========================================================================
name                  what it holds
====================  ==========================================================================
``clicks.db``         the log, with SQLite's ``-wal`` and ``-shm`` beside it
``clicks.mark``       the number of the last record that was acknowledged
``snapshots/``        the newest snapshots, each named by the last record that is in it
``models/``           models that records of the log name, as long as they are needed
``lock``              held by the one service that uses the directory
====================  ==========================================================================
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from nextclick import persistence
from nextclick.errors import BadInputError
from nextclick.files import check_directory, make_directory, new_directory, remove_directory
from nextclick.recommender import Recommender
from nextclick.runtime import Runtime
from nextclick.serving.learning import Learning
from nextclick.serving.live import Live
from nextclick.serving.log import Log
from nextclick.serving.pupil import Pupil
from nextclick.serving.settings import EngineSettings
from nextclick.serving.snapshots import Contents, Restored, Snapshots

_CHECKED_AT_START = 16 * 2**20
"""Logs up to so many bytes are checked as a whole before the service starts."""


class StateDirectory:
    """The files of a service, held by this process until they are closed.

    Parameters
    ----------
    path
        The directory; made if it is not there.
    settings
        The engine's.
    runtime
        Threads and device for models that are read.
    changing
        What is held while a model changes.
    """

    def __init__(
        self,
        path: Path,
        settings: EngineSettings,
        runtime: Runtime,
        changing: AbstractContextManager[object],
    ) -> None:
        self.path = path
        self.settings = settings
        self.runtime = runtime
        self.problems: list[str] = []
        self._changing = changing
        self._loaded: dict[str, Recommender] = {}
        make_directory(path)
        self._lock = _locked(path)
        self._log: Log | None = None
        self.snapshots = Snapshots(path / "snapshots", settings.keep_snapshots)

    @property
    def log(self) -> Log:
        """The log; there is one as soon as `recover` has returned."""
        assert self._log is not None
        return self._log

    def recover(self, model: Recommender | Path | None) -> tuple[Learning, Live]:
        """Return what learned up to the newest snapshot, and what requests see now.

        Parameters
        ----------
        model
            What a new state begins with; not looked at where there is a state already.
        """
        restored, self.problems = self.snapshots.newest(self.runtime)
        if restored is not None:
            learning = self._restored(restored)
            items = restored.items
        else:
            learning, items = self._begun(model), {}
        self._log = Log(self.path / "clicks.db")
        problem = self._log.check_end(learning.position)
        if problem is not None:
            self.problems.append(problem)
        self.checked = self._log.size <= _CHECKED_AT_START
        if self.checked:
            self._log.check_all()
        live = Live(
            learning.sessions.copy(),
            items,
            learning.clicks,
            learning.rules if learning.position else None,
            learning.shadow_name,
        )
        # Replay may have to begin at the oldest snapshot, if those after it are damaged.
        oldest = min(self.snapshots.positions)
        live.loaded += self._log.models(oldest, learning.position)
        for records in self._log.read(learning.position):
            for record in records:
                live.apply(record)
        return learning, live

    def keep_model(self, model: Recommender | Path, kind: str) -> str:
        """Keep a copy of a model where the log can name it; return its name."""
        if isinstance(model, Path):
            model = persistence.load(model, self.runtime)
        picture = persistence.Picture.of(model)
        name = f"{kind}-{picture.fingerprint()[:16]}"
        path = self._model(name)
        if path.exists() and not _is_whole(path):  # of the name that its contents give it: ours
            remove_directory(path)
        with new_directory(path, persistence.KIND, persistence.VERSION) as folder:
            picture.write(folder)
        self._loaded[name] = model
        return name

    def leave(self, name: str) -> None:
        """Forget a copy that nobody asks for: no record of the log names it."""
        del self._loaded[name]

    def pupil(self, name: str) -> Pupil:
        """Return the model of this name: it was given just now, or before a restart."""
        model = self._loaded.pop(name, None)
        if model is None:
            model = persistence.load(self._model(name), self.runtime)
        return Pupil(model, self._changing)

    def forget_models(self, needed: Iterable[str]) -> None:
        """Remove the models that no record names any more from which replay could begin."""
        folder = self.path / "models"
        keep = {*needed, *self._loaded}
        for path in folder.iterdir() if folder.exists() else ():
            if path.name.startswith("."):  # of a service that was stopped while it wrote
                shutil.rmtree(path)
            elif path.name not in keep:
                remove_directory(path)

    def close(self) -> None:
        """Let another service use the directory."""
        if self._log is not None:
            self._log.close()
        os.close(self._lock)

    def _restored(self, restored: Restored) -> Learning:
        models = restored.models
        learning = Learning(self.settings, Pupil(models["model"], self._changing), self.pupil)
        if "shadow" in models:
            learning.shadow = Pupil(models["shadow"], self._changing)
        restored.restore(learning)
        return learning

    def _begun(self, model: Recommender | Path | None) -> Learning:
        if self.problems or (self.path / "clicks.db").exists():
            why = "; ".join(self.problems) or "there is a log, but no snapshot"
            raise BadInputError(
                f"{self.path}: no snapshot can be used ({why}); restore the directory from a backup"
            )
        if model is None:
            raise BadInputError(f"{self.path}: no state is there; give a model to begin with")
        if isinstance(model, Path):
            model = persistence.load(model, self.runtime)
        learning = Learning(self.settings, Pupil(model, self._changing), self.pupil)
        self.snapshots.write(Contents.of(learning, ()))
        return learning

    def _model(self, name: str) -> Path:
        return self.path / "models" / name


def _is_whole(model: Path) -> bool:
    try:
        check_directory(model, persistence.KIND, persistence.VERSION)
    except BadInputError:
        return False
    return True


def _locked(state: Path) -> int:
    """Take the state directory for this process, or say that another one has it."""
    descriptor = os.open(state / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise BadInputError(
            f"{state}: another service uses this state directory; stop it, or give another one"
        ) from None
    return descriptor
