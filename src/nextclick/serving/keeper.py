"""The keeper: takes snapshots, and clears away what is too old to be needed."""

from __future__ import annotations

import logging
import os
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from nextclick.serving.learner import Learner
from nextclick.serving.live import Live
from nextclick.serving.logs import event
from nextclick.serving.messages import ClosedError, DefectError
from nextclick.serving.settings import EngineSettings
from nextclick.serving.snapshots import Contents
from nextclick.serving.state import StateDirectory
from nextclick.serving.writer import Writer

_PROBLEMS = 20
"""How many problems are remembered."""

AFTER_FAILURE = 30.0
"""Seconds to wait after a snapshot that could not be written: taking one costs time."""

_log = logging.getLogger(__name__)


class Keeper:
    """Takes snapshots when they are due: copied by the learner, written by a thread of its own.

    Parameters
    ----------
    state
        Where to.
    settings
        When.
    live
        What is known of items.
    writer
        Who deletes old records.
    """

    def __init__(
        self, state: StateDirectory, settings: EngineSettings, live: Live, writer: Writer
    ) -> None:
        self.state = state
        self.settings = settings
        self.time: float | None = None
        self._live = live
        self._writer = writer
        self._position = max(state.snapshots.positions, default=0)
        self._tried = time.monotonic()
        self._failed = False
        self._writing: Future[Path] | None = None
        self.background = ThreadPoolExecutor(1, "background", initializer=_give_way)

    @property
    def position(self) -> int:
        """The last record that is in the newest snapshot."""
        return self._position

    def take_if_due(self, learner: Learner) -> None:
        """Take a snapshot if it is time; for the thread that learns."""
        new = learner.learning.position - self._position
        if not new or (self._writing is not None and not self._writing.done()):
            return
        clicks, seconds = self.settings.snapshot_clicks, self.settings.snapshot_seconds
        by_clicks = clicks is not None and new >= clicks
        by_time = seconds is not None and time.monotonic() - self._tried >= seconds
        rest = AFTER_FAILURE if self._failed else 1.0
        if by_time or (by_clicks and time.monotonic() - self._tried >= rest):
            self.take(learner)

    def take(self, learner: Learner) -> Future[Path]:
        """Copy everything, and write it in the background; for the thread that learns."""
        self._tried = time.monotonic()
        contents = Contents.of(learner.learning, list(self._live.items.values()))
        self._writing = self.background.submit(self._write, contents)
        return self._writing

    def close(self) -> None:
        """Finish what was begun."""
        self.background.shutdown()

    def _write(self, contents: Contents) -> Path:
        began = time.perf_counter()
        try:
            path = self.state.snapshots.write(contents)
        except Exception as error:
            self._failed = True
            self.report(f"a snapshot was not written: {error}")
            raise
        self._position = contents.position
        self.time = time.time()
        seconds = round(time.perf_counter() - began, 3)
        event("snapshot_written", number=contents.position, seconds=seconds)
        oldest = min(self.state.snapshots.positions)
        needed = [name for number, name in list(self._live.loaded) if number > oldest]
        self.state.forget_models(needed)
        if self.settings.keep_log is not None:
            with suppress(ClosedError, DefectError):  # then it is done after the next start
                self._writer.forget(oldest, self._writer.log.clock.now() - self.settings.keep_log)
        return path

    def report(self, problem: str) -> None:
        """Remember what went wrong, for those who watch."""
        _log.warning("%s", problem)
        problems = self.state.problems
        problems.append(problem)
        del problems[:-_PROBLEMS]


def _give_way() -> None:
    """Leave the cores to those who answer: this thread runs on what they do not take."""
    with suppress(OSError):  # a system where a thread has no priority of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
