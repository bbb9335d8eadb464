"""What each endpoint does: bodies in, the engine asked, answers out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from nextclick.errors import BadInputError, NoSpaceError
from nextclick.serving import schemas
from nextclick.serving.arrivals import Arrivals
from nextclick.serving.engine import Engine
from nextclick.serving.limits import (
    MOST_CLICKS,
    MOST_CONTEXTS,
    Limits,
    check_id,
    check_length,
)
from nextclick.serving.logs import event
from nextclick.serving.messages import (
    Answer,
    AnsweredItem,
    Ask,
    ClosedError,
    DefectError,
    DiskFullError,
    LogBusyError,
    LogFailedError,
    NewClick,
    ServiceError,
)
from nextclick.serving.refusals import RefusalError
from nextclick.serving.requests import Reply, Request, decode

_encode = msgspec.json.Encoder().encode
_clicks = msgspec.json.Decoder(schemas.ClickBody | list[schemas.ClickBody])
_line = msgspec.json.Decoder(schemas.ClickBody)
_session_click = msgspec.json.Decoder(schemas.SessionClickBody)
_ask = msgspec.json.Decoder(schemas.AskBody)
_item = msgspec.json.Decoder(schemas.ItemBody)
_model = msgspec.json.Decoder(schemas.ModelBody)

LISTED_ERRORS = 100
"""How many bad lines of an import are listed."""


class Api:
    """The endpoints under ``/v1/`` that clicks, sessions, recommendations and items have.

    Parameters
    ----------
    engine
        What does the work.
    limits
        How much is taken.
    """

    def __init__(self, engine: Engine, limits: Limits) -> None:
        self.engine = engine
        self._limits = limits
        self._arrivals = Arrivals(asyncio.get_running_loop())

    async def clicks(self, request: Request) -> Reply:
        """Keep one click, or a list."""
        body = decode(_clicks, await request.body())
        if isinstance(body, list):
            check_length(len(body), MOST_CLICKS, "clicks", "clicks in a request")
            clicks = [_new_click(each, f"[{n}].") for n, each in enumerate(body)]
        else:
            clicks = [_new_click(body, "")]
        kept = await self._arrivals.wait(self.engine.click(clicks)) if clicks else []
        duplicates = sum(each.duplicate for each in kept)
        return _json(schemas.KeptAnswer(len(kept) - duplicates, duplicates))

    async def import_clicks(self, request: Request) -> Reply:
        """Keep the clicks of a long body, a line each, a thousand at a time."""
        answer = schemas.ImportAnswer(0, 0, 0, [])
        waiting: list[NewClick] = []
        number = 0
        try:
            async for line in request.lines():
                number += 1
                if not line.strip():
                    continue
                click = self._read_line(line, number, answer)
                if click is not None:
                    waiting.append(click)
                if len(waiting) == MOST_CLICKS:
                    await self._keep(waiting, answer)
                    waiting = []
            await self._keep(waiting, answer)
        except (RefusalError, ServiceError) as error:
            refusal = error if isinstance(error, RefusalError) else as_refusal(error)
            refusal.problem.accepted = answer.accepted
            raise refusal from None
        return _json(answer)

    def _read_line(self, line: bytes, number: int, answer: schemas.ImportAnswer) -> NewClick | None:
        try:
            if len(line) > self._limits.line_bytes:
                check_length(len(line), self._limits.line_bytes, "line_bytes", "bytes in a line")
            return _new_click(decode(_line, line), "")
        except RefusalError as refusal:
            answer.refused += 1
            if len(answer.errors) < LISTED_ERRORS:
                message = refusal.problem.message.replace("the body", "the line")
                answer.errors.append(schemas.BadLine(number, message))
            return None

    async def _keep(self, clicks: list[NewClick], answer: schemas.ImportAnswer) -> None:
        if clicks:
            kept = await self._arrivals.wait(self.engine.click(clicks))
            duplicates = sum(each.duplicate for each in kept)
            answer.accepted += len(kept) - duplicates
            answer.duplicates += duplicates

    async def session(self, request: Request) -> Reply:
        """Tell a session's clicks."""
        id_ = request.places["session_id"]
        loop = asyncio.get_running_loop()
        clicks = await loop.run_in_executor(None, self.engine.get_session, id_)
        if not clicks:
            raise RefusalError(404, "unknown_session", "no click of this session is kept")
        return _json(
            schemas.SessionAnswer(
                id_,
                [
                    schemas.SessionClickAnswer(
                        click.item,
                        click.arrived if click.timestamp is None else click.timestamp,
                        click.event_id,
                    )
                    for click in clicks
                ],
            )
        )

    async def session_click(self, request: Request) -> Reply:
        """Keep a click of a session; recommend too, if asked."""
        options = request.options(schemas.ClickOptions)
        body = decode(_session_click, await request.body())
        id_ = request.places["session_id"]
        click = NewClick(id_, _id(body.item_id, "item_id"), body.timestamp, body.event_id)
        if not options.recommend:
            kept = await self._arrivals.wait(self.engine.click([click]))
            return _json(schemas.ClickedAnswer(kept[0].duplicate))
        ask = _session_ask(id_, options.recommend, options)
        kept, answers = await self._arrivals.wait(self.engine.click_and_recommend([click], [ask]))
        return _json(
            schemas.ClickedAnswer(kept[0].duplicate, _answered(answers[0], explained=ask.explain))
        )

    async def session_recommendations(self, request: Request) -> Reply:
        """Recommend for a session known from its clicks."""
        options = request.options(schemas.RecommendOptions)
        ask = _session_ask(request.places["session_id"], options.k, options)
        answers = await self._arrivals.wait(self.engine.recommend([ask]))
        return _json(_answered(answers[0], explained=ask.explain))

    async def recommendations(self, request: Request) -> Reply:
        """Recommend for one list of items, or for many."""
        body = decode(_ask, await request.body())
        if (body.items is None) == (body.contexts is None):
            raise RefusalError(
                400, "invalid", "give either items or contexts: one list, or many", field="items"
            )
        bulk = body.contexts
        lists = [body.items or []] if bulk is None else [context.items for context in bulk]
        check_length(len(lists), MOST_CONTEXTS, "contexts", "contexts in a request", "contexts")
        if not lists:
            return _json(schemas.BulkAnswer([]))
        answers = await self._arrivals.wait(
            self.engine.recommend([_items_ask(items, body) for items in lists])
        )
        told = [_answered(each, explained=body.explain) for each in answers]
        return _json(told[0] if bulk is None else schemas.BulkAnswer(told))

    async def put_item(self, request: Request) -> Reply:
        """Describe an item."""
        body = decode(_item, await request.body())
        item = await self._arrivals.wait(
            self.engine.put_item(
                request.places["item_id"], body.title, body.category, available=body.available
            )
        )
        return _json(schemas.ItemAnswer(item.id, item.title, item.category, item.available))

    async def get_item(self, request: Request) -> Reply:
        """Tell what is known of an item."""
        item = self.engine.get_item(request.places["item_id"])
        if item is None:
            raise RefusalError(404, "unknown_item", "nothing is known of this item")
        return _json(schemas.ItemAnswer(item.id, item.title, item.category, item.available))

    async def snapshot(self, request: Request) -> Reply:  # noqa: ARG002 - a handler's
        """Write a snapshot now."""
        started = perf_counter()
        await self._arrivals.wait(self.engine.snapshot())
        number = self.engine.stats().snapshot_number or 0
        return _json(schemas.SnapshotAnswer(number, round(perf_counter() - started, 3)))

    async def load_model(self, request: Request) -> Reply:
        """Serve by another model."""
        path = decode(_model, await request.body()).path
        if "\0" in path:
            raise RefusalError(400, "invalid", "path: not the name of a directory", field="path")
        version = await self._arrivals.wait(self.engine.load_model(Path(path)))
        label = self.engine.stats().model.label
        event("model_loaded", version=version, model=label, path=path)
        return _json(schemas.ModelAnswer(version, label))


def as_refusal(error: BadInputError | ServiceError) -> RefusalError:
    """Return what a client is told when the engine says no."""
    if isinstance(error, DiskFullError | NoSpaceError):
        return RefusalError(
            507,
            "disk_full",
            "there is no space for this on the service's disk; send it again later",
            headers={"retry-after": "10"},
        )
    if isinstance(error, BadInputError):
        return RefusalError(400, "invalid", str(error))
    if isinstance(error, ClosedError):
        return RefusalError(
            503, "stopping", "the service is stopping", headers={"retry-after": "5"}, close=True
        )
    if isinstance(error, LogFailedError):
        return RefusalError(
            503,
            "log_failed",
            "the service's disk failed; it takes clicks again when it was started anew, and only "
            "then is known whether these were kept",
        )
    if isinstance(error, LogBusyError):
        return RefusalError(503, "log_busy", str(error), headers={"retry-after": "5"})
    code = "broken" if isinstance(error, DefectError) else "not_learning"
    return RefusalError(503, code, str(error))


def _json(answer: Any) -> Reply:
    return Reply(_encode(answer))


def _id(given: str | int, field: str) -> str:
    return check_id(str(given), field)


def _new_click(body: schemas.ClickBody, place: str) -> NewClick:
    return NewClick(
        _id(body.session_id, f"{place}session_id"),
        _id(body.item_id, f"{place}item_id"),
        body.timestamp,
        body.event_id if body.event_id is None else check_id(body.event_id, f"{place}event_id"),
    )


def _session_ask(id_: str, k: int, options: schemas.RecommendOptions | schemas.ClickOptions) -> Ask:
    return Ask(
        session=id_,
        k=k,
        exclude=frozenset(options.exclude),
        exclude_seen=options.exclude_seen,
        categories=frozenset(options.category) or None,
        explain=options.explain,
    )


def _items_ask(items: list[str | int], body: schemas.AskBody) -> Ask:
    return Ask(
        items=tuple(str(item) for item in items),
        k=body.k,
        exclude=frozenset(str(item) for item in body.exclude),
        exclude_seen=body.exclude_seen,
        categories=None if body.categories is None else frozenset(body.categories),
        explain=body.explain,
    )


def _answered(answer: Answer, *, explained: bool) -> schemas.RecommendationsAnswer:
    tell = _explained if explained else _plain
    return schemas.RecommendationsAnswer(
        [tell(item) for item in answer.items], answer.cold, answer.model, answer.weight
    )


def _plain(item: AnsweredItem) -> schemas.RecommendedAnswer:
    return schemas.RecommendedAnswer(item.id, item.score, item.title, item.category)


def _explained(item: AnsweredItem) -> schemas.RecommendedAnswer:
    return schemas.RecommendedAnswer(
        item.id,
        item.score,
        item.title,
        item.category,
        item.neural,
        item.memory,
        item.sessions,
        [
            schemas.VoterAnswer(
                voter.share, None if voter.items is None else list(voter.items), voter.seconds
            )
            for voter in item.voters
        ],
    )
