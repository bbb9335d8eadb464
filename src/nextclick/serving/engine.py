"""The engine of a service: keeps clicks, learns from them, and answers questions meanwhile.

Three threads share the work, beside those that ask:

- the *writer* appends to the log, many clicks at once, and acknowledges what is on disk;
- the *learner* takes the records of the log in their order, behind the writer;
- the *server* answers the questions that wait, many at once.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from nextclick.errors import BadInputError
from nextclick.recommender import Recommender
from nextclick.runtime import Runtime
from nextclick.serving import watching
from nextclick.serving.answering import Question
from nextclick.serving.checks import check_asks, check_clicks, check_text
from nextclick.serving.futures import both, brought, flat, then
from nextclick.serving.keeper import Keeper
from nextclick.serving.learner import Learner
from nextclick.serving.log import FLUSH, ITEM, MODEL, RULES, SHADOW
from nextclick.serving.messages import (
    Answer,
    Ask,
    ClosedError,
    Item,
    Kept,
    NewClick,
    ServiceError,
    SessionClick,
    Stats,
)
from nextclick.serving.server import Server
from nextclick.serving.settings import EngineSettings
from nextclick.serving.state import StateDirectory
from nextclick.serving.turns import Turns
from nextclick.serving.writer import Writer


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
    [Kept(number=2, duplicate=False)]
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
        model: Recommender | Path | None = None,
        runtime: Runtime | None = None,
        shadow: Recommender | Path | None = None,
    ) -> Engine:
        """Start the engine on a state directory.

        What the directory holds is taken up: the newest snapshot that is whole, and the log after
        it. Sessions and items are at once as they were; learning what came after the snapshot goes
        on behind the first requests (`Stats.lag_clicks` says how far it is, `flush` waits for it).

        Parameters
        ----------
        state
            The state directory: made if it is not there; only one engine at a time may use it.
        settings
            The engine's settings.
        model
            The recommender, or the directory of one, that a new state begins with. It is the
            engine's from then on. Where there is a state already, it is not looked at: that has a
            model, which has learned since; `load_model` puts another one in its place.
        runtime
            Threads and device for models that are read.
        shadow
            A second recommender, or the directory of one, which learns the same clicks from now on
            and is scored on them, but never answers. The same as before the last stop goes on with
            what it learned. Without it, there is no shadow any more.

        Raises
        ------
        BadInputError
            The state is in use, or damaged; or there is none, and no model.
        """
        changing = Turns()
        files = StateDirectory(state, settings or EngineSettings(), runtime or Runtime(), changing)
        try:
            return cls(files, changing, model, shadow)
        except BaseException:
            files.close()
            raise

    def __init__(
        self,
        files: StateDirectory,
        changing: Turns,
        model: Recommender | Path | None,
        shadow: Recommender | Path | None,
    ) -> None:
        self.settings = files.settings
        self._files = files
        self._closing = threading.Lock()
        self._closed = False
        learning, self._live = files.recover(model)
        shadow_name = None if shadow is None else files.keep_model(shadow, "shadow")
        self._log = files.log
        self._learner = Learner(learning, self._log, self._flush, self._taken)
        self._writer = Writer(self._log, self._live, self._learner.take)
        self._keeper = Keeper(files, self.settings, self._live, self._writer)
        self._server = Server(
            self._log, self._live, learning, changing, self.settings.questions_at_once
        )
        self._agree(shadow_name)
        self._learner.start()
        self._checker = threading.Thread(target=self._check_log, name="checker", daemon=True)
        if not files.checked:
            self._checker.start()

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
        check_clicks(clicks)
        return self._writer.click(clicks)

    def click_and_recommend(
        self, clicks: Sequence[NewClick], asks: Sequence[Ask]
    ) -> Future[tuple[list[Kept], list[Answer]]]:
        """Keep clicks, and answer questions that know of them; in one go, which is faster.

        The answers are computed while the clicks are written; both are handed over when both are
        there. A click that turns out to have been kept before is not counted again: then the
        answers are computed anew. Raises as `click` and `recommend` do.
        """
        self._check_open()
        check_clicks(clicks)
        check_asks(asks)
        extended = [
            replace(ask, items=(*_items_of(ask.session, clicks), *ask.items)) for ask in asks
        ]
        answering = self._server.ask(self._questions(extended))
        pair = both(self._writer.click(clicks), answering)
        if all(click.event_id is None for click in clicks):
            return pair
        return flat(then(pair, lambda told: self._without_retries(told, asks)))

    def _without_retries(
        self, told: tuple[list[Kept], list[Answer]], asks: Sequence[Ask]
    ) -> Future[tuple[list[Kept], list[Answer]]]:
        kept, answers = told
        if not any(each.duplicate for each in kept):
            return brought((kept, answers))
        # By now the sessions know of each click once.
        return then(self._server.ask(self._questions(asks)), lambda anew: (kept, anew))

    def recommend(self, asks: Sequence[Ask]) -> Future[list[Answer]]:
        """Answer questions; an answer for each.

        Raises
        ------
        BadInputError, ClosedError
            At once: a question is none (the message names it and the field); the engine is closed.
        """
        self._check_open()
        check_asks(asks)
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
        check_text("item", id)
        item = Item(id, title, category, available)
        body = json.dumps({"title": title, "category": category, "available": available})
        return then(self._writer.append(ITEM, id, body), lambda _: item)

    def get_item(self, id: str) -> Item | None:  # noqa: A002 - what everybody calls it
        """Return what is known of an item, `None` if nothing is."""
        described = self._live.items.get(id)
        catalog = self._learner.learning.pupil.model.catalog
        if described is not None or id not in catalog:
            return described
        known = catalog[int(catalog.find([id])[0])]
        return Item(known.id, known.title, known.category)

    def get_session(self, id: str) -> list[SessionClick]:  # noqa: A002 - the same
        """Return the clicks under a session id, in order, the last 100,000; none if unknown."""
        return self._log.session(id)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every click kept so far is remembered by the model (steps come in hundreds).

        Raises as `click`.
        """
        self._check_open()
        self._flush().result(timeout)
        self._learner.call(lambda: None).result(timeout)

    def snapshot(self) -> Future[Path]:
        """Write a snapshot of what is learned until now; done when it is on disk.

        No request waits for it. Raises `ClosedError`; by the future, what kept it from being
        written.
        """
        return flat(self._learner.call(lambda: self._keeper.take(self._learner)))

    def load_model(self, model: Recommender | Path) -> Future[int]:
        """Serve by another model from a next record of the log on; done with its version.

        No request waits for it or fails. What the state knows besides the model stays: sessions,
        descriptions, and which items are not available. The new model learns the clicks that come
        after it; those before it should be in its training, as it is not told of them. A copy of it
        is kept in the state directory, and its name in the log, so that a recovery takes it up at
        the same click.

        Raises
        ------
        ClosedError
            At once.
        BadInputError
            By the future: the path holds no model, or there is no space for a copy.
        """
        self._check_open()
        return self._keeper.background.submit(self._load, model)

    def stats(self) -> Stats:
        """Return how the service is doing."""
        return watching.look(self._live, self._writer, self._learner, self._server, self._keeper)

    def close(self) -> None:
        """Stop: write what was sent, answer what was asked, take a snapshot. Harmless if closed.

        What is not learned by then is learned after the next start.
        """
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._writer.close()
            self._server.close()
            self._learner.close()
            if not self._learner.error and self._keeper.position < self._learner.learning.position:
                with suppress(Exception):  # reported; all that is lost is time
                    self._keeper.take(self._learner).result()
            self._keeper.close()
            if self._checker.is_alive():
                self._checker.join()
            self._files.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _agree(self, shadow_name: str | None) -> None:
        """Write to the log what replay has to know and is not as it was."""
        rules = {
            "learn": list(self.settings.learn),
            "write_every": self.settings.write_every,
            "sessions": {
                "idle": self.settings.idle,
                "length": self.settings.session_length,
                "limit": self.settings.open_sessions,
            },
        }
        if rules != self._live.rules:
            self._writer.append(RULES, body=json.dumps(rules)).result()
        if shadow_name != self._live.shadow:
            self._writer.append(SHADOW, body=json.dumps({"name": shadow_name})).result()
        elif shadow_name is not None:
            self._files.leave(shadow_name)

    def _load(self, model: Recommender | Path) -> int:
        name = self._files.keep_model(model, "model")
        self._writer.append(MODEL, body=json.dumps({"name": name})).result()
        return self._learner.call(lambda: self._learner.learning.version).result()

    def _flush(self) -> Future[Any]:
        return self._writer.append(FLUSH)

    def _taken(self) -> None:
        self._keeper.take_if_due(self._learner)

    def _check_log(self) -> None:
        """Look through the part of the log that a start passes over."""
        try:
            self._log.check_all(lambda: self._closed, pause=0.02)
        except (BadInputError, ServiceError) as error:
            self._keeper.report(str(error))

    def _questions(self, asks: Sequence[Ask]) -> list[Question]:
        get = self._live.sessions.get
        return [Question(ask, None if ask.session is None else get(ask.session)) for ask in asks]

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the service is stopping")


def _items_of(session: str | None, clicks: Sequence[NewClick]) -> list[str]:
    return [click.item for click in clicks if click.session == session]
