"""Keys, limits, starting, stopping, and another model under load."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from nextclick.cli import main


def nextclick(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nextclick", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def make_key(capsys: pytest.CaptureFixture[str], state: Path, name: str, *scopes: str) -> str:
    wanted = [part for scope in scopes for part in ("--scope", scope)]
    assert main(["keys", "add", name, "--state", str(state), *wanted]) == 0
    return capsys.readouterr().out.strip()


def test_keys_open_what_their_scopes_say(
    serving: Any, popularity_model: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = make_key(capsys, state, "reader", "read")
    writer = make_key(capsys, state, "writer", "write")
    admin = make_key(capsys, state, "admin", "admin")
    assert reader not in (state / "keys.json").read_text()
    assert (state / "keys.json").stat().st_mode & 0o077 == 0
    click = {"session_id": "a", "item_id": "item 1"}
    requests: list[tuple[str, str, Any, str]] = [
        ("POST", "/v1/clicks", click, "write"),
        ("PUT", "/v1/items/x", {}, "write"),
        ("GET", "/v1/sessions/a/recommendations", None, "read"),
        ("GET", "/v1/sessions/a", None, "read"),
        ("GET", "/v1/stats", None, "read"),
        ("GET", "/metrics", None, "read"),
        ("POST", "/v1/admin/snapshot", None, "admin"),
    ]
    with serving(state.parent, str(popularity_model), "--state", str(state)) as running:
        for method, path, body, scope in requests:
            for key, opens in ((reader, "read"), (writer, "write"), (admin, "admin")):
                answer = running.http.request(method, path, json=body, headers=bearer(key))
                assert answer.status_code == (200 if opens == scope else 403), (path, opens)
            for headers in ({}, bearer("nck_wrong"), {"authorization": f"Basic {admin}"}):
                answer = running.http.request(method, path, json=body, headers=headers)
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"] == "Bearer"
        assert running.http.get("/health/ready").status_code == 200

        # A key taken away is refused, and a new one is known, while the service runs.
        assert main(["keys", "remove", "reader", "--state", str(state)]) == 0
        capsys.readouterr()
        second = make_key(capsys, state, "second", "read")
        time.sleep(2.5)
        assert running.http.get("/v1/stats", headers=bearer(reader)).status_code == 401
        assert running.http.get("/v1/stats", headers=bearer(second)).status_code == 200


def test_without_keys_it_is_for_this_machine_only(
    service: Any, popularity_model: Path, state: Path
) -> None:
    assert "no API keys" in service.text
    for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""):
        answer = service.http.get("/v1/stats", headers={"host": host})
        assert answer.status_code == 403, host
        assert answer.json()["error"]["code"] == "wrong_host"
    for host in ("localhost", f"127.0.0.1:{service.port}", "[::1]:80", "LocalHost"):
        assert service.http.get("/v1/stats", headers={"host": host}).status_code == 200
    done = nextclick("serve", str(popularity_model), "--state", str(state), "--host", "0.0.0.0")
    assert done.returncode == 2
    assert "nextclick keys add" in done.stderr


def test_other_hosts_are_let_in_with_keys(
    serving: Any, popularity_model: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = make_key(capsys, state, "shop", "read", "write")
    arguments = (str(popularity_model), "--state", str(state), "--host", "0.0.0.0")
    with serving(state.parent, *arguments) as running:
        headers = {"host": "shop.example", **bearer(key)}
        url = f"http://127.0.0.1:{running.port}/v1/stats"
        assert httpx.get(url, headers=headers).status_code == 200


def test_keys_are_listed_and_bad_names_refused(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_key(capsys, state, "shop", "read", "write")
    assert main(["keys", "list", "--state", str(state), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"name": "shop", "scopes": ["read", "write"]}]
    for arguments, reason in (
        (["add", "shop"], "already"),
        (["add", "x", "--scope", "all"], "read, write, admin"),
        (["add", ""], "printable"),
        (["remove", "nobody"], "no key named"),
    ):
        assert main(["keys", *arguments, "--state", str(state)]) == 2
        assert reason in capsys.readouterr().err
    assert main(["keys", "remove", "shop", "--state", str(state)]) == 0
    assert main(["keys", "list", "--state", str(state)]) == 0
    assert "There are no keys." in capsys.readouterr().out
    (state / "keys.json").write_text("[{]")
    assert main(["keys", "list", "--state", str(state)]) == 2
    assert "keys.json" in capsys.readouterr().err


@pytest.fixture(scope="module")
def limited(
    serving: Any, popularity_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """A service of small limits."""
    folder = tmp_path_factory.mktemp("limited")
    settings = folder / "settings.toml"
    settings.write_text(
        "rate = 20\n[limits]\nconnections = 30\nrequest_seconds = 1.0\nbody_bytes = 5_000\n"
        "import_bytes = 20_000\nheader_bytes = 2_000\nin_flight = 3\n[engine]\nwrite_every = 5\n"
    )
    arguments = [str(popularity_model), "--state", str(folder / "s"), "--settings", str(settings)]
    with serving(folder, *arguments) as running:
        time.sleep(1.5)
        yield running


def named(answer: httpx.Response) -> str:
    (name,) = answer.json()["error"]["limit"]
    return str(name)


def test_each_limit_names_itself(limited: Any) -> None:
    as_json = {"content-type": "application/json"}
    answer = limited.http.post("/v1/clicks", content=5_001 * b" ", headers=as_json)
    assert (answer.status_code, named(answer)) == (413, "body_bytes")
    as_lines = {"content-type": "application/x-ndjson"}
    answer = limited.http.post("/v1/clicks/import", content=20_001 * b" ", headers=as_lines)
    assert (answer.status_code, named(answer)) == (413, "import_bytes")
    answer = limited.http.get("/v1/stats", headers={"x": 3_000 * "x"})
    assert (answer.status_code, named(answer)) == (431, "header_bytes")


def test_too_many_requests_are_refused_until_later(limited: Any) -> None:
    time.sleep(1.2)
    answers = [limited.http.get("/v1/stats") for _ in range(40)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert {named(answer) for answer in refused} == {"rate"}
    assert refused[0].headers["retry-after"] == "1"
    time.sleep(1.2)
    assert limited.http.get("/v1/stats").status_code == 200


def test_too_many_requests_at_a_time_are_refused(limited: Any) -> None:
    time.sleep(0.3)
    head = (
        b"POST /v1/clicks/import HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n"
        b"content-type: application/x-ndjson\r\n\r\n{"
    )
    sockets = [socket.create_connection(("127.0.0.1", limited.port)) for _ in range(3)]
    try:
        for one in sockets:
            one.sendall(head)
        time.sleep(0.2)
        answer = limited.http.get("/v1/sessions/a/recommendations")
        assert (answer.status_code, named(answer)) == (429, "in_flight")
        assert limited.http.get("/health/live").status_code == 200
    finally:
        for one in sockets:
            one.close()


def test_too_many_connections_are_refused(limited: Any) -> None:
    sockets = [socket.create_connection(("127.0.0.1", limited.port)) for _ in range(40)]
    try:
        time.sleep(0.3)
        told = b""
        for one in sockets:
            one.settimeout(0.05)
            try:
                told += one.recv(4096)
            except TimeoutError:
                continue
        assert b"429" in told
        assert b'"connections":' in told
    finally:
        for one in sockets:
            one.close()
    time.sleep(0.5)
    assert limited.http.get("/health/live").status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n",
        b"POST /v1/clicks HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"content-length: 100\r\n\r\n{",
    ],
)
def test_a_slow_client_is_told_so_and_left(limited: Any, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", limited.port)) as slow:
        slow.settimeout(10)
        slow.sendall(sent)
        told = b""
        while piece := slow.recv(4096):
            told += piece
    assert b" 408 " in told
    assert b'"request_seconds"' in told


def test_who_does_not_take_the_answer_is_left(limited: Any) -> None:
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", limited.port))
        deaf.settimeout(10)
        request = b"GET /pages/style.css HTTP/1.1\r\nhost: localhost\r\n\r\n"
        left = False
        for _ in range(200):
            try:
                deaf.sendall(200 * request)
            except OSError:
                left = True
                break
            time.sleep(0.05)
    assert left


def test_half_closed_and_broken_connections_harm_nobody(limited: Any) -> None:
    pieces = [
        b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"POST /v1/clicks HTTP/1.1\r\ncontent-length: 10\r\n\r\n{",
        b"\x00\xff\xfe",
        b"GET / HTTP/9.9\r\n\r\n",
        b"BREW /coffee HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST /v1/clicks HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n",
        b"POST /v1/clicks HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/clicks HTTP/1.1\r\ncontent-length: 99999999999999999999999\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\n\r\n",
    ]
    for sent in pieces:
        for reset in (False, True):
            with socket.create_connection(("127.0.0.1", limited.port)) as one:
                one.settimeout(5)
                one.sendall(sent)
                if reset:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    continue
                one.shutdown(socket.SHUT_WR)
                told = b""
                while piece := one.recv(4096):
                    told += piece
                assert not told or told.split()[1][:1] in (b"2", b"4"), (sent, told)
    assert limited.http.get("/health/live").status_code == 200


def test_idle_connections_cost_little(service: Any) -> None:
    """A thousand here; ten thousand in the soak."""
    before = service.resident
    sockets = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(1_000)]
    try:
        for one in sockets:
            one.sendall(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n")
        for one in sockets:
            one.settimeout(30)
            assert one.recv(4096).startswith(b"HTTP/1.1 200")
        started = time.perf_counter()
        assert service.http.get("/v1/sessions/x/recommendations").status_code == 200
        assert time.perf_counter() - started < 2
        assert service.resident - before < 60_000_000
    finally:
        for one in sockets:
            one.close()


def test_stopping_loses_nothing(serving: Any, launch: Any, man_model: Path, state: Path) -> None:
    """Clicks go on while the service is told to stop: what was acknowledged is there again."""
    first = launch(state.parent, str(man_model), "--state", str(state))
    kept: list[str] = []
    failed = []

    def visit(name: str) -> None:
        with httpx.Client(base_url=first.url, timeout=30) as http:
            for n in range(100_000):
                click = {"session_id": name, "item_id": f"item {n % 40}", "event_id": f"{name} {n}"}
                try:
                    answer = http.post("/v1/clicks", json=click)
                except httpx.HTTPError:
                    return
                if answer.status_code != 200:
                    failed.append(answer.status_code)
                    return
                kept.append(f"{name} {n}")

    visitors = [threading.Thread(target=visit, args=(f"visitor {n}",)) for n in range(4)]
    for visitor in visitors:
        visitor.start()
    time.sleep(1.5)
    assert first.stop() == 0, first.text
    for visitor in visitors:
        visitor.join()
    assert len(kept) > 50
    assert set(failed) <= {503}
    assert '"event":"stopped"' in first.text
    with serving(state.parent, "--state", str(state)) as second:
        there = []
        for n in range(4):
            clicks = second.http.get(f"/v1/sessions/visitor {n}").json()["clicks"]
            there += [click["event_id"] for click in clicks]
        # A session tells its last thousand clicks.
        wanted = [event for event in kept if int(event.split()[2]) >= len(kept) - 1_000]
        assert set(wanted) <= set(there)
        assert len(there) == len(set(there))


def test_another_model_under_load_fails_nobody(
    serving: Any, man_model: Path, popularity_model: Path, state: Path
) -> None:
    statuses: list[int] = []
    versions: list[int] = []
    done = threading.Event()
    with serving(state.parent, str(popularity_model), "--state", str(state)) as running:

        def visit(name: str) -> None:
            n = 0
            with httpx.Client(base_url=running.url, timeout=30) as http:
                while not done.is_set():
                    n += 1
                    answer = http.post(
                        f"/v1/sessions/{name}/clicks?recommend=5",
                        json={"item_id": f"item {n % 40}"},
                    )
                    statuses.append(answer.status_code)
                    versions.append(answer.json()["recommendations"]["model"])

        visitors = [threading.Thread(target=visit, args=(f"visitor {n}",)) for n in range(3)]
        for visitor in visitors:
            visitor.start()
        time.sleep(0.5)
        told = running.http.post("/v1/admin/model", json={"path": str(man_model.resolve())})
        assert told.json() == {"model": 2, "label": "MAN-NARM"}
        time.sleep(0.5)
        done.set()
        for visitor in visitors:
            visitor.join()
    assert set(statuses) == {200}
    assert set(versions) == {1, 2}
    assert versions[-1] == 2


def test_it_can_be_stopped_while_it_starts(launch: Any, tmp_path: Path) -> None:
    demo = launch(tmp_path, "--demo", ready=False)
    assert demo.http.get("/health/live").status_code == 200
    waiting = demo.http.get("/v1/sessions/a/recommendations")
    assert (waiting.status_code, waiting.json()["error"]["code"]) == (503, "starting")
    started = time.monotonic()
    demo.http.close()
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(20) == 0, demo.text
    assert "Warning" not in demo.text
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["serve"], "--state is needed"),
        (["serve", "no-model", "--state", "s"], "no-model"),
        (["serve", "--state", "s"], "give a MODEL"),
        (["serve", "--demo", "model"], "leave MODEL out"),
        (["serve", "--state", "file"], "--state file: not a directory"),
        (["serve", "--demo", "--state", "with-keys"], "--demo's visitors have none"),
        (["keys", "list", "--state", "absent"], "--state absent: no such directory"),
        (["keys", "remove", "shop", "--state", "absent"], "--state absent: no such directory"),
        (["serve", "--state", "s", "--keep-log", "soon"], "30d"),
        (["serve", "--state", "s", "--port", "99999"], "port"),
        (["replay", "nothing-there"], "nothing-there"),
    ],
)
def test_bad_commands_are_explained(
    arguments: list[str],
    reason: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    Path("with-keys").mkdir()
    Path("with-keys/keys.json").write_text("[]")
    assert main(arguments) == 2
    assert reason in capsys.readouterr().err


def test_a_port_in_use_and_a_wrong_settings_file_are_explained(
    popularity_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        arguments = ["serve", str(popularity_model), "--state", str(tmp_path / "s")]
        assert main([*arguments, "--port", port]) == 2
        assert "give another --port" in capsys.readouterr().err
    settings = tmp_path / "settings.toml"
    for text, reason in (
        ("[limits]\nbody_byte = 5_000\n", "did you mean 'body_bytes'"),
        ("[engine]\nwrite_every = 0\n", "engine: write_every"),
        ("[limit]\n", "[engine] and [limits]"),
    ):
        settings.write_text(text)
        assert main([*arguments, "--settings", str(settings)]) == 2
        assert reason in capsys.readouterr().err
