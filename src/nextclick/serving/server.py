"""The server: answers the questions that wait, many by one pass of the model."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass

from nextclick.serving.answering import Question, answer, with_times
from nextclick.serving.futures import promised
from nextclick.serving.learning import Learning
from nextclick.serving.live import Live
from nextclick.serving.log import Log
from nextclick.serving.messages import Answer
from nextclick.serving.worker import Worker


@dataclass(frozen=True, eq=False)
class _Waiting:
    questions: Sequence[Question]
    future: Future[list[Answer]]


class Server:
    """The one thread that asks the model.

    One is enough: it answers whatever waits together, and two would share the same cores.

    Parameters
    ----------
    log
        Where to look up what explains an answer.
    live
        What is known of items.
    learning
        Who answers: its pupil.
    unchanging
        What is held while the model is asked, so that it does not change meanwhile.
    at_once
        How many questions are answered together at most.
    """

    def __init__(
        self,
        log: Log,
        live: Live,
        learning: Learning,
        unchanging: AbstractContextManager[object],
        at_once: int,
    ) -> None:
        self.answered = 0
        self.first_recommended: dict[str, float] = {}
        """How soon after its first click an item of the last hour was in an answer."""
        self._log = log
        self._live = live
        self._learning = learning
        self._unchanging = unchanging
        self.worker: Worker[_Waiting] = Worker("server", self._answer, _refuse, at_once)
        self.worker.start()

    @property
    def waiting(self) -> int:
        """How many are waiting for answers."""
        return len(self.worker.mailbox)

    def ask(self, questions: Sequence[Question]) -> Future[list[Answer]]:
        """Answer questions together."""
        waiting = _Waiting(questions, promised())
        self.worker.mailbox.put(waiting)
        return waiting.future

    def close(self) -> None:
        """Answer what was asked, and end."""
        self.worker.close()

    def _answer(self, batch: Sequence[_Waiting]) -> None:
        questions = [question for waiting in batch for question in waiting.questions]
        if not questions:
            answers: list[Answer] = []
        else:
            try:
                with self._unchanging:
                    pupil, version = self._learning.serving
                    answers = answer(questions, pupil, version, self._live.items)
                if any(question.ask.explain for question in questions):
                    now = self._log.clock.now()
                    answers = [with_times(each, self._log, now) for each in answers]
            except Exception as error:
                for waiting in batch:
                    waiting.future.set_exception(error)
                return
        self.answered += len(answers)
        self._note_new(answers)
        start = 0
        for waiting in batch:
            stop = start + len(waiting.questions)
            waiting.future.set_result(answers[start:stop])
            start = stop

    def _note_new(self, answers: Sequence[Answer]) -> None:
        """Note how soon items of the last hour are recommended for the first time."""
        new, noted = self._learning.new_items, self.first_recommended
        if not new:
            return
        now = self._log.clock.now()
        for answered in answers:
            for item in answered.items:
                clicked = None if item.id in noted else new.get(item.id)
                if clicked is not None:
                    noted[item.id] = max(0.0, now - clicked)
        if len(noted) > 2 * len(new) + 1_000:
            for id_ in [id_ for id_ in noted if id_ not in new]:
                del noted[id_]


def _refuse(waiting: _Waiting, error: Exception) -> None:
    if not waiting.future.done():
        waiting.future.set_exception(error)
