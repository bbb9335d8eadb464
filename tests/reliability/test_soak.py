"""Millions of clicks: what the service keeps in memory and on disk reaches a plateau and stays."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from nextclick import persistence
from nextclick.recommender import Recommender

SAMPLES = 40
MOST_BEHIND = 40_000
"""How many clicks the learner may be behind before more are sent."""

SETTINGS = """\
keep-log = "20s"
rate = 1_000_000
[engine]
write_every = 50
idle = 30
snapshot_seconds = 10
snapshot_clicks = 200_000
open_sessions = 5_000
[limits]
import_bytes = 1_000_000_000
"""


def lines(start: int, stop: int) -> Iterator[bytes]:
    """Yield clicks of sessions that are ever new, in pieces."""
    chance = random.Random(start)
    piece = []
    for number in range(start, stop):
        session = f"s{number // 5}"
        item = (number // 5 * 7 + number % 5 * chance.randint(0, 3)) % 40
        click = {"session_id": session, "item_id": f"item {item}", "event_id": str(number)}
        piece.append(json.dumps(click) + "\n")
        if len(piece) == 1_000:
            yield "".join(piece).encode()
            piece = []
    yield "".join(piece).encode()


@pytest.mark.slow
def test_many_clicks(
    zygote: Any,
    make_tiny: Callable[..., Recommender],
    tmp_path: Path,
    amount: Any,
    tell: Any,
) -> None:
    clicks = int(amount("clicks", 12_000, 10_000_000))
    most = 60 * amount("minutes", 5, 180)
    model = make_tiny("man", memory={"neighbours": 20, "size": 2_000})
    persistence.save(model, tmp_path / "model")
    settings, state = tmp_path / "serve.toml", tmp_path / "state"
    settings.write_text(SETTINGS)
    service = zygote.serve(
        str(tmp_path / "model"), "--state", str(state), "--settings", str(settings)
    )
    service.wait_until_ready()
    began = time.monotonic()
    curve: list[dict[str, float]] = []
    sent = 0
    with httpx.Client(base_url=service.url, timeout=600) as http:
        for sample in range(1, SAMPLES + 1):
            upto = clicks * sample // SAMPLES
            while sent < upto:
                stop = min(upto, sent + 20_000)
                answer = http.post(
                    "/v1/clicks/import",
                    content=lines(sent, stop),
                    headers={"content-type": "application/x-ndjson"},
                )
                assert answer.json()["accepted"] == stop - sent, answer.text
                sent = stop
                stats = wait(http)
                http.get(f"/v1/sessions/s{sent // 5 - 1}/recommendations?explain=true")
            disk = sum(path.stat().st_size for path in state.rglob("*") if path.is_file())
            curve.append(
                {
                    "clicks": stats["clicks"],
                    "seconds": round(time.monotonic() - began, 1),
                    "resident": service.resident,
                    "disk": disk,
                    "log": (state / "clicks.db").stat().st_size,
                    "wal": (state / "clicks.db-wal").stat().st_size,
                    "entries": stats["model"]["memory_entries"],
                    "sessions": stats["sessions"],
                }
            )
            tell(**curve[-1])
            if time.monotonic() - began > most:
                break
        assert stats["learning_error"] is None
        assert stats["problems"] == []
        assert stats["model"]["memory_entries"] == 2_000
    service.stop()
    check_plateau(curve, "resident", clicks)
    check_plateau(curve, "disk", clicks)


def wait(http: httpx.Client) -> dict[str, Any]:
    """Wait until the learner is not far behind."""
    while True:
        stats: dict[str, Any] = http.get("/v1/stats").json()
        if stats["lag_clicks"] < MOST_BEHIND:
            return stats
        time.sleep(0.2)


def check_plateau(curve: list[dict[str, float]], name: str, clicks: int) -> None:
    """Check that the later half needs no more than the part before it; short runs still grow."""
    if clicks < 1_000_000:
        return
    quarter = len(curve) // 4
    before = max(sample[name] for sample in curve[quarter : 2 * quarter])
    after = max(sample[name] for sample in curve[2 * quarter :])
    assert after < 1.1 * before, (name, before, after)
