"""What those who run a service can watch: metrics, its log, and the files that use them."""

from __future__ import annotations

import json
import re
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from nextclick.cli import main

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = sorted(path.name for path in DEPLOY.iterdir())


def metrics(text: str) -> dict[str, float]:
    rows = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in rows}


def test_metrics_tell_what_to_watch(service: Any) -> None:
    session = "watched"
    for n in range(4):
        address = f"/v1/sessions/{session}/clicks?recommend=20"
        service.http.post(address, json={"item_id": f"item {n}"})
    time.sleep(1.5)  # figures are not older than a second
    told = metrics(service.http.get("/metrics").text)
    for name in (
        "clicks_total",
        "recommendations_total",
        "refused_clicks_total",
        "learning_steps_total",
        "queue",
        "lag_clicks",
        "lag_seconds",
        "memory_entries",
        "learning_failed",
        "writing_failed",
        "requests_in_flight",
        "open_connections",
    ):
        assert f"nextclick_{name}" in told, name
    for part in ("all", "neural", "memory"):
        labels = f'{{model="served",over="start",part="{part}"}}'
        assert 0 <= told[f"nextclick_live_hr20{labels}"] <= 1
        assert 0 <= told[f"nextclick_live_mrr20{labels}"] <= 1
    counted = 'nextclick_request_seconds_count{endpoint="/v1/sessions/{session_id}/clicks"}'
    assert told[counted] >= 4
    assert told["process_resident_memory_bytes"] > 10_000_000


def test_the_log_is_a_json_object_a_line(service: Any) -> None:
    lines = [line for line in service.text.splitlines() if line.startswith("{")]
    events = [json.loads(line) for line in lines]
    assert all({"time", "level", "event"} <= set(each) for each in events)
    assert [each["event"] for each in events[:3]] == ["listening", "starting", "started"]
    started = events[2]
    assert started["model"] == "MAN-NARM"
    assert started["seconds"] > 0


def test_alerts_are_on_metrics_that_there_are(service: Any) -> None:
    told = service.http.get("/metrics").text
    for name in set(re.findall(r"nextclick_[a-z0-9_]+", (DEPLOY / "alerts.yml").read_text())):
        # Times of snapshots are told once there is one.
        assert name in told or name == "nextclick_snapshot_time_seconds", name
    asked = re.search(r'endpoint=~"([^"]+)"', (DEPLOY / "alerts.yml").read_text())
    assert asked
    paths = service.http.get("/openapi.json").json()["paths"]
    assert sum(re.fullmatch(asked[1], path) is not None for path in paths) == 3


@pytest.mark.parametrize("name", FILES)
def test_deployed_commands_have_options_that_there_are(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (DEPLOY / name).read_text()
    for verb in ("serve", "keys add"):
        assert main([*verb.split(), "--help"]) == 0
        known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
        for command in re.findall(rf"nextclick {verb} (.*)", text):
            assert set(re.findall(r"--[a-z-]+", command)) <= known, command
    listed = re.search(r'CMD \["serve", (.*)\]', text)
    if listed:
        assert main(["serve", *json.loads(f"[{listed[1]}]"), "--help"]) == 0


def test_the_example_of_settings_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = DEPLOY / "serve.toml"
    assert {"engine", "limits"} <= set(tomllib.loads(file.read_text()))
    state = str(tmp_path / "state")
    assert main(["serve", "absent", "--state", state, "--settings", str(file)]) == 2
    assert "absent" in capsys.readouterr().err
