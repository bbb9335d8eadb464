"""The load generator, against servers that behave in known ways."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

Answer = Callable[[int], bytes]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


@pytest.fixture(scope="module")
def load() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "load.py"
    spec = importlib.util.spec_from_file_location("load", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["load"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def server() -> Iterator[Callable[[Answer], tuple[str, int]]]:
    """Answer one request after the other, whichever connections they come by."""
    listening = socket.create_server(("127.0.0.1", 0))
    turn, opened = threading.Lock(), [listening]

    def start(answer: Answer) -> tuple[str, int]:
        numbers = iter(range(10**6))

        def talk(connection: socket.socket) -> None:
            with suppress(OSError):  # the other side has gone
                while connection.recv(65536):
                    with turn:
                        said = answer(next(numbers))
                        if not said:
                            connection.close()
                            return
                        connection.sendall(said[:20])  # in pieces, as networks do
                        connection.sendall(said[20:])

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                opened.append(connection)
                threading.Thread(target=talk, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        host, port = listening.getsockname()
        return str(host), int(port)

    yield start
    listening.shutdown(socket.SHUT_RDWR)
    for each in opened:
        each.close()


def applied(load: ModuleType, address: tuple[str, int], times: list[float], **more: Any) -> Any:
    request = load.click_request("localhost", "anna", "shoes", 20)
    return load.apply(address, [request] * len(times), np.array(times), process=os.getpid(), **more)


def test_arrivals_are_fixed_in_advance(load: ModuleType) -> None:
    times = load.arrival_times(1000, 20)
    assert (np.diff(times) >= 0).all()
    assert times[0] >= 0
    assert times[-1] <= 20
    assert len(times) == pytest.approx(20_000, rel=0.05)
    # Independent of each other: gaps are exponential, as long as they vary.
    assert np.diff(times).std() == pytest.approx(1e-3, rel=0.1)
    assert (times == load.arrival_times(1000, 20)).all()


def test_waiting_counts(load: ModuleType, server: Callable[[Answer], tuple[str, int]]) -> None:
    def slow_once(number: int) -> bytes:
        time.sleep(0.3 if number == 0 else 0)
        return OK

    measured = applied(load, server(slow_once), [0.01 * n for n in range(20)])
    assert measured.errors == {}
    # All arrived while the first was answered, and waited for it.
    waited = 0.3 - 0.01 * np.arange(20)
    assert (measured.latencies > waited - 0.05).all()
    assert measured.percentile(50) > 150
    assert measured.percentile(100) >= 1e3 * measured.latencies.max()
    assert measured.connections == 20


def test_what_waits_for_a_connection_counts_too(
    load: ModuleType, server: Callable[[Answer], tuple[str, int]]
) -> None:
    def slow(number: int) -> bytes:  # noqa: ARG001 - all alike
        time.sleep(0.02)
        return OK

    measured = applied(load, server(slow), [0.0] * 10, connections=1)
    assert measured.connections == 1
    assert (np.diff(np.sort(measured.latencies)) > 0.01).all()
    assert measured.latencies.max() > 0.19


def test_errors_are_counted_and_never_fast(
    load: ModuleType, server: Callable[[Answer], tuple[str, int]]
) -> None:
    refused = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n"
    answers = {3: refused, 5: b""}
    address = server(lambda number: answers.get(number, OK))
    measured = applied(load, address, [0.02 * n for n in range(10)])
    assert measured.errors == {"status 429": 1, "connection closed": 1}
    assert int(np.isinf(measured.latencies).sum()) == 2
    assert np.isinf(measured.percentile(90))
    assert measured.percentile(50) < 100


def test_what_is_never_answered_is_an_error(
    load: ModuleType,
    server: Callable[[Answer], tuple[str, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load, "PATIENCE", 0.1)
    done = threading.Event()

    def answer(number: int) -> bytes:
        if number >= 3:
            done.wait(5)
        return OK

    address = server(answer)
    measured = applied(load, address, [0.02 * n for n in range(5)])
    done.set()
    assert measured.errors == {"not answered": 2}


def test_the_warm_up_is_not_reported(
    load: ModuleType, server: Callable[[Answer], tuple[str, int]]
) -> None:
    times = [0.0, 0.1, 0.2, 0.3]
    measured = applied(load, server(lambda _: OK), times, rate=10, warm_up=0.15)
    assert len(measured.latencies) == 2
    assert measured.seconds == pytest.approx(0.15)
    assert 0 <= measured.cores[0] < os.cpu_count()


def test_requests_are_what_the_service_takes(load: ModuleType) -> None:
    request = load.click_request("localhost:8000", "anna", "shoes", 20).decode()
    head, _, body = request.partition("\r\n\r\n")
    assert head.startswith("POST /v1/sessions/anna/clicks?recommend=20 HTTP/1.1\r\n")
    assert f"content-length: {len(body)}" in head
    assert body == '{"item_id":"shoes"}'
