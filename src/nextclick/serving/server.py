"""The server: answers the questions that wait, many by one pass of the model."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from nextclick.serving.answering import Question, answer
from nextclick.serving.live import Live
from nextclick.serving.messages import Answer
from nextclick.serving.pupil import Pupil


@dataclass(frozen=True, eq=False)
class _Waiting:
    questions: Sequence[Question]
    future: Future[list[Answer]]


class Server:
    """The one thread that asks the model.

    One is enough: it answers whatever waits together, and two would share the same cores.

    Parameters
    ----------
    live
        What is known of items.
    serving
        Says who answers: the pupil, and its version.
    unchanging
        What is held while the model is asked, so that it does not change meanwhile.
    at_once
        How many questions are answered together at most.
    """

    def __init__(
        self,
        live: Live,
        serving: Callable[[], tuple[Pupil, int]],
        unchanging: threading.Lock,
        at_once: int,
    ) -> None:
        self.answered = 0
        self._live = live
        self._serving = serving
        self._unchanging = unchanging
        self._at_once = at_once
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="server", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many are waiting for answers."""
        return self._queue.qsize()

    def ask(self, questions: Sequence[Question]) -> Future[list[Answer]]:
        """Answer questions together."""
        waiting = _Waiting(questions, Future())
        self._queue.put(waiting)
        return waiting.future

    def close(self) -> None:
        """Answer what was asked, and end."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            batch = [self._queue.get()]
            while not self._queue.empty() and len(batch) < self._at_once:
                batch.append(self._queue.get())
            self._answer([waiting for waiting in batch if waiting is not None])
            if None in batch:
                return

    def _answer(self, batch: Sequence[_Waiting]) -> None:
        questions = [question for waiting in batch for question in waiting.questions]
        if not questions:
            answers: list[Answer] = []
        else:
            try:
                with self._unchanging:
                    pupil, version = self._serving()
                    answers = answer(questions, pupil.model, self._live.items, version)
            except Exception as error:
                for waiting in batch:
                    waiting.future.set_exception(error)
                return
        self.answered += len(answers)
        start = 0
        for waiting in batch:
            stop = start + len(waiting.questions)
            waiting.future.set_result(answers[start:stop])
            start = stop
