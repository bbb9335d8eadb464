"""Which endpoint an address means.

Ids stand in addresses percent-encoded, slashes included, so an address is taken apart before it is
decoded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

from nextclick.serving.limits import check_id
from nextclick.serving.refusals import JSON, RefusalError
from nextclick.serving.requests import Reply, Request
from nextclick.serving.schemas import NoOptions

Handler: TypeAlias = Callable[[Request], Awaitable[Reply]]


@dataclass(frozen=True)
class Endpoint:
    """Something that the service does, and what its documentation says of it.

    Parameters
    ----------
    method, path
        Where it is; in the path, a name in braces stands for an id.
    scope
        What a key must open: `read`, `write` or `admin`; `None` for what needs no key.
    handle
        Does it.
    summary
        What it does, in a line.
    body, answer, options
        The types of the request's body, of the answer (of several, if it may have either), and of
        what stands behind the question mark.
    takes, gives
        What the bodies of the request and of the answer are.
    timed
        Whether it belongs to what the page calls latency.
    """

    method: str
    path: str
    scope: str | None
    handle: Handler
    summary: str
    body: Any = None
    answer: Any = None
    options: type = NoOptions
    takes: str = JSON
    gives: str = JSON
    timed: bool = False

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the path between its slashes."""
        return tuple(self.path.strip("/").split("/"))

    @property
    def limited(self) -> bool:
        """Whether it counts as a request in flight: all but those that tell how the service is."""
        return self.path.startswith("/v1/")


class Routes:
    """All endpoints, and how to find one.

    Parameters
    ----------
    endpoints
        No two with the same method and path.
    """

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self.endpoints = tuple(endpoints)
        self._by_length: dict[int, list[tuple[tuple[str, ...], dict[str, Endpoint]]]] = {}
        for endpoint in self.endpoints:
            shapes = self._by_length.setdefault(len(endpoint.segments), [])
            for segments, methods in shapes:
                if segments == endpoint.segments:
                    methods[endpoint.method] = endpoint
                    break
            else:
                shapes.append((endpoint.segments, {endpoint.method: endpoint}))

    def find(self, method: str, raw_path: bytes) -> tuple[Endpoint, dict[str, str]]:
        """Return the endpoint that an address means, and the ids in it; or refuse it."""
        parts = raw_path.strip(b"/").split(b"/")
        for segments, methods in self._by_length.get(len(parts), ()):
            places = _match(segments, parts)
            if places is None:
                continue
            endpoint = methods.get("GET" if method == "HEAD" else method)
            if endpoint is None:
                allowed = ", ".join(sorted(methods))
                raise RefusalError(
                    405,
                    "method_not_allowed",
                    f"this address takes {allowed}, not {method[:20]}",
                    headers={"allow": allowed},
                )
            return endpoint, {name: _id(part, name) for name, part in places}
        raise RefusalError(
            404, "not_found", "there is nothing at this address; /docs lists what is"
        )


def _match(segments: tuple[str, ...], parts: list[bytes]) -> list[tuple[str, bytes]] | None:
    places = []
    for segment, part in zip(segments, parts, strict=True):
        if segment.startswith("{"):
            places.append((segment[1:-1], part))
        elif segment.encode() != part:
            return None
    return places


def _id(part: bytes, name: str) -> str:
    try:
        id_ = unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise RefusalError(
            400, "invalid", f"{name}: not percent-encoded UTF-8", field=name
        ) from None
    if not id_:
        raise RefusalError(400, "invalid", f"{name}: an id is not empty", field=name)
    return check_id(id_, name)
