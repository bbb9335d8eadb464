"""A service's day, for `recorder.c` to record: clicks, snapshots, models, retention, restarts.

Notes into the record what was sent, what was acknowledged, and every record of the log.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
from pathlib import Path

from nextclick.runtime import Runtime
from nextclick.serving.engine import Engine
from nextclick.serving.messages import NewClick
from nextclick.serving.settings import EngineSettings

RECORDER = ctypes.CDLL(None)


def note(*what: object) -> None:
    RECORDER.record_note(json.dumps(what).encode())


class Day:
    def __init__(self, state: Path, models: list[Path], keep_log: float | None) -> None:
        self._state = state
        self._models = models
        self._settings = EngineSettings(
            write_every=5,
            flush_after=0.01,
            snapshot_clicks=None,
            snapshot_seconds=None,
            keep_snapshots=2,
            keep_log=keep_log,
        )
        self._noted = 0
        self._number = 0
        self._turn = threading.Lock()

    def live(self, rounds: int) -> None:
        for start in range(3):
            engine = Engine.open(
                self._state, self._settings, model=self._models[0], runtime=Runtime(threads=1)
            )
            for each in range(rounds):
                self._click(engine, 3)
                visitors = [threading.Thread(target=self._click, args=(engine, 3)) for _ in "abc"]
                for visitor in visitors:
                    visitor.start()
                for visitor in visitors:
                    visitor.join()
                engine.put_item(f"item {each}", "Title", available=each % 2 == 0).result()
                if each % 3 == 1:
                    engine.flush()
                    self._note_records(engine)
                    engine.snapshot().result()
                if each == 3:
                    engine.load_model(self._models[start % 2]).result()
                self._note_records(engine)
            if start < 2:
                engine.close()
        os._exit(0)

    def _click(self, engine: Engine, requests: int) -> None:
        for _ in range(requests):
            with self._turn:
                self._number += 1
                number = self._number
            session, item = str(number % 7), f"item {number * 7 % 43}"
            note("sent", f"e{number}")
            kept = engine.click([NewClick(session, item, None, f"e{number}")]).result()
            note("kept", f"e{number}", kept[0].number)

    def _note_records(self, engine: Engine) -> None:
        for records in engine._log.read(self._noted):
            for record in records:
                note("record", *record)
                self._noted = record.number


state, models, keep_log, rounds = json.loads(sys.argv[1])
Day(Path(state), [Path(model) for model in models], keep_log).live(rounds)
