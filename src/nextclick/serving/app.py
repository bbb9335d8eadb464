"""The service as an ASGI application: who may ask, what for, and how it is answered."""

from __future__ import annotations

from time import perf_counter

from nextclick.errors import BadInputError
from nextclick.serving.api import as_refusal
from nextclick.serving.keys import Key, Keys
from nextclick.serving.limits import Limits, Rate
from nextclick.serving.logs import EVENTS
from nextclick.serving.messages import ServiceError
from nextclick.serving.metrics import Metrics
from nextclick.serving.refusals import RefusalError, over_limit
from nextclick.serving.requests import GoneError, Receive, Reply, Request, Scope, Send, header
from nextclick.serving.routes import Endpoint, Routes

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})
"""What a service without keys may be called."""

NOBODY = "(no key)"


class App:
    """Finds the endpoint, checks key and limits, answers, and counts.

    Bare ASGI: a framework would take ids with slashes apart, and adds a fifth of the time that all
    of a request takes here, or more.

    Parameters
    ----------
    routes
        The endpoints.
    keys
        Who may ask for what.
    limits
        How much is taken.
    metrics
        What is counted.
    """

    def __init__(self, routes: Routes, keys: Keys, limits: Limits, metrics: Metrics) -> None:
        self._routes = routes
        self._keys = keys
        self._limits = limits
        self._metrics = metrics
        self._rates: dict[str, Rate] = {}
        self._in_flight = 0
        metrics.in_flight.set_function(lambda: self._in_flight)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        started = perf_counter()
        endpoint: Endpoint | None = None
        try:
            endpoint, places = self._routes.find(scope["method"], scope["raw_path"])
            self._authorise(endpoint, scope)
            request = Request(scope, receive, places, self._limits)
            if endpoint.limited:
                reply = await self._counted(endpoint, request)
            else:
                reply = await endpoint.handle(request)
        except GoneError:
            return
        except Exception as error:
            reply = _refused(error, scope)
        await _send(reply, send)
        self._metrics.count(
            endpoint.path if endpoint else "(none)",
            reply.status,
            perf_counter() - started,
            shown=endpoint is not None and endpoint.timed,
        )

    async def _counted(self, endpoint: Endpoint, request: Request) -> Reply:
        if self._in_flight >= self._limits.in_flight:
            raise over_limit(
                "in_flight",
                self._limits.in_flight,
                "too many requests are being answered; try again",
                status=429,
                code="too_many_requests",
                headers={"retry-after": "1"},
            )
        self._in_flight += 1
        try:
            return await endpoint.handle(request)
        finally:
            self._in_flight -= 1

    def _authorise(self, endpoint: Endpoint, scope: Scope) -> None:
        if endpoint.scope is None:
            return
        if not self._keys.required:
            _check_host(scope)
            self._take(NOBODY)
            return
        key = self._key(scope)
        self._take(key.name)
        if endpoint.scope not in key.scopes:
            raise RefusalError(
                403,
                "wrong_scope",
                f"this needs a key with the scope {endpoint.scope!r}; this one has "
                f"{', '.join(sorted(key.scopes))}",
                field="authorization",
            )

    def _key(self, scope: Scope) -> Key:
        given = header(scope, b"authorization") or b""
        kind, _, secret = given.partition(b" ")
        key = None
        if kind.lower() == b"bearer":
            key = self._keys.find(secret.strip().decode("latin-1"))
        if key is None:
            what = "this key is not known" if given else "a key is needed"
            raise RefusalError(
                401,
                "no_key",
                f"{what}; send the header authorization: Bearer KEY",
                field="authorization",
                headers={"www-authenticate": "Bearer"},
            )
        return key

    def _take(self, name: str) -> None:
        rate = self._rates.get(name)
        if rate is None:
            rate = self._rates[name] = Rate(self._limits.rate)
        rate.take()


def _check_host(scope: Scope) -> None:
    """Without keys, answer only who calls this machine by its own name.

    A page of another site can make a browser send requests here under that site's name.
    """
    host = (header(scope, b"host") or b"").decode("latin-1").lower()
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if name not in LOOPBACK:
        raise RefusalError(
            403,
            "wrong_host",
            "without keys this service answers only requests for localhost; make a key with "
            "`nextclick keys add`",
            field="host",
        )


def _refused(error: Exception, scope: Scope) -> Reply:
    if isinstance(error, BadInputError | ServiceError):
        error = as_refusal(error)
    if not isinstance(error, RefusalError):
        EVENTS.error(
            "defect",
            exc_info=error,
            extra={"fields": {"method": scope["method"], "path": scope["path"]}},
        )
        error = RefusalError(
            500, "defect", "this is a defect of nextclick, not of the request; its log says more"
        )
    return Reply(error.body(), error.status, headers=error.headers)


async def _send(reply: Reply, send: Send) -> None:
    headers = [
        (b"content-type", reply.content_type.encode()),
        (b"content-length", str(len(reply.body)).encode()),
    ]
    if reply.headers:
        headers += [(name.encode(), value.encode()) for name, value in reply.headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


def starting() -> RefusalError:
    """Return what is answered before the engine has started."""
    return RefusalError(
        503,
        "starting",
        "the service is starting: it reads its snapshot and its log; /health/ready says when",
        headers={"retry-after": "1"},
    )
