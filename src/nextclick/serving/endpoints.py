"""The table of everything that the service does, from which routes and documentation are made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from nextclick.serving import schemas
from nextclick.serving.metrics import CONTENT_TYPE
from nextclick.serving.requests import NDJSON
from nextclick.serving.routes import Endpoint

if TYPE_CHECKING:
    from nextclick.serving.service import Service

HTML = "text/html; charset=utf-8"


def endpoints(service: Service) -> Iterator[Endpoint]:
    """Yield every endpoint, in the order in which the documentation has them."""
    yield from _clicks(service)
    yield from _recommendations(service)
    yield from _items(service)
    yield from _operation(service)
    yield from _pages(service)


def _clicks(service: Service) -> Iterator[Endpoint]:
    yield Endpoint(
        "POST",
        "/v1/clicks",
        "write",
        service.when_ready("clicks"),
        "Keep a click, or up to 1,000; the answer comes when they are on disk",
        body=schemas.ClickBody | list[schemas.ClickBody],
        answer=schemas.KeptAnswer,
    )
    yield Endpoint(
        "POST",
        "/v1/clicks/import",
        "write",
        service.when_ready("import_clicks"),
        "Keep many clicks, one JSON object a line; bad lines are passed over, and told",
        body=schemas.ClickBody,
        answer=schemas.ImportAnswer,
        takes=NDJSON,
    )
    yield Endpoint(
        "GET",
        "/v1/sessions/{session_id}",
        "read",
        service.when_ready("session"),
        "Tell a session's clicks, in order: the last 100,000",
        answer=schemas.SessionAnswer,
    )
    yield Endpoint(
        "POST",
        "/v1/sessions/{session_id}/clicks",
        "write",
        service.when_ready("session_click"),
        "Keep a click of a session and, with recommend=k, recommend what comes next",
        body=schemas.SessionClickBody,
        answer=schemas.ClickedAnswer,
        options=schemas.ClickOptions,
        timed=True,
    )


def _recommendations(service: Service) -> Iterator[Endpoint]:
    yield Endpoint(
        "GET",
        "/v1/sessions/{session_id}/recommendations",
        "read",
        service.when_ready("session_recommendations"),
        "Recommend for a session; for one that is not known, what is popular",
        answer=schemas.RecommendationsAnswer,
        options=schemas.RecommendOptions,
        timed=True,
    )
    yield Endpoint(
        "POST",
        "/v1/recommendations",
        "read",
        service.when_ready("recommendations"),
        "Recommend for a list of clicked items, or for up to 100 lists",
        body=schemas.AskBody,
        answer=(schemas.RecommendationsAnswer, schemas.BulkAnswer),
        timed=True,
    )


def _items(service: Service) -> Iterator[Endpoint]:
    yield Endpoint(
        "PUT",
        "/v1/items/{item_id}",
        "write",
        service.when_ready("put_item"),
        "Describe an item; one that is not available is not recommended from now on",
        body=schemas.ItemBody,
        answer=schemas.ItemAnswer,
    )
    yield Endpoint(
        "GET",
        "/v1/items/{item_id}",
        "read",
        service.when_ready("get_item"),
        "Tell what is known of an item",
        answer=schemas.ItemAnswer,
    )


def _operation(service: Service) -> Iterator[Endpoint]:
    yield Endpoint(
        "GET",
        "/v1/stats",
        "read",
        service.figures,
        "Tell how the service is doing: what its page shows",
        answer=dict,
        options=schemas.StatsOptions,
    )
    yield Endpoint(
        "POST",
        "/v1/admin/snapshot",
        "admin",
        service.when_ready("snapshot"),
        "Write a snapshot now",
        answer=schemas.SnapshotAnswer,
    )
    yield Endpoint(
        "POST",
        "/v1/admin/model",
        "admin",
        service.when_ready("load_model"),
        "Serve by another model from now on; no request waits or fails",
        body=schemas.ModelBody,
        answer=schemas.ModelAnswer,
    )
    yield Endpoint(
        "GET",
        "/health/live",
        None,
        service.live,
        "Say that the process answers: 503 if it has to be started again",
        answer=schemas.HealthAnswer,
    )
    yield Endpoint(
        "GET",
        "/health/ready",
        None,
        service.ready,
        "Say whether it takes clicks and recommends: 503 as long as it has not started, or failed",
        answer=schemas.HealthAnswer,
    )
    yield Endpoint(
        "GET",
        "/metrics",
        "read",
        service.prometheus,
        "Tell all figures to Prometheus",
        gives=CONTENT_TYPE,
    )


def _pages(service: Service) -> Iterator[Endpoint]:
    yield Endpoint("GET", "/", None, service.page("index.html"), "The live page", gives=HTML)
    yield Endpoint("GET", "/docs", None, service.page("docs.html"), "This page", gives=HTML)
    yield Endpoint(
        "GET", "/pages/{name}", None, service.asset, "What the pages are made of", gives="*/*"
    )
    yield Endpoint("GET", "/openapi.json", None, service.openapi, "This, for programs", answer=dict)
