"""A client of the service, for Python programs: `Client`, and `AsyncClient` for asyncio.

It needs httpx alone, none of the packages that the service itself needs.

Examples
--------
>>> with Client("http://127.0.0.1:8000") as client:  # doctest: +SKIP
...     client.click("visit 17", "red shoes", recommend=20)
...     client.recommend(session_id="visit 17", k=5, exclude_seen=True)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeAlias
from urllib.parse import quote
from uuid import uuid4

import httpx

Json: TypeAlias = dict[str, Any]

RETRIES = 2
"""How often a request is sent again when the connection broke; clicks are counted once all the
same."""

DEFAULT_URL = "http://127.0.0.1:8000"


class RefusedError(Exception):
    """The service answered with an error.

    Parameters
    ----------
    status
        The HTTP status.
    problem
        What the service said: `code` and `message`, and where they apply `field` and `limit`.

    Examples
    --------
    >>> str(RefusedError(404, {"code": "unknown_item", "message": "nothing is known of this item"}))
    '404 unknown_item: nothing is known of this item'
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = dict(problem)
        super().__init__(f"{status} {problem.get('code')}: {problem.get('message')}")


class _Call(NamedTuple):
    method: str
    path: str
    params: Json | None = None
    body: Any = None


class Client:
    """Talks to a service.

    Parameters
    ----------
    url
        Where the service is.
    key
        The API key, if the service has any.
    timeout
        Seconds to wait for an answer.
    """

    def __init__(
        self, url: str = DEFAULT_URL, *, key: str | None = None, timeout: float = 10
    ) -> None:
        transport = httpx.HTTPTransport(retries=RETRIES)
        self._http = httpx.Client(transport=transport, **_options(url, key, timeout))

    def click(
        self,
        session_id: str | int,
        item_id: str | int,
        *,
        timestamp: float | None = None,
        event_id: str | None = None,
        recommend: int = 0,
        **options: Any,
    ) -> Json:
        """Tell of a click, and ask for `recommend` recommendations in the same request.

        `options` are those of `recommend`. Without an `event_id`, one is made, so that the click
        counts once even if it is sent twice.
        """
        return self._send(_click(session_id, item_id, timestamp, event_id, recommend, options))

    def clicks(self, clicks: Sequence[Mapping[str, Any]]) -> Json:
        """Tell of up to 1,000 clicks, in order: mappings with `session_id`, `item_id` and more."""
        return self._send(_Call("POST", "/v1/clicks", body=list(clicks)))

    def recommend(
        self,
        items: Iterable[str | int] | None = None,
        *,
        session_id: str | int | None = None,
        k: int = 20,
        exclude: Iterable[str | int] = (),
        exclude_seen: bool = False,
        categories: Iterable[str] = (),
        explain: bool = False,
    ) -> Json:
        """Ask for recommendations: for a session, or for a list of clicked items."""
        return self._send(
            _recommend(items, session_id, k, exclude, exclude_seen, categories, explain)
        )

    def recommend_many(
        self,
        contexts: Iterable[Iterable[str | int]],
        *,
        k: int = 20,
        exclude: Iterable[str | int] = (),
        exclude_seen: bool = False,
        categories: Iterable[str] = (),
        explain: bool = False,
    ) -> list[Json]:
        """Ask for recommendations for up to 100 lists of clicked items; an answer for each."""
        call = _recommend_many(contexts, k, exclude, exclude_seen, categories, explain)
        return list(self._send(call)["answers"])

    def session(self, session_id: str | int) -> Json:
        """Ask for a session's clicks."""
        return self._send(_Call("GET", f"/v1/sessions/{_quoted(session_id)}"))

    def item(self, item_id: str | int) -> Json:
        """Ask what is known of an item."""
        return self._send(_Call("GET", f"/v1/items/{_quoted(item_id)}"))

    def put_item(
        self,
        item_id: str | int,
        *,
        title: str | None = None,
        category: str | None = None,
        available: bool = True,
    ) -> Json:
        """Describe an item."""
        return self._send(_put_item(item_id, title, category, available))

    def stats(self) -> Json:
        """Ask how the service is doing."""
        return self._send(_Call("GET", "/v1/stats"))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, call: _Call) -> Json:
        return _read(self._http.request(*call[:2], params=call.params, json=call.body))


class AsyncClient:
    """`Client` for asyncio: the same functions, to be awaited."""

    def __init__(
        self, url: str = DEFAULT_URL, *, key: str | None = None, timeout: float = 10
    ) -> None:
        transport = httpx.AsyncHTTPTransport(retries=RETRIES)
        self._http = httpx.AsyncClient(transport=transport, **_options(url, key, timeout))

    async def click(
        self,
        session_id: str | int,
        item_id: str | int,
        *,
        timestamp: float | None = None,
        event_id: str | None = None,
        recommend: int = 0,
        **options: Any,
    ) -> Json:
        """Tell of a click; as `Client.click`."""
        return await self._send(
            _click(session_id, item_id, timestamp, event_id, recommend, options)
        )

    async def clicks(self, clicks: Sequence[Mapping[str, Any]]) -> Json:
        """Tell of clicks; as `Client.clicks`."""
        return await self._send(_Call("POST", "/v1/clicks", body=list(clicks)))

    async def recommend(
        self,
        items: Iterable[str | int] | None = None,
        *,
        session_id: str | int | None = None,
        k: int = 20,
        exclude: Iterable[str | int] = (),
        exclude_seen: bool = False,
        categories: Iterable[str] = (),
        explain: bool = False,
    ) -> Json:
        """Ask for recommendations; as `Client.recommend`."""
        return await self._send(
            _recommend(items, session_id, k, exclude, exclude_seen, categories, explain)
        )

    async def recommend_many(
        self,
        contexts: Iterable[Iterable[str | int]],
        *,
        k: int = 20,
        exclude: Iterable[str | int] = (),
        exclude_seen: bool = False,
        categories: Iterable[str] = (),
        explain: bool = False,
    ) -> list[Json]:
        """Ask for recommendations for up to 100 lists; as `Client.recommend_many`."""
        call = _recommend_many(contexts, k, exclude, exclude_seen, categories, explain)
        return list((await self._send(call))["answers"])

    async def session(self, session_id: str | int) -> Json:
        """Ask for a session's clicks."""
        return await self._send(_Call("GET", f"/v1/sessions/{_quoted(session_id)}"))

    async def item(self, item_id: str | int) -> Json:
        """Ask what is known of an item."""
        return await self._send(_Call("GET", f"/v1/items/{_quoted(item_id)}"))

    async def put_item(
        self,
        item_id: str | int,
        *,
        title: str | None = None,
        category: str | None = None,
        available: bool = True,
    ) -> Json:
        """Describe an item."""
        return await self._send(_put_item(item_id, title, category, available))

    async def stats(self) -> Json:
        """Ask how the service is doing."""
        return await self._send(_Call("GET", "/v1/stats"))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _send(self, call: _Call) -> Json:
        return _read(await self._http.request(*call[:2], params=call.params, json=call.body))


def _options(url: str, key: str | None, timeout: float) -> Json:
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    return {"base_url": url, "headers": headers, "timeout": timeout}


def _click(
    session_id: str | int,
    item_id: str | int,
    timestamp: float | None,
    event_id: str | None,
    recommend: int,
    options: Json,
) -> _Call:
    if options and not recommend:
        raise TypeError(f"{', '.join(options)}: say how many to recommend=…, or leave it out")
    body = {"item_id": item_id, "timestamp": timestamp, "event_id": event_id or uuid4().hex}
    params = _how(**options) | {"recommend": recommend} if recommend else None
    return _Call("POST", f"/v1/sessions/{_quoted(session_id)}/clicks", params, body)


def _recommend(
    items: Iterable[str | int] | None,
    session_id: str | int | None,
    k: int,
    exclude: Iterable[str | int],
    exclude_seen: bool,
    categories: Iterable[str],
    explain: bool,
) -> _Call:
    if (items is None) == (session_id is None):
        raise TypeError("give either items or session_id")
    if session_id is not None:
        params = _how(exclude, exclude_seen, categories, explain) | {"k": k}
        return _Call("GET", f"/v1/sessions/{_quoted(session_id)}/recommendations", params)
    body = _how_in_body(k, exclude, exclude_seen, categories, explain)
    return _Call("POST", "/v1/recommendations", body={"items": list(items or ()), **body})


def _recommend_many(
    contexts: Iterable[Iterable[str | int]],
    k: int,
    exclude: Iterable[str | int],
    exclude_seen: bool,
    categories: Iterable[str],
    explain: bool,
) -> _Call:
    body = _how_in_body(k, exclude, exclude_seen, categories, explain)
    body["contexts"] = [{"items": list(items)} for items in contexts]
    return _Call("POST", "/v1/recommendations", body=body)


def _how_in_body(
    k: int,
    exclude: Iterable[str | int],
    exclude_seen: bool,
    categories: Iterable[str],
    explain: bool,
) -> Json:
    return {
        "k": k,
        "exclude": list(exclude),
        "exclude_seen": exclude_seen,
        "categories": list(categories) or None,
        "explain": explain,
    }


def _how(
    exclude: Iterable[str | int] = (),
    exclude_seen: bool = False,
    categories: Iterable[str] = (),
    explain: bool = False,
) -> Json:
    return {
        "exclude": [str(item) for item in exclude],
        "exclude_seen": str(exclude_seen).lower(),
        "category": list(categories),
        "explain": str(explain).lower(),
    }


def _put_item(
    item_id: str | int, title: str | None, category: str | None, available: bool
) -> _Call:
    body = {"title": title, "category": category, "available": available}
    return _Call("PUT", f"/v1/items/{_quoted(item_id)}", body=body)


def _quoted(id_: str | int) -> str:
    return quote(str(id_), safe="")


def _read(response: httpx.Response) -> Json:
    try:
        body = response.json()
    except ValueError:
        body = {}
    if response.is_success:
        answer: Json = body
        return answer
    problem = body.get("error") if isinstance(body, dict) else None
    raise RefusedError(
        response.status_code,
        problem or {"code": "not_the_service", "message": response.text[:200]},
    )
