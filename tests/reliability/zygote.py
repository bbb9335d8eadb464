"""Starts services quickly: all is imported once, and each service is a fork of this process.

Reads commands, a line of JSON each, and answers with a number: ``{"serve": [...], "log": file}``
and ``{"digest": state, "to": file}`` with the process's id, ``{"wait": id}`` with its exit code.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nextclick.cli import main
from nextclick.runtime import Runtime
from nextclick.serving import process
from nextclick.serving.engine import Engine
from nextclick.serving.messages import Ask, NewClick
from nextclick.serving.settings import EngineSettings

assert process  # imported for the forks


def warm_up(model: str) -> int:
    """Use a model once, so that what is compiled is there in every fork."""
    with TemporaryDirectory() as folder:
        settings = EngineSettings(write_every=2)
        with Engine.open(
            Path(folder), settings, model=Path(model), runtime=Runtime(threads=1)
        ) as engine:
            items = [item.id for item in engine.recommend([Ask()]).result()[0].items]
            engine.click(
                [NewClick(str(n // 5), items[n % len(items)]) for n in range(150)]
            ).result()
            engine.flush()
            engine.recommend([Ask(str(n), explain=True) for n in range(3)]).result()
            engine.recommend([Ask("1", explain=True)]).result()
    return threading.active_count()


def run(command: dict[str, Any]) -> int:
    if "serve" in command:
        out = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.close(0)
        return main(["serve", *command["serve"]])
    import digests

    Path(command["to"]).write_text(json.dumps(digests.of_state(Path(command["digest"]))))
    return 0


def answer(command: dict[str, Any]) -> int:
    if "warm" in command:
        return warm_up(command["warm"])
    if "wait" in command:
        return os.waitstatus_to_exitcode(os.waitpid(command["wait"], 0)[1])
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        code = run(command)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # nothing is closed: the files stay as they are


for line in sys.stdin:
    os.write(1, b"%d\n" % answer(json.loads(line)))
