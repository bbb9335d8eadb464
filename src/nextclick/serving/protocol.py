"""HTTP connections with an end to patience.

uvicorn has a timeout between requests, none within one: a client that sends a byte a minute, or
never takes its answer, would hold a connection for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from time import monotonic
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from nextclick.serving.limits import Limits
from nextclick.serving.refusals import RefusalError, over_limit

AT_ONCE = 20
"""Slow connections that are closed before others are looked after."""


class Connection(HttpToolsProtocol):
    """A connection that knows since when it waits for the client."""

    limits: ClassVar[Limits] = Limits()

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.receiving_since: float | None = monotonic()
        self.stalled_since: float | None = None
        self._header_bytes = 0
        self._body_open = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        """Refuse a connection if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            self.refuse(
                over_limit(
                    "connections",
                    self.limits.connections,
                    "too many connections are open",
                    status=429,
                    code="too_many_connections",
                )
            )

    def data_received(self, data: bytes) -> None:
        """Note when a request begins, and refuse headers that do not end."""
        if self.receiving_since is None and (self.cycle is None or self.cycle.response_complete):
            self.receiving_since = monotonic()
        self._header_bytes += len(data)
        super().data_received(data)
        if self.receiving_since is None:
            self._header_bytes = 0
        elif self._header_bytes > self.limits.header_bytes and not self._body_open:
            self._refuse_headers()

    def on_headers_complete(self) -> None:
        """Stop waiting: what comes is the body."""
        self.receiving_since = None
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > self.limits.header_bytes:
            self._refuse_headers()
        else:
            self._body_open = True
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        if self._body_open:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the whole request is there."""
        self.receiving_since = None
        if self._body_open:
            self._body_open = False
            super().on_message_complete()

    def pause_writing(self) -> None:
        """Note since when the client does not take its answer."""
        self.stalled_since = monotonic()
        self.flow.pause_writing()

    def resume_writing(self) -> None:
        """Note that it takes it again."""
        self.stalled_since = None
        self.flow.resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, in the shape of every other error."""
        self.refuse(RefusalError(400, "not_http", msg[:1].lower() + msg[1:].rstrip(".")))

    def _refuse_headers(self) -> None:
        most = self.limits.header_bytes
        self.refuse(
            over_limit(
                "header_bytes",
                most,
                f"the request line and the headers have more than {most:,} bytes",
                status=431,
                code="headers_too_long",
            )
        )

    def refuse(self, refusal: RefusalError) -> None:
        """Answer with an error, and close."""
        if self.transport.is_closing():
            return
        body = refusal.body()
        head = (
            b"content-type: application/json\r\nconnection: close\r\n"
            b"content-length: %d\r\n\r\n" % len(body)
        )
        self.transport.write(STATUS_LINE[refusal.status] + head + body)
        self.transport.close()


async def close_the_slow(connections: Iterable[Any], limits: Limits) -> int:
    """Close connections whose client has been too slow, and return how many.

    Thousands may be: who is answered meanwhile waits for a few of them only.
    """
    latest = monotonic() - limits.request_seconds
    closed = 0
    for connection in tuple(connections):
        if connection.stalled_since is not None and connection.stalled_since < latest:
            connection.transport.abort()
        elif connection.receiving_since is not None and connection.receiving_since < latest:
            connection.refuse(
                over_limit(
                    "request_seconds",
                    limits.request_seconds,
                    "the request took too long to arrive",
                    status=408,
                    code="too_slow",
                )
            )
        else:
            continue
        closed += 1
        if closed % AT_ONCE == 0:
            await asyncio.sleep(0)
    return closed
