"""kill -9 at random moments under load: what was acknowledged is there, exactly once."""

from __future__ import annotations

import http.client
import json
import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import digests
import httpx
import pytest

from nextclick import persistence
from nextclick.serving.answering import Question, answer
from nextclick.serving.learning import Learning
from nextclick.serving.log import Log
from nextclick.serving.messages import Ask
from nextclick.serving.pupil import Pupil
from nextclick.serving.settings import EngineSettings

VISITORS = 4
ENGINE = "[engine]\nwrite_every = 7\nflush_after = 0.05\nsnapshot_clicks = 150\n"


class Visitor(threading.Thread):
    """Sends clicks until the service is gone, and remembers what it was told of each."""

    def __init__(self, port: int, session: str, seed: int) -> None:
        super().__init__()
        self.session = session
        self.kept: list[str] = []
        self.refused: list[str] = []
        self.unknown: list[str] = []
        self._port = port
        self._random = random.Random(seed)
        self._number = 0

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        sent: list[str] = []
        try:
            while True:
                method, path, body, sent = self._request()
                headers = {"content-type": "application/json"}
                connection.request(method, path, json.dumps(body), headers)
                response = connection.getresponse()
                response.read()
                (self.kept if response.status == 200 else self.refused).extend(sent)
                sent = []
                if self._random.random() < 0.02:
                    connection.request("POST", "/v1/admin/snapshot")
                    connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            self.unknown.extend(sent)  # it was sent, and no answer came
        finally:
            connection.close()

    def _request(self) -> tuple[str, str, Any, list[str]]:
        chance = self._random.random()
        if chance < 0.1:
            return "PUT", f"/v1/items/item%20{self._random.randrange(40)}", {"title": "T"}, []
        clicks = [self._click() for _ in range(1 if chance < 0.6 else self._random.randrange(1, 9))]
        events = [click["event_id"] for click in clicks]
        if chance < 0.2:  # one that cannot be kept: none of them is
            clicks.append({"session_id": self.session, "item_id": ""})
        if chance < 0.5 and len(clicks) == 1:
            body = {key: clicks[0][key] for key in ("item_id", "event_id")}
            return "POST", f"/v1/sessions/{self.session}/clicks?recommend=5", body, events
        return "POST", "/v1/clicks", clicks, events

    def _click(self) -> dict[str, Any]:
        self._number += 1
        item = self._random.randrange(40) if self._random.random() < 0.98 else self._number + 1_000
        return {
            "session_id": self.session,
            "item_id": f"item {item}",
            "event_id": f"{self.session}/{self._number}",
        }


class Reference:
    """What a service that is never interrupted learns from the same log."""

    def __init__(self, saved: Callable[[str], Path]) -> None:
        self._known = {}
        for name in ("man", "s-sknn"):
            model = persistence.load(saved(name), digests.RUNTIME)
            fingerprint = persistence.Picture.of(model).fingerprint()[:16]
            self._known[fingerprint] = saved(name)
        first = persistence.load(saved("man"), digests.RUNTIME)
        settings = EngineSettings()
        self.learning = Learning(settings, self._pupil(first), self._load)

    def follow(self, state: Path) -> None:
        """Learn what the log has by now."""
        log = Log(state / "clicks.db")
        for records in log.read(self.learning.position):
            for record in records:
                self.learning.take(record)
        log.close()

    def _load(self, name: str) -> Pupil:
        path = self._known[name.rpartition("-")[2]]
        return self._pupil(persistence.load(path, digests.RUNTIME))

    @staticmethod
    def _pupil(model: Any) -> Pupil:
        return Pupil(model, threading.Lock())


class Ledger:
    """What became of every click that was sent, by its event id."""

    def __init__(self) -> None:
        self.fate: dict[str, str] = {}
        self.kept: list[str] = []

    def note(self, visitor: Visitor) -> None:
        self.kept += visitor.kept
        for fate in ("kept", "refused", "unknown"):
            self.fate |= dict.fromkeys(getattr(visitor, fate), fate)

    def check(self, there: list[str]) -> None:
        """Check the log's clicks: all that were acknowledged, once, in order, and none refused."""
        assert max(Counter(there).values()) == 1
        place = {event: n for n, event in enumerate(there)}
        missing = [event for event in self.kept if event not in place]
        assert not missing, missing[:10]
        wrong = [event for event in there if self.fate.get(event) not in ("kept", "unknown")]
        assert not wrong, wrong[:10]
        for one, other in pairwise(self.kept):
            if one.partition("/")[0] == other.partition("/")[0]:
                assert place[one] < place[other]


@pytest.mark.slow
def test_kill_under_load(
    zygote: Any, saved: Callable[[str], Path], tmp_path: Path, amount: Any, tell: Any
) -> None:
    kills = int(amount("kills", 20, 1_000))
    chance = random.Random(int(amount("seed", 7, 7)))
    state, settings = tmp_path / "state", tmp_path / "serve.toml"
    settings.write_text(ENGINE)
    arguments = [str(saved("man")), "--state", str(state), "--settings", str(settings)]
    arguments += ["--shadow", str(saved("s-sknn"))]
    for name in ("man", "s-sknn"):
        zygote.warm_up(saved(name))
    reference, ledger = Reference(saved), Ledger()
    counts: Counter[str] = Counter()
    began = time.monotonic()
    for cycle in range(kills):
        service = zygote.serve(*arguments)
        if chance.random() < 0.1:
            time.sleep(chance.uniform(0, 0.5))
            service.kill()
            counts["killed while starting"] += 1
        else:
            service.wait_until_ready()
            visit_and_kill(service, cycle, chance, saved, ledger)
            counts["killed under load"] += 1
        if cycle % 10 == 9 or cycle == kills - 1:
            compare(zygote, arguments, state, reference, tmp_path)
            ledger.check(events(state))
            counts["compared"] += 1
            tell(
                kills=cycle + 1,
                **counts,
                **Counter(ledger.fate.values()),
                records=reference.learning.position,
                models=reference.learning.version,
                seconds=round(time.monotonic() - began),
            )


def visit_and_kill(
    service: Any,
    cycle: int,
    chance: random.Random,
    saved: Callable[[str], Path],
    ledger: Ledger,
) -> None:
    """Let visitors click, and perhaps another model be loaded; then kill the service."""
    visitors = [
        Visitor(service.port, f"{cycle}-{n}", seed=cycle * VISITORS + n) for n in range(VISITORS)
    ]
    threads: list[threading.Thread] = [*visitors]
    if chance.random() < 0.1:
        model = saved(chance.choice(["man", "s-sknn"]))
        threads.append(threading.Thread(target=load_model, args=(service.url, model)))
    for thread in threads:
        thread.start()
    time.sleep(chance.uniform(0, 1.2))
    service.kill()
    for thread in threads:
        thread.join()
    for visitor in visitors:
        ledger.note(visitor)


def compare(
    zygote: Any, arguments: list[str], state: Path, reference: Reference, folder: Path
) -> None:
    """Compare what is recovered with what was never interrupted: its state, and its answers."""
    recovered = zygote.digest(state, folder / "digests.json")
    reference.follow(state)
    assert recovered.pop("live")
    assert recovered.pop("problems") == []
    assert recovered == digests.of_learning(reference.learning)
    service = zygote.serve(*arguments)
    service.wait_until_ready()
    asked = [[f"item {n}", f"item {n + 1}"] for n in range(3)] + [[]]
    with httpx.Client(base_url=service.url, timeout=30) as client:
        wait_until_learned(client)
        told = [
            client.post("/v1/recommendations", json={"items": items, "k": 10}).json()
            for items in asked
        ]
    service.kill()
    reference.follow(state)
    learning = reference.learning
    _, live, files = digests.recovered(state)
    files.close()
    for one, context in zip(told, asked, strict=True):
        question = Question(Ask(items=tuple(context), k=10), None)
        right = answer([question], learning.pupil, learning.version, live.items)[0]
        assert [(item["item_id"], item["score"]) for item in one["items"]] == [
            (item.id, item.score) for item in right.items
        ]
        assert one["model"] == right.model


def wait_until_learned(client: httpx.Client) -> None:
    for _ in range(200):
        stats = client.get("/v1/stats").json()
        if stats["lag_clicks"] == 0 and stats["lag_seconds"] == 0:
            assert stats["learning_error"] is None
            return
        time.sleep(0.1)
    raise AssertionError(stats)


def load_model(url: str, path: Path) -> None:
    try:
        httpx.post(f"{url}/v1/admin/model", json={"path": str(path.resolve())}, timeout=30)
    except httpx.TransportError:
        return


def events(state: Path) -> list[str]:
    """Return the event ids of all clicks in the log, in order."""
    connection = sqlite3.connect(state / "clicks.db")
    rows = connection.execute("SELECT event_id FROM records WHERE kind = 'click' ORDER BY number")
    found = [str(event) for (event,) in rows]
    connection.close()
    return found
