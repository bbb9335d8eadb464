"""A request as it arrives: its parts read, checked, and refused with words that help."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, TypeAlias, TypeVar, cast, get_origin
from urllib.parse import parse_qs

import msgspec

from nextclick.serving.limits import Limits
from nextclick.serving.refusals import JSON, RefusalError, over_limit

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
T = TypeVar("T")

NDJSON = "application/x-ndjson"

_PLACE = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`$")
_TOO_MUCH = re.compile(r"(?:of length )?<= ([\d.]+)")


class GoneError(Exception):
    """The client closed the connection before its request was whole."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the service answers.

    Parameters
    ----------
    body
        The body.
    status
        The HTTP status.
    content_type
        What the body is.
    headers
        Further headers.
    """

    body: bytes
    status: int = 200
    content_type: str = JSON
    headers: Mapping[str, str] | None = None


class Request:
    """A request whose line and headers have arrived.

    Parameters
    ----------
    scope, receive
        What an ASGI server hands over.
    places
        What stands in the address, by its name in the endpoint's path.
    limits
        How much is taken.
    """

    __slots__ = ("_limits", "_receive", "places", "scope")

    def __init__(
        self, scope: Scope, receive: Receive, places: Mapping[str, str], limits: Limits
    ) -> None:
        self.scope = scope
        self.places = places
        self._receive = receive
        self._limits = limits

    def header(self, name: bytes) -> bytes | None:
        """Return a header, given in small letters, or `None`."""
        return header(self.scope, name)

    def options(self, type_: type[T]) -> T:
        """Return what stands behind the question mark."""
        return parse_options(self.scope["query_string"], type_)

    async def body(self) -> bytes:
        """Return the whole body, if it is JSON by its type and not too long."""
        self._expect(JSON)
        message = await self._receive()
        if not message.get("more_body"):  # nearly always: no list, no timer
            return self._checked(_body(message))
        parts = [_body(message)]
        size = len(parts[0])
        while message.get("more_body"):
            self._check_size(size)
            message = await self._next()
            parts.append(_body(message))
            size += len(parts[-1])
        return self._checked(b"".join(parts))

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the lines of a long body as they arrive."""
        self._expect(NDJSON)
        rest, size, more = b"", 0, True
        while more:
            message = await self._next()
            part, more = _body(message), bool(message.get("more_body"))
            size += len(part)
            if size > self._limits.import_bytes:
                raise self._too_long("import_bytes", self._limits.import_bytes)
            *whole, rest = (rest + part).split(b"\n")
            # Of a line that is too long, only so much is kept as shows that it is.
            rest = rest[: self._limits.line_bytes + 1]
            if not more:
                whole.append(rest)
            for line in whole:
                yield line

    def _expect(self, type_: str) -> None:
        given = (self.header(b"content-type") or b"").partition(b";")[0].strip().lower()
        if given != type_.encode():
            named = given.decode("latin-1") or "none was given"
            raise RefusalError(
                415,
                "wrong_content_type",
                f"the body has to come with the header content-type: {type_}, not {named[:100]}",
                field="content-type",
            )
        length = self.header(b"content-length")
        most = self._limits.body_bytes if type_ == JSON else self._limits.import_bytes
        if length is not None and int(length) > most:
            raise self._too_long("body_bytes" if type_ == JSON else "import_bytes", most)

    async def _next(self) -> Message:
        try:
            async with asyncio.timeout(self._limits.request_seconds):
                return await self._receive()
        except TimeoutError:
            raise over_limit(
                "request_seconds",
                self._limits.request_seconds,
                "the rest of the body took too long to arrive",
                status=408,
                code="too_slow",
                close=True,
            ) from None

    def _checked(self, body: bytes) -> bytes:
        self._check_size(len(body))
        return body

    def _check_size(self, size: int) -> None:
        if size > self._limits.body_bytes:
            raise self._too_long("body_bytes", self._limits.body_bytes)

    @staticmethod
    def _too_long(name: str, most: int) -> RefusalError:
        return over_limit(
            name,
            most,
            f"the body has more than {most:,} bytes; send it in parts",
            status=413,
            code="body_too_long",
        )


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return a header, given in small letters, or `None`."""
    for key, value in scope["headers"]:
        if key == name:
            found: bytes = value
            return found
    return None


def decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Return what a body says, or refuse it in words that name the field.

    Examples
    --------
    >>> decode(msgspec.json.Decoder(list[int]), b"[1, 2")
    Traceback (most recent call last):
        ...
    nextclick.serving.refusals.RefusalError: the body is not JSON: input data was truncated
    """
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        reason = reason.removeprefix("JSON is malformed: ")
        raise RefusalError(
            400, "not_json", f"the body is not JSON: {reason[:1].lower()}{reason[1:]}"
        ) from None


def parse_options(query: bytes, type_: type[T]) -> T:
    """Return what a query string says.

    Examples
    --------
    >>> from nextclick.serving.schemas import RecommendOptions
    >>> parse_options(b"k=5&category=shoes", RecommendOptions).k
    5
    """
    # Callers ask in few ways, and briefly: what is long is not kept.
    parse = _parsed if len(query) <= 200 else _parsed.__wrapped__
    parsed: T = parse(query, cast("Any", type_))
    return parsed


@lru_cache(maxsize=4096)
def _parsed(query: bytes, type_: Any) -> Any:
    try:
        given = parse_qs(query.decode("ascii"), keep_blank_values=True, errors="strict")
    except (UnicodeDecodeError, ValueError):
        raise RefusalError(
            400, "bad_query", "what follows the question mark is not percent-encoded UTF-8"
        ) from None
    lists = _lists(type_)
    for name, values in given.items():
        if len(values) > 1 and name not in lists:
            raise RefusalError(400, "invalid", f"{name} is given more than once", field=name)
    flat = {name: values if name in lists else values[0] for name, values in given.items()}
    try:
        return msgspec.convert(flat, type_, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None


@cache
def _lists(type_: Any) -> frozenset[str]:
    """Return the options that may be given more than once."""
    fields = msgspec.structs.fields(type_)
    return frozenset(field.name for field in fields if get_origin(field.type) is tuple)


def _invalid(error: msgspec.ValidationError) -> RefusalError:
    text = str(error)
    place = _PLACE.search(text)
    field = place[1] if place else None
    message = text[: place.start()] if place else text
    message = message[:1].lower() + message[1:]
    limit = _TOO_MUCH.search(message)
    name = (field or "body").rpartition(".")[2]
    return RefusalError(
        400,
        "over_limit" if limit else "invalid",
        f"{field}: {message}" if field else message,
        field=field,
        limit=(name, float(limit[1])) if limit else None,
    )


def _body(message: Message) -> bytes:
    if message["type"] == "http.disconnect":
        raise GoneError
    body: bytes = message.get("body", b"")
    return body
