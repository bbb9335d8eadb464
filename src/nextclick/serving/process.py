"""The process: a port, a loop, signals, and an engine that is closed in order."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import ipaddress
import logging
import resource
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
import uvloop

from nextclick.errors import BadInputError
from nextclick.serving.engine import Engine
from nextclick.serving.keys import Keys
from nextclick.serving.limits import Limits
from nextclick.serving.logs import event, write_lines
from nextclick.serving.protocol import Connection
from nextclick.serving.service import Service

BACKLOG = 4_096
"""Connections that wait to be accepted, where the system allows as many."""

GRACE = 30
"""Seconds that requests have to be answered when the service stops."""

IDLE = 75
"""Seconds that a connection stays open between requests: longer than those of most proxies."""

GARBAGE = 20_000
"""New objects after which those that refer to each other and to which nothing else does are sought:
a few hundred requests make as many."""

SWITCH = 0.001
"""Seconds after which a thread that computes lets another one go on: answers wait for it."""


class _Server(uvicorn.Server):
    """uvicorn's server, which leaves signals to this module."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: uvicorn would end the process before the engine is closed."""
        yield


def serve(
    open_engine: Callable[[], Engine],
    *,
    state: Path,
    host: str,
    port: int,
    limits: Limits,
    beside: Callable[[str], Coroutine[Any, Any, None]] | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve until a signal says to stop; then finish what was asked, and close the engine.

    Parameters
    ----------
    open_engine
        Starts the engine.
    state
        The state directory, in which the keys are.
    host, port
        Where to listen; port 0 takes any that is free.
    limits
        How much is taken.
    beside
        What else runs while the service does, given its address: simulated visitors.
    announce
        Is told the address, as soon as the port is open.
    """
    keys = Keys(state)
    check_host(host, keys)
    limits = _open_files(limits)
    listening = listen(host, port)
    address = _address(listening)
    write_lines()
    sys.setswitchinterval(SWITCH)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, listening:
        announce(address)
        runner.run(_run(open_engine, keys, limits, listening, address, beside))


async def _run(
    open_engine: Callable[[], Engine],
    keys: Keys,
    limits: Limits,
    listening: socket.socket,
    address: str,
    beside: Callable[[str], Coroutine[Any, Any, None]] | None,
) -> None:
    service = Service(open_engine, keys, limits, demo=beside is not None)
    server = _Server(_config(service, limits))
    service.connections = server.server_state.connections
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.handle_exit, number, None)
    event("listening", address=address, keys=keys.required)
    tasks = [asyncio.create_task(service.look_after())]
    starting = asyncio.create_task(_start(service))
    starting.add_done_callback(lambda done: _stop_if_failed(done, server))
    if beside is not None:
        tasks.append(asyncio.create_task(_after(starting, partial(beside, address))))
    await server.serve(sockets=[listening])
    event("stopping")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if not starting.done():
        starting.cancel()
        event("stopped_before_it_had_started")
        return
    starting.result()
    await service.stop()


def _config(service: Service, limits: Limits) -> uvicorn.Config:
    connection = type("Connection", (Connection,), {"limits": limits})
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    return uvicorn.Config(
        service.app,
        http=connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=GRACE,
    )


async def _start(service: Service) -> None:
    await service.start()
    # What is there now stays. Looking through it for cycles again and again would stop all threads
    # for a tenth of a second each time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE)


async def _after(
    starting: asyncio.Task[None], what: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    await asyncio.shield(starting)
    await what()


def _stop_if_failed(starting: asyncio.Task[None], server: uvicorn.Server) -> None:
    if not starting.cancelled() and starting.exception() is not None:
        server.should_exit = True


def check_host(host: str, keys: Keys) -> None:
    """Refuse to be open to other machines without keys."""
    if keys.required:
        return
    if host != "localhost" and not _is_loopback(host):
        raise BadInputError(
            f"--host {host}: without API keys the service listens on this machine only; make a key "
            f"first: nextclick keys add NAME --state {keys.file.parent}"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Open a port, or say why it cannot be opened.

    Examples
    --------
    >>> with listen("127.0.0.1", 0) as listening:
    ...     listening.getsockname()[0]
    '127.0.0.1'
    """
    try:
        family, kind, _, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind)
    except OSError as error:
        raise BadInputError(f"--host {host}: {error.strerror}") from None
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(where)
        listening.listen(BACKLOG)  # who connects from now on waits until the loop runs
    except OSError as error:
        listening.close()
        hint = "; give another --port" if error.errno == errno.EADDRINUSE else ""
        raise BadInputError(f"{host}:{port}: {error.strerror}{hint}") from None
    listening.setblocking(False)
    return listening


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _open_files(limits: Limits) -> Limits:
    """Allow this process as many open files as it may have, and no more connections than that."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most == resource.RLIM_INFINITY:
        return limits
    return limits.model_copy(update={"connections": max(1, min(limits.connections, most - 200))})
