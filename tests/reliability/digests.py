"""What a service has learned, in so few characters that it can be compared to the last bit."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path
from typing import Any

from nextclick.runtime import Runtime
from nextclick.serving.learning import Learning
from nextclick.serving.settings import EngineSettings
from nextclick.serving.state import StateDirectory

RUNTIME = Runtime(threads=1)


def digest(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()[:16]


def of_learning(learning: Learning) -> dict[str, str]:
    """Return digests of everything that a learner is, by name."""
    found = {
        "learning": digest(json.dumps(learning.state()).encode()),
        "sessions": digest(json.dumps(list(learning.sessions)).encode()),
        "position": str(learning.position),
    }
    for name, pupil in (("model", learning.pupil), ("shadow", learning.shadow)):
        if pupil is None:
            continue
        state = pupil.state()
        found[f"{name} catalog"] = digest(repr(list(state.model.items)).encode())
        found[f"{name} outline"] = digest(json.dumps(state.outline).encode())
        arrays = {**state.model.state, **state.arrays}
        for key in sorted(arrays):
            array = arrays[key]
            text = f"{array.dtype} {array.shape} ".encode()
            found[f"{name} {key}"] = digest(text + array.tobytes())
    return found


def recovered(state: Path) -> tuple[Learning, Any, StateDirectory]:
    """Recover a state directory as a service does, and learn all that its log has."""
    files = StateDirectory(state, EngineSettings(), RUNTIME, threading.Lock())
    learning, live = files.recover(None)
    for records in files.log.read(learning.position):
        for record in records:
            learning.take(record)
    return learning, live, files


def of_state(state: Path) -> dict[str, Any]:
    """Return digests of what is recovered from a state directory."""
    learning, live, files = recovered(state)
    sessions = list(live.sessions) == list(learning.sessions)
    return {**of_learning(learning), "live": sessions, "problems": files.problems}
