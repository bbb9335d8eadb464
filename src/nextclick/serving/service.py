"""The service: an engine that starts behind an open port, and all its endpoints."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import fields
from functools import partial
from importlib import resources
from typing import Any

import msgspec

from nextclick import __version__
from nextclick.serving import schemas
from nextclick.serving.api import Api
from nextclick.serving.app import App, starting
from nextclick.serving.endpoints import endpoints
from nextclick.serving.engine import Engine
from nextclick.serving.history import EVERY, History
from nextclick.serving.keys import Keys
from nextclick.serving.limits import Limits
from nextclick.serving.logs import EVENTS, event
from nextclick.serving.messages import Ask, Stats
from nextclick.serving.metrics import CONTENT_TYPE, Metrics
from nextclick.serving.openapi import document
from nextclick.serving.protocol import close_the_slow
from nextclick.serving.refusals import RefusalError
from nextclick.serving.requests import Reply, Request
from nextclick.serving.routes import Handler, Routes

PAGES = {
    "index.html": "text/html; charset=utf-8",
    "docs.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "charts.js": "text/javascript; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "service.js": "text/javascript; charset=utf-8",
    "shop.js": "text/javascript; charset=utf-8",
    "docs.js": "text/javascript; charset=utf-8",
}
"""What the pages are made of."""

PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


class Service:
    """All that the service is, apart from the port it listens on.

    Made on the event loop that it runs on.

    Parameters
    ----------
    open_engine
        Starts the engine; takes its time, on a thread of its own.
    keys, limits
        Who may ask, and for how much.
    demo
        What the page says of simulated visitors, if there are any.
    """

    def __init__(
        self, open_engine: Callable[[], Engine], keys: Keys, limits: Limits, *, demo: bool = False
    ) -> None:
        self.engine: Engine | None = None
        self.keys = keys
        self.limits = limits
        self.connections: Collection[Any] = ()
        self._demo = demo
        self._open_engine = open_engine
        self._api: Api | None = None
        self._history = History()
        self._started = time.time()
        self._stats: tuple[float, Stats] | None = None
        self.metrics = Metrics(self.stats, lambda: len(self.connections))
        self.routes = Routes(endpoints(self))
        self.app = App(self.routes, keys, limits, self.metrics)
        self._document = msgspec.json.encode(document(self.routes.endpoints, limits))
        folder = resources.files("nextclick.serving") / "pages"
        self._pages = {name: (folder / name).read_bytes() for name in PAGES}

    async def start(self) -> None:
        """Open the engine; requests are answered with 503 until this is done."""
        event("starting", version=__version__)
        began = time.perf_counter()
        self.engine = await self._opened()
        await self._warm_up(self.engine)
        self._api = Api(self.engine, self.limits)
        stats = self.engine.stats()
        event(
            "started",
            seconds=round(time.perf_counter() - began, 3),
            model=stats.model.label,
            items=stats.model.items,
            clicks=stats.clicks,
        )

    @staticmethod
    async def _warm_up(engine: Engine) -> None:
        """Ask once what visitors ask, so that none of them waits while code is compiled."""
        popular = await asyncio.wrap_future(engine.recommend([Ask(k=1)]))
        clicked = tuple(item.id for item in popular[0].items)
        await asyncio.wrap_future(engine.recommend([Ask(items=clicked, explain=True)]))

    async def _opened(self) -> Engine:
        """Open the engine on a thread that does not keep the process from ending."""
        opened: Future[Engine] = Future()

        def open_engine() -> None:
            try:
                opened.set_result(self._open_engine())
            except BaseException as error:
                opened.set_exception(error)

        threading.Thread(target=open_engine, name="opening", daemon=True).start()
        return await asyncio.wrap_future(opened)

    async def stop(self) -> None:
        """Close the engine: what was asked is answered, what was sent is kept."""
        self._api = None
        if self.engine is not None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, self.engine.close)
        event("stopped")

    async def look_after(self) -> None:
        """Every second, for ever: close slow connections, read changed keys, take a sample."""
        sampled = 0.0
        while True:
            await asyncio.sleep(1)
            try:
                slow = await close_the_slow(self.connections, self.limits)
                if slow:
                    event("slow_clients_closed", connections=slow)
                self.keys.refresh()
                stats = self.stats()
                if stats is not None and time.time() - sampled >= EVERY:
                    sampled = time.time()
                    self._history.add(sampled, stats, self.metrics.percentiles())
            except Exception:
                EVENTS.exception("housekeeping_failed")

    def when_ready(self, name: str) -> Handler:
        """Return a handler that is the API's method of this name, once there is an engine."""

        async def handle(request: Request) -> Reply:
            if self._api is None:
                raise starting()
            reply: Reply = await getattr(self._api, name)(request)
            return reply

        return handle

    def stats(self) -> Stats | None:
        """Return the engine's figures, not older than a second."""
        if self.engine is None:
            return None
        now = time.monotonic()
        if self._stats is None or now - self._stats[0] > 1:
            self._stats = (now, self.engine.stats())
        return self._stats[1]

    async def live(self, request: Request) -> Reply:  # noqa: ARG002 - a handler's
        """Say that the process answers; not if only another start makes it whole."""
        self._check_whole()
        return Reply(msgspec.json.encode(schemas.HealthAnswer("live")))

    async def ready(self, request: Request) -> Reply:  # noqa: ARG002 - the same
        """Say that clicks are kept and recommendations given; or not yet, or not any more."""
        stats = self.stats()
        if self._api is None or stats is None:
            raise starting()
        self._check_whole()
        if stats.writing_error is not None:
            raise RefusalError(503, "log_failed", f"no clicks are taken: {stats.writing_error}")
        status = "ready" if stats.learning_error is None else "not learning"
        return Reply(msgspec.json.encode(schemas.HealthAnswer(status)))

    def _check_whole(self) -> None:
        stats = self.stats()
        if stats is not None and stats.defects:
            raise RefusalError(
                503, "broken", f"{'; '.join(stats.defects)}; start the service again"
            )

    async def figures(self, request: Request) -> Reply:
        """Tell everything that the page shows."""
        stats = self.stats()
        if stats is None:
            raise starting()
        options = request.options(schemas.StatsOptions)
        return Reply(
            msgspec.json.encode(
                {
                    "time": time.time(),
                    "version": __version__,
                    "demo": self._demo,
                    "up_seconds": time.time() - self._started,
                    "latency": self.metrics.percentiles(),
                    "history": self._history.since(options.since),
                    **{
                        field.name: getattr(stats, field.name)
                        for field in fields(stats)
                        if options.curve or field.name != "curve"
                    },
                }
            )
        )

    async def prometheus(self, request: Request) -> Reply:  # noqa: ARG002 - a handler's
        """Tell everything that Prometheus reads."""
        return Reply(self.metrics.text(), content_type=CONTENT_TYPE)

    async def openapi(self, request: Request) -> Reply:  # noqa: ARG002 - the same
        """Describe all endpoints to programs."""
        return Reply(self._document)

    def page(self, name: str) -> Handler:
        """Return a handler that shows a page."""
        return partial(self._page, name)

    async def asset(self, request: Request) -> Reply:
        """Show a part of a page."""
        return await self._page(request.places["name"], request)

    async def _page(self, name: str, request: Request) -> Reply:  # noqa: ARG002 - a handler's
        if name not in self._pages:
            raise RefusalError(404, "not_found", "there is no such file")
        return Reply(self._pages[name], content_type=PAGES[name], headers=PAGE_HEADERS)
