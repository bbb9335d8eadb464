"""Answering questions: many at once, by one pass of the model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from nextclick.catalog import Item as CatalogItem
from nextclick.clicks import CONTEXT_LENGTH, Contexts
from nextclick.recommender import Explanation, Recommendations, Recommender
from nextclick.serving.log import Log
from nextclick.serving.messages import Answer, AnsweredItem, Ask, Item, Voter
from nextclick.serving.pupil import Pupil
from nextclick.sessions import OpenSession


@dataclasses.dataclass(frozen=True)
class Question:
    """A question and the session it is about, as it stood when the question was looked at."""

    ask: Ask
    session: OpenSession | None

    @property
    def items(self) -> tuple[str, ...]:
        """What was clicked, most recent last."""
        before = () if self.session is None else self.session.items
        return (*before, *self.ask.items)

    @property
    def wanted(self) -> int:
        """How many items to ask for, so that filters by id leave enough."""
        seen = len(set(self.items)) if self.ask.exclude_seen else 0
        return self.ask.k + len(self.ask.exclude) + seen


def answer(
    questions: Sequence[Question], pupil: Pupil, version: int, items: Mapping[str, Item]
) -> list[Answer]:
    """Answer questions by one pass, and by more for those whose filters leave too little of it.

    Parameters
    ----------
    questions
        At least one.
    pupil
        Who answers; must not change meanwhile.
    version
        Of its model.
    items
        What was said of items.
    """
    model = pupil.model
    answers: list[Answer | None] = [None] * len(questions)
    waiting = list(range(len(questions)))
    k = max(question.wanted for question in questions)
    while waiting:
        asked = [questions[place] for place in waiting]
        contexts = _contexts(asked, model)
        recommended = model.recommend(contexts, min(k, max(1, model.n_items)))
        explain = any(question.ask.explain for question in asked)
        why = model.explain(contexts, recommended) if explain else None
        too_few = []
        for row, place in enumerate(waiting):
            found = _Found(questions[place], pupil, items, recommended, why, row)
            ranks = found.ranks()
            if len(ranks) < questions[place].ask.k and k < model.n_items:
                too_few.append(place)
            else:
                answers[place] = found.answer(ranks, version)
        waiting = too_few
        k *= 8
    return [each for each in answers if each is not None]


def _contexts(questions: Sequence[Question], model: Recommender) -> Contexts:
    find = model.catalog.find
    sessions = [question.session for question in questions]
    return Contexts.of(
        [find(question.items[-CONTEXT_LENGTH:]) for question in questions],
        sessions=[-1 if session is None else session.number for session in sessions],
        times=[math.nan if session is None else session.time for session in sessions],
    )


@dataclasses.dataclass(frozen=True, eq=False)
class _Found:
    """What the model says to one question."""

    question: Question
    pupil: Pupil
    items: Mapping[str, Item]
    recommended: Recommendations
    why: Explanation | None
    row: int

    def ranks(self) -> list[int]:
        """Return the ranks of the items that pass the question's filters, as many as are wanted."""
        ask = self.question.ask
        seen = frozenset(self.question.items) if ask.exclude_seen else frozenset()
        numbers = self.recommended.items[self.row].tolist()
        catalog = self.pupil.model.catalog
        ranks: list[int] = []
        for rank, number in enumerate(numbers):
            if number < 0 or len(ranks) == ask.k:
                break
            id_ = catalog.id(number)
            if id_ in ask.exclude or id_ in seen:
                continue
            described = self.items.get(id_)
            if described is not None and not described.available:
                continue
            if ask.categories is None or self._described(number).category in ask.categories:
                ranks.append(rank)
        return ranks

    def answer(self, ranks: Sequence[int], version: int) -> Answer:
        """Return an answer of the items at these ranks."""
        weight = float(self.recommended.weights[self.row])
        numbers = self.recommended.items[self.row].tolist()
        scores = self.recommended.scores[self.row].tolist()
        plain = [self._plain(numbers[rank], scores[rank]) for rank in ranks]
        if self.why is not None and self.question.ask.explain:
            plain = [
                self._explained(item, rank, self.why)
                for item, rank in zip(plain, ranks, strict=True)
            ]
        return Answer(
            tuple(plain),
            bool(self.recommended.cold[self.row]),
            None if math.isnan(weight) else weight,
            version,
        )

    def _plain(self, number: int, score: float) -> AnsweredItem:
        item = self._described(number)
        return AnsweredItem(item.id, item.title, item.category, score)

    def _explained(self, plain: AnsweredItem, rank: int, why: Explanation) -> AnsweredItem:
        return replace(
            plain,
            neural=float(why.neural[self.row, rank]),
            memory=float(why.memory[self.row, rank]),
            sessions=int(why.sessions[self.row, rank]),
            voters=tuple(self._voters(why, rank)),
        )

    def _voters(self, why: Explanation, rank: int) -> Iterator[Voter]:
        if why.voters is None or why.shares is None or why.past is None:
            return
        catalog = self.pupil.model.catalog
        for n, age in enumerate(why.voters[self.row, rank].tolist()):
            if age >= 0:
                past = why.past[int(np.ravel_multi_index((self.row, rank, n), why.voters.shape))]
                items = tuple(catalog.id(item) for item in past.tolist()) or None
                share = float(why.shares[self.row, rank, n])
                yield Voter(items, None, share, self.pupil.origin(age))

    def _described(self, number: int) -> Item | CatalogItem:
        """Return what is known of an item: as it was described last, or in the training data."""
        known = self.pupil.model.catalog[number]
        return self.items.get(known.id) or known


def with_times(answered: Answer, log: Log, now: float) -> Answer:
    """Look up in the log how long ago the contexts were that voted for the items of an answer."""
    return replace(
        answered,
        items=tuple(
            replace(item, voters=tuple(_looked_up(voter, log, now) for voter in item.voters))
            for item in answered.items
        ),
    )


def _looked_up(voter: Voter, log: Log, now: float) -> Voter:
    arrived = None if voter.number is None else log.arrival(voter.number)
    if arrived is None:
        return dataclasses.replace(voter, number=None)
    return dataclasses.replace(voter, seconds=max(0.0, now - arrived))
