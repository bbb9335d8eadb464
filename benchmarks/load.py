"""A load generator with an open loop: requests leave when they are due, whatever became of others.

Arrival times are drawn before the first request is sent. A request's latency counts from then, so
that what waits because the service is busy is not left out. One thread, epoll and plain sockets:
it shares its machine's cores with what it measures, and says how much of them it took.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PATIENCE = 10.0
"""Seconds after the last arrival until what is not answered counts as an error."""

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Load:
    """What came of a load.

    Parameters
    ----------
    rate
        Arrivals a second that were asked for.
    seconds
        For how long requests arrived, those of the warm-up not counted.
    latencies
        Seconds from each request's arrival to the end of its answer; infinity for errors.
    errors
        What went wrong, and how often.
    late
        Seconds from each request's arrival until it was sent, for want of a core or a connection.
    connections
        How many connections were opened.
    cores
        Cores that were used: by the service and by this generator.
    """

    rate: float
    seconds: float
    latencies: np.ndarray
    errors: dict[str, int]
    late: np.ndarray
    connections: int
    cores: tuple[float, float]

    def percentile(self, percent: float) -> float:
        """Return the latency, in milliseconds, that so many of all requests stay within."""
        return 1e3 * float(np.percentile(self.latencies, percent, method="higher"))


def arrival_times(rate: float, seconds: float, seed: int = 0) -> np.ndarray:
    """Return when requests arrive that know nothing of each other, in seconds from the start."""
    generator = np.random.default_rng(seed)
    number = int(generator.poisson(rate * seconds))
    return np.sort(generator.uniform(0, seconds, number))


def click_request(host: str, session: str, item: str, k: int) -> bytes:
    """Return a click of a session that asks for recommendations, as it goes over the wire."""
    body = b'{"item_id":"%s"}' % item.encode()
    return (
        f"POST /v1/sessions/{session}/clicks?recommend={k} HTTP/1.1\r\n"
        f"host: {host}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    ).encode() + body


def processor_seconds(process: int) -> float:
    """Return how long a process, and those that it started, have been running on any core."""
    running: dict[int, tuple[int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, _, rest = path.read_text().partition(" (")
        except OSError:  # it has ended meanwhile
            continue
        fields = rest.rpartition(")")[2].split()
        running[int(number)] = (int(fields[1]), int(fields[11]) + int(fields[12]))
    family = {process}
    while more := {n for n, (parent, _) in running.items() if parent in family} - family:
        family |= more
    return sum(running[n][1] for n in family if n in running) / TICKS


def apply(
    address: tuple[str, int],
    requests: Sequence[bytes],
    times: np.ndarray,
    *,
    process: int,
    rate: float = 0.0,
    warm_up: float = 0.0,
    connections: int = 512,
) -> Load:
    """Send each request at its time over connections that stay open, and wait for all answers.

    Parameters
    ----------
    address
        Where the service listens.
    requests, times
        What to send, and when, in seconds from the start, rising.
    process
        The service's process, whose use of cores is reported.
    rate
        What the report calls the rate.
    warm_up
        Requests that arrive in the first so many seconds are sent, and not reported.
    connections
        How many connections at most; a request for which there is none waits.
    """
    return _Generator(address, requests, times, connections).run(process, rate, warm_up)


class _Connection:
    """A connection, and the request that it waits for an answer to."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.number = -1
        self.received = b""
        self.length = -1


class _Generator:
    def __init__(
        self,
        address: tuple[str, int],
        requests: Sequence[bytes],
        times: np.ndarray,
        most: int,
    ) -> None:
        self._address, self._requests, self._most = address, requests, most
        self._times: list[float] = times.tolist()
        self._sent = np.full(len(times), np.inf)
        self._answered = np.full(len(times), np.inf)
        self._errors: dict[str, list[int]] = {}
        self._poll = select.epoll()
        self._open: dict[int, _Connection] = {}
        self._free: list[_Connection] = []
        self._waiting: deque[int] = deque()
        self._left = len(times)
        self._opened = 0

    def run(self, process: int, rate: float, warm_up: float) -> Load:
        """Send everything, and report what arrived after the warm-up."""
        times = np.array(self._times)
        first = int(np.searchsorted(times, warm_up))
        last = self._times[-1] if self._times else 0.0
        cores = _Cores(process)
        self._begun = time.perf_counter()
        following = 0
        while self._left:
            now = time.perf_counter() - self._begun
            while following < len(times) and self._times[following] <= now:
                if following == first:
                    cores.begin()
                self._waiting.append(following)
                following += 1
            self._send_waiting()
            if following == len(times):
                cores.end()
                if now > last + PATIENCE:
                    break
                until = last + PATIENCE
            else:
                until = self._times[following]
            self._receive(max(0.0, until - (time.perf_counter() - self._begun)))
        cores.end()
        for connection in self._open.values():
            connection.socket.close()
        self._poll.close()
        return self._report(rate, warm_up, first, cores.used)

    def _report(self, rate: float, warm_up: float, first: int, cores: tuple[float, float]) -> Load:
        times = np.array(self._times)
        latencies = (self._answered - times)[first:]
        errors = {what: sum(n >= first for n in which) for what, which in self._errors.items()}
        missing = int(np.isinf(latencies).sum()) - sum(errors.values())
        if missing:
            errors["not answered"] = missing
        return Load(
            rate,
            (self._times[-1] if self._times else 0.0) - warm_up,
            latencies,
            {what: n for what, n in errors.items() if n},
            (self._sent - times)[first:],
            self._opened,
            cores,
        )

    def _send_waiting(self) -> None:
        while self._waiting:
            connection = self._connection()
            if connection is None:
                return
            number = self._waiting.popleft()
            connection.number = number
            self._sent[number] = time.perf_counter() - self._begun
            try:
                connection.socket.sendall(self._requests[number])
            except OSError as error:
                self._lose(connection, str(error))

    def _connection(self) -> _Connection | None:
        if self._free:
            return self._free.pop()
        if len(self._open) >= self._most:
            return None
        connection = _Connection(self._address)
        self._opened += 1
        self._open[connection.socket.fileno()] = connection
        self._poll.register(connection.socket.fileno(), select.EPOLLIN)
        return connection

    def _receive(self, wait: float) -> None:
        # epoll waits whole milliseconds, select for as long as it is told.
        if not select.select([self._poll], [], [], wait)[0]:
            return
        for descriptor, _ in self._poll.poll(0):
            connection = self._open[descriptor]
            try:
                data = connection.socket.recv(65536)
            except OSError as error:
                self._lose(connection, str(error))
                continue
            if not data:
                self._lose(connection, "connection closed")
                continue
            self._take(connection, data)

    def _take(self, connection: _Connection, data: bytes) -> None:
        received = connection.received = connection.received + data
        if connection.length < 0:
            end = received.find(b"\r\n\r\n")
            if end < 0:
                return
            start = received.index(b"content-length: ") + 16
            connection.length = end + 4 + int(received[start : received.index(b"\r", start)])
        if len(received) < connection.length:
            return
        status = received[9:12]
        number, connection.number = connection.number, -1
        connection.received, connection.length = b"", -1
        self._left -= 1
        self._free.append(connection)
        if status == b"200":
            self._answered[number] = time.perf_counter() - self._begun
        else:
            self._errors.setdefault(f"status {status.decode()}", []).append(number)

    def _lose(self, connection: _Connection, why: str) -> None:
        del self._open[connection.socket.fileno()]
        connection.socket.close()
        if connection.number >= 0:
            self._left -= 1
            self._errors.setdefault(why, []).append(connection.number)
        else:
            self._free.remove(connection)


class _Cores:
    """How many cores the service and this process use between two moments."""

    def __init__(self, process: int) -> None:
        self.used = (0.0, 0.0)
        self._process = process
        self._begun: tuple[float, float, float] | None = None
        self._ended = False

    def begin(self) -> None:
        """Count from now on."""
        self._begun = self._now()

    def end(self) -> None:
        """Count until now, when this is called first."""
        if self._begun is None or self._ended:
            return
        self._ended = True
        now = self._now()
        seconds, service, own = (b - a for a, b in zip(self._begun, now, strict=True))
        self.used = (service / max(seconds, 1e-9), own / max(seconds, 1e-9))

    def _now(self) -> tuple[float, float, float]:
        return time.perf_counter(), processor_seconds(self._process), time.process_time()
