"""The engine of a service: keeps clicks, learns from them, and answers questions meanwhile.

Three threads share the work, beside those that ask:

- the *writer* appends to the log, many clicks at once, and acknowledges what is on disk;
- the *learner* takes the records of the log in their order, behind the writer;
- the *server* answers the questions that wait, many at once.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from nextclick import persistence
from nextclick.catalog import check_id
from nextclick.errors import BadInputError
from nextclick.recommender import Recommender
from nextclick.runtime import Runtime
from nextclick.serving.answering import Question
from nextclick.serving.learner import Learner
from nextclick.serving.live import Live
from nextclick.serving.log import FLUSH, ITEM, MODEL, Log
from nextclick.serving.messages import (
    Answer,
    Ask,
    ClosedError,
    CurvePoint,
    Item,
    Kept,
    LearnerStats,
    NewClick,
    SessionClick,
    Stats,
)
from nextclick.serving.pupil import Learning, Pupil
from nextclick.serving.server import Server
from nextclick.serving.settings import EngineSettings
from nextclick.serving.snapshots import Snapshot, Snapshots
from nextclick.serving.writer import Writer

Result = TypeVar("Result")


class Engine:
    """A recommender that learns from every click it is told of, and loses none.

    Made by `open`. All methods may be called from any thread. Those that return a future do not
    wait; `asyncio.wrap_future` turns it into an awaitable.

    Examples
    --------
    >>> import tempfile
    >>> from nextclick.baselines.popularity import Popularity
    >>> from nextclick.catalog import Catalog
    >>> from nextclick.clicks import ClickLog
    >>> log = ClickLog.of([(0, 0, 1), (0, 1, 2), (1, 1, 3)])
    >>> model = Popularity().fit(log, catalog=Catalog(["shoes", "socks"]))
    >>> state = tempfile.TemporaryDirectory()
    >>> engine = Engine.open(Path(state.name), EngineSettings(), model=model)
    >>> engine.click([NewClick("anna", "shoes")]).result()
    [Kept(number=1, duplicate=False)]
    >>> [item.id for item in engine.recommend([Ask("anna", k=1)]).result()[0].items]
    ['socks']
    >>> engine.close()
    >>> state.cleanup()
    """

    @classmethod
    def open(
        cls,
        state: Path,
        settings: EngineSettings | None = None,
        *,
        model: Recommender | None = None,
        runtime: Runtime | None = None,
        shadow: Recommender | None = None,
    ) -> Engine:
        """Start the engine on a state directory.

        What the directory holds is taken up: the newest snapshot that is whole, and the log after
        it, which is learned behind the first requests (`Stats.lag_clicks` says how far it is).

        Parameters
        ----------
        state
            The state directory: made if it is not there; only one engine at a time may use it.
        settings
            The engine's settings.
        model
            The recommender that a new state begins with; must not be given where there is a state
            already (`load_model` changes the model of one). It is the engine's from then on.
        runtime
            Threads and device for models that are read from the state directory.
        shadow
            A second recommender, which learns the same clicks from now on and is scored on them,
            but never answers.
        """
        return cls(state, settings or EngineSettings(), model, runtime or Runtime(), shadow)

    def __init__(
        self,
        state: Path,
        settings: EngineSettings,
        model: Recommender | None,
        runtime: Runtime,
        shadow: Recommender | None,
    ) -> None:
        self.state = state
        self.settings = settings
        self.runtime = runtime
        state.mkdir(parents=True, exist_ok=True)
        self._lock_file = _locked(state)
        try:
            self._start(model, shadow)
        except BaseException:
            os.close(self._lock_file)
            raise

    def _start(self, model: Recommender | None, shadow: Recommender | None) -> None:
        settings = self.settings
        self._changing = threading.Lock()
        self._closed = False
        self._snapshots = Snapshots(self.state / "snapshots", settings.keep_snapshots)
        self._wanted_snapshots: list[Future[Path]] = []
        self._snapshot_time: float | None = None
        self._loaded: dict[int, Recommender] = {}
        learning = self._recover(model, shadow)
        self._log = Log(self.state / "clicks.db")
        self._live = self._catch_up(learning)
        self._learner = Learner(learning, self._flush, self._rested)
        self._writer = Writer(self._log, self._live, self._learner.take)
        self._server = Server(
            self._live,
            lambda: (learning.pupils[0], learning.version),
            self._changing,
            settings.questions_at_once,
        )
        self._learner.start()

    # What callers use

    def click(self, clicks: Sequence[NewClick]) -> Future[list[Kept]]:
        """Keep clicks: done when they are on disk, and their sessions know of them.

        The clicks are kept together or not at all, in this order.

        Raises
        ------
        BadInputError, ClosedError
            At once: an id or a time cannot be used (the message names the click and the field); the
            engine is closed.
        DiskFullError, LogFailedError
            By the future: nothing was kept.
        """
        self._check_open()
        _check_clicks(clicks)
        return self._writer.click(clicks)

    def click_and_recommend(
        self, clicks: Sequence[NewClick], asks: Sequence[Ask]
    ) -> Future[tuple[list[Kept], list[Answer]]]:
        """Keep clicks, and answer questions that know of them; in one go, which is faster.

        The answers are computed while the clicks are written; both are handed over when both are
        there. Raises as `click` and `recommend` do.
        """
        self._check_open()
        _check_clicks(clicks)
        _check_asks(asks)
        extended = [
            replace(ask, items=(*_items_of(ask.session, clicks), *ask.items)) for ask in asks
        ]
        answering = self._server.ask(self._questions(extended))
        kept = self._writer.click(clicks)
        return _both(kept, answering)

    def recommend(self, asks: Sequence[Ask]) -> Future[list[Answer]]:
        """Answer questions; an answer for each.

        Raises
        ------
        BadInputError, ClosedError
            At once: a question is none (the message names it and the field); the engine is closed.
        """
        self._check_open()
        _check_asks(asks)
        return self._server.ask(self._questions(asks))

    def put_item(
        self,
        id: str,  # noqa: A002 - what everybody calls it
        title: str | None = None,
        category: str | None = None,
        *,
        available: bool = True,
    ) -> Future[Item]:
        """Describe an item, in place of what was said of it before.

        From when this is done, an item that is not available is in no answer. Raises as `click`.
        """
        self._check_open()
        _check_text("item", id)
        item = Item(id, title, category, available)
        body = json.dumps({"title": title, "category": category, "available": available})
        return _then(self._writer.append(ITEM, id, body), lambda _: item)

    def get_item(self, id: str) -> Item | None:  # noqa: A002 - what everybody calls it
        """Return what is known of an item, `None` if nothing is."""
        described = self._live.items.get(id)
        catalog = self._learner.learning.pupils[0].model.catalog
        if described is not None or id not in catalog:
            return described
        known = catalog[int(catalog.find([id])[0])]
        return Item(known.id, known.title, known.category)

    def get_session(self, id: str) -> list[SessionClick]:  # noqa: A002 - the same
        """Return the clicks under a session id, in order, the last 1,000; none if unknown."""
        return self._log.session(id)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every click kept so far is remembered by the model (steps come in hundreds).

        Raises as `click`.
        """
        self._check_open()
        self._flush().result(timeout)
        self._learner.reached().result(timeout)

    def snapshot(self) -> Future[Path]:
        """Write a snapshot, as soon as no batch is open; done when it is on disk."""
        self._check_open()
        future: Future[Path] = Future()
        self._wanted_snapshots.append(future)
        return future

    def load_model(self, model: Recommender | Path) -> Future[int]:
        """Serve by another model from the next record of the log on; done with its version.

        No request waits for it or fails. What the state knows besides the model stays: sessions,
        descriptions, and which items are not available. The new model learns the clicks that come
        after it; those before it should be in its training. Raises as `click`, and `BadInputError`
        for a path that holds no model.
        """
        self._check_open()
        if isinstance(model, Path):
            model = persistence.load(model, self.runtime)
        version = self._learner.learning.version + 1
        persistence.save(model, self._model_path(version))
        self._loaded[version] = model
        self._writer.append(MODEL, body=json.dumps({"version": version})).result()
        return _then(self._learner.reached(), lambda _: version)

    def stats(self) -> Stats:
        """Return how the service is doing."""
        now = time.time()
        learning, last = self._learner.learning, self._log.last
        main, *others = learning.pupils
        group = learning.course.group
        return Stats(
            clicks=self._log.clicks,
            duplicates=self._writer.duplicates,
            refused=self._writer.refused,
            recommendations=self._server.answered,
            sessions=len(self._live.sessions),
            queue=self._server.waiting,
            log_number=last,
            learned_number=learning.position,
            lag_clicks=last - learning.position,
            lag_seconds=max(0.0, now - group[0].click.arrived) if group else 0.0,
            model_version=learning.version,
            model=_learner_stats(main, now),
            shadow=_learner_stats(others[0], now) if others else None,
            curve=tuple(
                CurvePoint(at, 60.0, quality, None) for at, quality in main.quality.curve()
            ),
            new_items=(),
            snapshot_number=self._snapshots.newest_position,
            snapshot_time=self._snapshot_time,
            learning_error=self._learner.error,
        )

    def close(self) -> None:
        """Stop: answer what was asked, write what was sent, learn it. Harmless if closed."""
        if self._closed:
            return
        self._closed = True
        self._writer.close()
        self._learner.close()
        self._server.close()
        for future in self._wanted_snapshots:
            future.set_exception(ClosedError("the engine was closed"))
        self._log.close()
        os.close(self._lock_file)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Starting

    def _recover(self, model: Recommender | None, shadow: Recommender | None) -> Learning:
        snapshot = self._snapshots.newest(self.runtime)
        if snapshot is None:
            if model is None:
                raise BadInputError(f"{self.state}: no state is there; give a model to begin with")
            pupils = [Pupil(each, self._changing) for each in (model, shadow) if each is not None]
            self._snapshots.write(Snapshot(0, {"model": model}, {"models": ["model"]}))
            return Learning(self.settings, pupils, self._take_over)
        if model is not None:
            raise BadInputError(
                f"{self.state}: a state is there already, with a model that learned; start without "
                "a model, or load one afterwards"
            )
        pupils = [Pupil(snapshot.models["model"], self._changing)]
        return Learning(self.settings, pupils, self._take_over, position=snapshot.position)

    def _catch_up(self, learning: Learning) -> Live:
        """Take what the log has beyond the snapshot."""
        items: dict[str, Item] = {}
        live = Live(learning.course.sessions.copy(), items)
        for records in self._log.read(learning.position):
            for record in records:
                learning.take(record)
                live.apply(record)
        return live

    def _take_over(self, version: int) -> Pupil:
        """Return the model of this version: it was loaded just now, or before a restart."""
        model = self._loaded.pop(version, None)
        if model is None:
            model = persistence.load(self._model_path(version), self.runtime)
        return Pupil(model, self._changing)

    def _model_path(self, version: int) -> Path:
        return self.state / "models" / str(version)

    # Going on

    def _flush(self) -> Future[Any]:
        return self._writer.append(FLUSH)

    def _rested(self) -> None:
        while self._wanted_snapshots:
            learning = self._learner.learning
            models = {"model": learning.pupils[0].model}
            path = self._snapshots.write(Snapshot(learning.position, models, {"models": ["model"]}))
            self._snapshot_time = time.time()
            self._wanted_snapshots.pop().set_result(path)

    def _questions(self, asks: Sequence[Ask]) -> list[Question]:
        get = self._live.sessions.get
        return [Question(ask, None if ask.session is None else get(ask.session)) for ask in asks]

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the service is stopping")


def _items_of(session: str | None, clicks: Sequence[NewClick]) -> list[str]:
    return [click.item for click in clicks if click.session == session]


def _both(
    kept: Future[list[Kept]], answering: Future[list[Answer]]
) -> Future[tuple[list[Kept], list[Answer]]]:
    """Return what is done when both are; nobody waits for the other meanwhile."""
    both: Future[tuple[list[Kept], list[Answer]]] = Future()
    turn = threading.Lock()

    def done(_: Future[Any]) -> None:
        with turn:
            if both.done() or not (kept.done() and answering.done()):
                return
            try:
                both.set_result((kept.result(), answering.result()))
            except Exception as error:
                both.set_exception(error)

    kept.add_done_callback(done)
    answering.add_done_callback(done)
    return both


def _then(first: Future[Any], result: Callable[[Any], Result]) -> Future[Result]:
    """Return a future of what `result` makes of the first one's."""
    second: Future[Result] = Future()

    def done(_: Future[Any]) -> None:
        try:
            second.set_result(result(first.result()))
        except Exception as error:
            second.set_exception(error)

    first.add_done_callback(done)
    return second


def _learner_stats(pupil: Pupil, now: float) -> LearnerStats:
    return LearnerStats(
        pupil.model.label,
        pupil.model.n_items,
        getattr(pupil.model, "memory_entries", None),
        pupil.steps,
        pupil.quality.last_hour(now),
        pupil.quality.start,
    )


def _locked(state: Path) -> int:
    """Take the state directory for this process, or say that another one has it."""
    descriptor = os.open(state / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise BadInputError(
            f"{state}: another service uses this state directory; stop it, or give another one"
        ) from None
    return descriptor


def _check_clicks(clicks: Sequence[NewClick]) -> None:
    for place, click in enumerate(clicks):
        for name, value in (
            ("session", click.session),
            ("item", click.item),
            ("event_id", click.event_id),
        ):
            if value is None and name == "event_id":
                continue
            _check_text(f"click {place}: {name}", value)
        if click.timestamp is not None and not math.isfinite(click.timestamp):
            raise BadInputError(f"click {place}: timestamp is {click.timestamp}; give seconds")


def _check_text(what: str, value: object) -> None:
    if not isinstance(value, str):
        raise BadInputError(f"{what} is not text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadInputError(f"{what} is not text that UTF-8 can hold") from None
    try:
        check_id(value)
    except BadInputError as error:
        raise BadInputError(f"{what}: {error}") from None


def _check_asks(asks: Sequence[Ask]) -> None:
    for place, ask in enumerate(asks):
        if ask.k < 1:
            raise BadInputError(f"question {place}: k is {ask.k}; ask for at least one item")
