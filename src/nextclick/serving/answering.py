"""Answering questions: many at once, by one pass of the model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nextclick.clicks import CONTEXT_LENGTH, Contexts
from nextclick.recommender import Explanation, Recommendations, Recommender
from nextclick.serving.messages import Answer, AnsweredItem, Ask, Item
from nextclick.sessions import OpenSession


@dataclass(frozen=True)
class Question:
    """A question and the session it is about, as it stood when the question was looked at."""

    ask: Ask
    session: OpenSession | None

    @property
    def items(self) -> tuple[str, ...]:
        """What was clicked, most recent last."""
        before = () if self.session is None else self.session.items
        return (*before, *self.ask.items)

    def allows(self, item: Item, seen: frozenset[str]) -> bool:
        """Whether an item may be recommended."""
        ask = self.ask
        return (
            item.available
            and item.id not in ask.exclude
            and item.id not in seen
            and (ask.categories is None or item.category in ask.categories)
        )


def answer(
    questions: Sequence[Question],
    model: Recommender,
    items: Mapping[str, Item],
    version: int,
) -> list[Answer]:
    """Answer questions by one pass, and by more for those whose filters leave too little of it.

    Parameters
    ----------
    questions
        At least one.
    model
        Must not change meanwhile.
    items
        The items that were described.
    version
        The model's.
    """
    answers: list[Answer | None] = [None] * len(questions)
    waiting = list(range(len(questions)))
    k = max(question.ask.k + _spare(question) for question in questions)
    while waiting:
        asked = [questions[place] for place in waiting]
        contexts = _contexts(asked, model)
        recommended = model.recommend(contexts, min(k, max(1, model.n_items)))
        explain = any(question.ask.explain for question in asked)
        why = model.explain(contexts, recommended) if explain else None
        unanswered = []
        for row, place in enumerate(waiting):
            chosen = _choose(questions[place], row, recommended, model, items)
            if len(chosen) < questions[place].ask.k and k < model.n_items:
                unanswered.append(place)
            else:
                answers[place] = _answer(
                    questions[place], row, chosen, recommended, why, model, items, version
                )
        waiting = unanswered
        k *= 8
    return [each for each in answers if each is not None]


def _spare(question: Question) -> int:
    """Return how many more to ask for, so that filters by id leave enough."""
    seen = len(set(question.items)) if question.ask.exclude_seen else 0
    return len(question.ask.exclude) + seen


def _contexts(questions: Sequence[Question], model: Recommender) -> Contexts:
    find = model.catalog.find
    sessions = [question.session for question in questions]
    return Contexts.of(
        [find(question.items[-CONTEXT_LENGTH:]) for question in questions],
        sessions=[-1 if session is None else session.number for session in sessions],
        times=[math.nan if session is None else session.time for session in sessions],
    )


def _choose(
    question: Question,
    row: int,
    recommended: Recommendations,
    model: Recommender,
    items: Mapping[str, Item],
) -> list[int]:
    """Return the ranks of the items that pass the question's filters, as many as are wanted."""
    seen = frozenset(question.items) if question.ask.exclude_seen else frozenset()
    chosen: list[int] = []
    for rank, number in enumerate(recommended.items[row].tolist()):
        if number < 0 or len(chosen) == question.ask.k:
            break
        if question.allows(known_item(number, model, items), seen):
            chosen.append(rank)
    return chosen


def known_item(number: int, model: Recommender, items: Mapping[str, Item]) -> Item:
    """Return what is known of an item: as it was described last, or in the model's training."""
    of_model = model.catalog[number]
    described = items.get(of_model.id)
    return described or Item(of_model.id, of_model.title, of_model.category)


def _answer(
    question: Question,
    row: int,
    chosen: Sequence[int],
    recommended: Recommendations,
    why: Explanation | None,
    model: Recommender,
    items: Mapping[str, Item],
    version: int,
) -> Answer:
    numbers, scores = recommended.items[row], recommended.scores[row]
    answered = []
    explained = why if question.ask.explain else None
    for rank in chosen:
        item = known_item(int(numbers[rank]), model, items)
        answered.append(
            AnsweredItem(
                item.id,
                item.title,
                item.category,
                float(scores[rank]),
                neural=None if explained is None else float(explained.neural[row, rank]),
                memory=None if explained is None else float(explained.memory[row, rank]),
                sessions=None if explained is None else int(explained.sessions[row, rank]),
            )
        )
    weight = float(recommended.weights[row])
    return Answer(
        tuple(answered),
        bool(recommended.cold[row]),
        None if math.isnan(weight) else weight,
        version,
    )
