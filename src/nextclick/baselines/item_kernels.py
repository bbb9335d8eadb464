"""The compiled part of Item-KNN: which items were in a session together, and how often.

The counts of an item's companions lie in one list, so that a recommendation reads that list and
nothing else: its cost depends on how many different items the last item was ever seen with, not on
how many sessions there are.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from nextclick.baselines.compiled import NOTHING, compiled, rank
from nextclick.baselines.growing_lists import Lists, append, can_append, find, fits, room_for
from nextclick.baselines.item_entries import count, item_of, number_of
from nextclick.baselines.questions import Answers, Questions
from nextclick.clicks import CONTEXT_LENGTH, Floats, Ints


class Counts(NamedTuple):
    """What was counted.

    Parameters
    ----------
    items
        The different items of each session, in the order in which they entered it.
    together
        The items that entered a session near each item, and how many sessions that was.
    n_sessions
        How many sessions each item entered.
    last_click
        The number of the click by which each item last entered a session.
    clock
        The number of the next such click.
    """

    items: Lists
    together: Lists
    n_sessions: Ints
    last_click: Ints
    clock: Ints


@compiled
def learn(counts: Counts, answers: Answers, first: int) -> int:
    """Let the clicks of transitions enter their sessions, and count them together with others.

    Returns
    -------
    int
        The transition at which the lists ran out of room, to go on from when there is more; the
        number of transitions when all is done.
    """
    for t in range(first, len(answers.targets)):
        session = answers.sessions[t]
        for i in range(answers.starts[t], answers.ends[t]):
            if not _enter(counts, session, answers.items[i]):
                return t
        if not _enter(counts, session, answers.targets[t]):
            return t
    return len(answers.targets)


@compiled
def _enter(counts: Counts, session: int, item: int) -> bool:
    """Put an item into a session if it is not there; whether there was room for that."""
    if find(counts.items, session, item) != NOTHING:
        return True
    start, length = counts.items.bounds[session]
    before = counts.items.pool[start + max(length - CONTEXT_LENGTH, 0) : start + length]
    room = room_for(counts.together, item, len(before))
    for other in before:
        room += room_for(counts.together, other, 1)
    if not (can_append(counts.items, session) and fits(counts.together, room)):
        return False
    for other in before:
        count(counts.together, item, other)
        count(counts.together, other, item)
    append(counts.items, session, item)
    counts.n_sessions[item] += 1
    counts.last_click[item] = counts.clock[0]
    counts.clock[0] += 1
    return True


@compiled
def recommend(
    counts: Counts, questions: Questions, regularization: float, k: int
) -> tuple[Ints, Floats]:
    """Return the `k` best items and their scores for each context, filled up with -1 and 0."""
    n_rows = len(questions.starts)
    items = np.full((n_rows, k), NOTHING, np.int64)
    scores = np.zeros((n_rows, k))
    for row in range(n_rows):
        others, cosines, _ = _companions(counts, questions, row, regularization)
        total = 0.0
        best, values = items[row], scores[row]
        for i in range(len(others)):
            total += cosines[i]
            if cosines[i] >= values[-1]:
                rank(best, values, others[i], cosines[i], counts.last_click)
        if total > 0:
            values /= total
    return items, scores


@compiled
def explain(
    counts: Counts, questions: Questions, regularization: float, asked: Ints
) -> tuple[Floats, Ints]:
    """Return the score, and the number of sessions with both, of the items asked about."""
    scores = np.zeros(asked.shape)
    n_sessions = np.zeros(asked.shape, np.int64)
    for row in range(len(questions.starts)):
        others, cosines, together = _companions(counts, questions, row, regularization)
        total = 0.0
        for cosine in cosines:
            total += cosine
        for column in range(asked.shape[1]):
            for i in np.flatnonzero(others == asked[row, column]):
                scores[row, column] = cosines[i] / total
                n_sessions[row, column] = together[i]
    return scores, n_sessions


@compiled
def _companions(
    counts: Counts, questions: Questions, row: int, regularization: float
) -> tuple[Ints, Floats, Ints]:
    """Return the items that other sessions have with the last one, how alike, and how many have.

    What all similarities have in common, the last item's own number of sessions, is left out.
    """
    if questions.starts[row] == questions.ends[row]:
        nobody = np.empty(0, np.int64)
        return nobody, np.empty(0), nobody
    last = questions.items[questions.ends[row] - 1]
    start, length = counts.together.bounds[last]
    own = _own(counts.items, questions.own[row], last)
    items = np.empty(length, np.int64)
    cosines = np.empty(length)
    together = np.empty(length, np.int64)
    n_found = 0
    for entry in counts.together.pool[start : start + length]:
        item = item_of(entry)
        here = int(len(own) > 0 and item in own)
        n_both = number_of(entry) - here
        if n_both > 0:
            items[n_found] = item
            together[n_found] = n_both
            cosines[n_found] = n_both / sqrt(counts.n_sessions[item] - here + regularization)
            n_found += 1
    return items[:n_found], cosines[:n_found], together[:n_found]


@compiled
def _own(lists: Lists, session: int, last: int) -> Ints:
    """Return the items that a session itself was counted to have together with its last one."""
    if session == NOTHING:
        return lists.pool[:0]
    place = find(lists, session, last)
    if place == NOTHING:
        return lists.pool[:0]
    start, length = lists.bounds[session]
    first = max(start, place - CONTEXT_LENGTH)
    return lists.pool[first : min(place + CONTEXT_LENGTH + 1, start + length)]
