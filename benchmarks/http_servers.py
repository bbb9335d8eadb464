"""Measure what HTTP costs: the same small endpoint under several ASGI servers and frameworks.

Each answers the request that the service is made for, a click that asks for 20 recommendations,
with recommendations that are there already: reads JSON, writes JSON, and computes nothing. One
process each, in turns, twice; requests arrive at times fixed in advance (see load.py).

The candidates are no dependencies of nextclick; for a virtual environment with all of them:

    pip install uvicorn httptools uvloop msgspec numpy starlette hypercorn granian
    python benchmarks/http_servers.py --rate 1500
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from load import Load, apply, arrival_times, click_request

ROUNDS = 2
START = 20
"""Seconds that a server may take to start."""


class Click(msgspec.Struct):
    """What is sent."""

    item_id: str


class Item(msgspec.Struct):
    """What is recommended."""

    item_id: str
    score: float


CLICK = msgspec.json.Decoder(Click)
ENCODE = msgspec.json.Encoder().encode
ITEMS = [(str(100_000 + rank), 0.05 / (rank + 1)) for rank in range(20)]
"""What every visitor gets."""


def answer(body: bytes) -> bytes:
    """Read a click, and write recommendations."""
    click = CLICK.decode(body)
    return ENCODE({"clicked": click.item_id, "items": [Item(*item) for item in ITEMS]})


async def bare(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Answer without a framework."""
    if scope["type"] != "http":
        message = await receive()
        while message["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
            message = await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    parts = scope["raw_path"].strip(b"/").split(b"/")
    assert parts[0] == b"v1"
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    said = answer(body)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(said)).encode()),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": said})


def with_starlette() -> Any:
    """Return the same endpoint in Starlette."""
    from starlette.applications import Starlette  # noqa: PLC0415 - a candidate, no dependency
    from starlette.requests import Request  # noqa: PLC0415 - a candidate: may be absent
    from starlette.responses import Response  # noqa: PLC0415 - a candidate: may be absent
    from starlette.routing import Route  # noqa: PLC0415 - a candidate: may be absent

    async def clicked(request: Request) -> Response:
        assert request.path_params["session_id"]
        return Response(answer(await request.body()), media_type="application/json")

    path = "/v1/sessions/{session_id}/clicks"
    return Starlette(routes=[Route(path, clicked, methods=["POST"])])


UVICORN = "-m uvicorn --no-access-log --log-level error --loop uvloop --http httptools"
SERVERS = {
    "bare ASGI, uvicorn (httptools, uvloop)": f"{UVICORN} --port PORT http_servers:bare",
    "Starlette, uvicorn (httptools, uvloop)": (
        f"{UVICORN} --port PORT --factory http_servers:with_starlette"
    ),
    "bare ASGI, granian (uvloop)": (
        "-m granian --interface asgi --loop uvloop --no-ws --log-level error --port PORT "
        "http_servers:bare"
    ),
    "bare ASGI, hypercorn (h11, uvloop)": (
        "-m hypercorn --worker-class uvloop --bind 127.0.0.1:PORT http_servers:bare"
    ),
    "bare ASGI, uvicorn (h11, asyncio)": (
        "-m uvicorn --no-access-log --log-level error --loop asyncio --http h11 --port PORT "
        "http_servers:bare"
    ),
}


def main() -> None:
    """Measure every candidate that is installed, in turns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=1_500, help="requests a second")
    parser.add_argument("--seconds", type=float, default=5)
    arguments = parser.parse_args()
    print(f"{arguments.rate:g} requests a second, each candidate {ROUNDS} times")
    print(f"{'':42} us of a core   p50    p90    p99   errors")
    for _ in range(ROUNDS):
        for name, command in SERVERS.items():
            module = command.split()[1]
            framework = "starlette" if "starlette" in command else module
            if importlib.util.find_spec(module) and importlib.util.find_spec(framework):
                load = measured(command, arguments.rate, arguments.seconds)
                cost = 1e6 * load.cores[0] / arguments.rate
                times = " ".join(f"{load.percentile(p):6.2f}" for p in (50, 90, 99))
                print(f"{name:42} {cost:12.0f} {times} {sum(load.errors.values()):8}", flush=True)


def measured(command: str, rate: float, seconds: float) -> Load:
    """Start a server, apply a load, and stop it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, *command.replace("PORT", str(port)).split()],
        cwd=Path(__file__).parent,
        start_new_session=True,
    )
    try:
        until = time.monotonic() + START
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < until, command
                time.sleep(0.05)
        times = arrival_times(rate, seconds + 1)
        request = click_request(f"127.0.0.1:{port}", "1234", "5678", 20)
        return apply(
            ("127.0.0.1", port),
            [request] * len(times),
            times,
            process=process.pid,
            rate=rate,
            warm_up=1,
        )
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(20)


if __name__ == "__main__":
    main()
