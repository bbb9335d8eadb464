"""The compiled part of session kNN: who shares items with a session, and what they vote for.

Everything that is remembered lies in two tables of growing lists, the items of each session and the
sessions of each item, so that neither learning nor asking touches more than a few of them. What a
question needs besides is a handful of hash tables, whose size depends on the question alone: not on
the number of sessions, and not on the size of the catalog.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from nextclick.baselines.growing_lists import Lists, append, can_append, compiled, contains
from nextclick.clicks import Floats, Ints

UNIT = 1 << 32
"""What a similarity of 1 is as an integer: sums of integers do not depend on their order."""

RANK_BITS = 24
"""How many bits of a neighbour's key say how recent it is, below those of its similarity."""

SESSION_BITS = 32
"""How many bits of an entry are the session's number, below those of the click's number."""

NOTHING = -1


class History(NamedTuple):
    """The past sessions, both ways round.

    Parameters
    ----------
    items
        The different items of each session, in the order in which they entered it.
    sessions
        The entries of each item: the number of the click by which it entered a session, and that
        session's number, in one integer; so that entries are in order of time.
    clock
        The number of the next such click.
    """

    items: Lists
    sessions: Lists
    clock: Ints


class Sample(NamedTuple):
    """Sessions that share items with a context, the most recent first.

    Parameters
    ----------
    sessions
        Their numbers.
    n_shared
        How many of the context's items each has.
    latest
        The last position in the context of any of these.
    """

    sessions: Ints
    n_shared: Ints
    latest: Ints


class Votes(NamedTuple):
    """What the neighbours of one session vote for: a hash table by item.

    Parameters
    ----------
    items
        The item in each slot, or `NOTHING`.
    sums
        The weights of the votes for it, added up.
    counts
        The number of neighbours that vote for it.
    filled
        The slots that hold an item.
    """

    items: Ints
    sums: Ints
    counts: Ints
    filled: Ints


class Questions(NamedTuple):
    """Contexts, none of them empty, and the number of each one's own session, -1 if not known.

    A context's own session is no neighbour of it.
    """

    items: Ints
    starts: Ints
    ends: Ints
    own: Ints


class Answers(NamedTuple):
    """Transitions, and the number of each one's session."""

    items: Ints
    starts: Ints
    ends: Ints
    sessions: Ints
    targets: Ints


class Rules(NamedTuple):
    """The settings: how many sessions are compared, how many of them vote, and how.

    A vote weighs ``(x / |s|) ** emphasis`` times the similarity; all alike at 0.
    """

    sample_size: int
    n_neighbours: int
    emphasis: float


@compiled
def learn(history: History, answers: Answers, first: int) -> int:
    """Let the clicks of transitions enter their sessions; those that are in it already do nothing.

    Returns
    -------
    int
        The transition at which the lists ran out of room, to go on from when there is more; the
        number of transitions when all is done.
    """
    for t in range(first, len(answers.targets)):
        session = answers.sessions[t]
        for i in range(answers.starts[t], answers.ends[t] + 1):
            item = answers.items[i] if i < answers.ends[t] else answers.targets[t]
            if contains(history.items, session, item):
                continue
            if not (can_append(history.items, session) and can_append(history.sessions, item)):
                return t
            append(history.items, session, item)
            append(history.sessions, item, history.clock[0] << SESSION_BITS | session)
            history.clock[0] += 1
    return len(answers.targets)


@compiled
def recommend(history: History, questions: Questions, rules: Rules, k: int) -> tuple[Ints, Floats]:
    """Return the `k` best items and their scores for each context, filled up with -1 and 0."""
    n_rows = len(questions.starts)
    items = np.full((n_rows, k), NOTHING, np.int64)
    scores = np.zeros((n_rows, k))
    for row in range(n_rows):
        context = questions.items[questions.starts[row] : questions.ends[row]]
        votes = _votes(history, context, questions.own[row], rules)
        _fill_best(history.sessions, votes, items[row], scores[row])
    return items, scores


@compiled
def explain(
    history: History, questions: Questions, rules: Rules, asked: Ints
) -> tuple[Floats, Ints]:
    """Return the score and the number of votes of the items asked about for each context."""
    scores = np.zeros(asked.shape)
    counts = np.zeros(asked.shape, np.int64)
    for row in range(len(questions.starts)):
        context = questions.items[questions.starts[row] : questions.ends[row]]
        votes = _votes(history, context, questions.own[row], rules)
        for column in range(asked.shape[1]):
            slot = _slot(votes.items, asked[row, column])
            if asked[row, column] != NOTHING and votes.items[slot] != NOTHING:
                scores[row, column] = votes.sums[slot] / UNIT
                counts[row, column] = votes.counts[slot]
    return scores, counts


@compiled
def _votes(history: History, context: Ints, own: int, rules: Rules) -> Votes:
    """Return what the nearest sessions vote for, each with its similarity times its weight."""
    items, positions = _last_positions(context)
    sample, whole = _sample(history.sessions, items, positions, own, rules.sample_size)
    if not whole:
        _compare(history.items, sample, items, positions)
    keys = _keys(history.items, sample, len(items))
    sessions, latest = sample.sessions, sample.latest
    if len(keys) > rules.n_neighbours:
        nearest = keys >= _greatest(keys, rules.n_neighbours)
        sessions, keys, latest = sessions[nearest], keys[nearest], latest[nearest]
    weights = keys >> RANK_BITS
    for i in range(len(weights)):
        weights[i] = int(weights[i] * (latest[i] / len(context)) ** rules.emphasis + 0.5)
    return _count(history.items, sessions, weights)


@compiled
def _last_positions(context: Ints) -> tuple[Ints, Ints]:
    """Return the different items of a context, and where each was last clicked, from 1."""
    items = np.empty(len(context), np.int64)
    positions = np.empty(len(context), np.int64)
    n_items = 0
    for i in range(len(context) - 1, -1, -1):
        if context[i] not in items[:n_items]:
            items[n_items] = context[i]
            positions[n_items] = i + 1
            n_items += 1
    return items[:n_items], positions[:n_items]


@compiled
def _sample(
    lists: Lists, items: Ints, positions: Ints, own: int, sample_size: int
) -> tuple[Sample, bool]:
    """Return the sessions that these items entered last, and whether these are all there are.

    If not, they may share more items with the context than is counted here.
    """
    tails = np.empty(len(items), np.int64)
    total = 0
    for j, item in enumerate(items):
        tails[j] = lists.bounds[item, 0] + lists.bounds[item, 1] - 1
        total += lists.bounds[item, 1]
    seen = _hash_table(min(total, sample_size))
    ranks = np.empty(len(seen), np.int64)
    sessions = np.empty(min(total, sample_size), np.int64)
    n_shared = np.empty(len(sessions), np.int64)
    latest = np.empty(len(sessions), np.int64)
    n_found = 0
    for _ in range(total):
        entry = newest = NOTHING
        for j, item in enumerate(items):
            if tails[j] >= lists.bounds[item, 0] and lists.pool[tails[j]] > entry:
                entry = lists.pool[tails[j]]
                newest = j
        tails[newest] -= 1
        session = entry & ((1 << SESSION_BITS) - 1)
        if session == own:
            continue
        slot = _slot(seen, session)
        if seen[slot] == NOTHING:
            if n_found == sample_size:
                return Sample(sessions, n_shared, latest), False
            seen[slot] = session
            ranks[slot] = n_found
            sessions[n_found], n_shared[n_found], latest[n_found] = session, 0, 0
            n_found += 1
        rank = ranks[slot]
        n_shared[rank] += 1
        latest[rank] = max(latest[rank], positions[newest])
    return Sample(sessions[:n_found], n_shared[:n_found], latest[:n_found]), True


@compiled
def _compare(lists: Lists, sample: Sample, items: Ints, positions: Ints) -> None:
    """Count what a sample shares with the context from the sessions themselves."""
    # One bit in 64 for each item of the context: most other items are told apart by it.
    bits = np.uint64(0)
    for item in items:
        bits |= _bit(item)
    _fetch(lists, sample.sessions)
    for rank, session in enumerate(sample.sessions):
        start, length = lists.bounds[session, 0], lists.bounds[session, 1]
        n_shared = latest = 0
        for i in range(start, start + length):
            if bits & _bit(lists.pool[i]):
                for j in range(len(items)):
                    if items[j] == lists.pool[i]:
                        n_shared += 1
                        latest = max(latest, positions[j])
        sample.n_shared[rank], sample.latest[rank] = n_shared, latest


@compiled
def _fetch(lists: Lists, rows: Ints) -> int:
    """Return how many entries these lists have together, and get them out of main memory.

    Each list is read at its beginning, which does not wait for the one before. When they are gone
    through afterwards it would, for the processor cannot guess where a list of some length ends.
    """
    total = touched = 0
    for row in rows:
        touched |= lists.pool[lists.bounds[row, 0]]
        total += lists.bounds[row, 1]
    return total + min(touched, 0)  # entries are not negative; but what is not used is not read


@compiled
def _bit(item: int) -> np.uint64:
    return np.uint64(1) << np.uint64(item & 63)


@compiled
def _keys(lists: Lists, sample: Sample, n_items: int) -> Ints:
    """Return a key for each session of a sample: the nearer it is, the greater, none equal.

    It is the similarity, in units of `UNIT`, and in the bits below it how recent the session is.
    """
    keys = np.empty(len(sample.sessions), np.int64)
    for rank, session in enumerate(sample.sessions):
        similarity = sample.n_shared[rank] / sqrt(n_items * lists.bounds[session, 1])
        keys[rank] = int(similarity * UNIT + 0.5) << RANK_BITS | (len(keys) - rank)
    return keys


@compiled
def _greatest(keys: Ints, k: int) -> int:
    """Return the `k`-th greatest of keys no two of which are equal, by quickselect."""
    keys = keys.copy()
    first, last = 0, len(keys) - 1
    while first < last:
        pivot = keys[(first + last) // 2]
        i, j = first, last
        while i <= j:
            while keys[i] > pivot:
                i += 1
            while keys[j] < pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            last = j
        elif k - 1 >= i:
            first = i
        else:
            break
    return int(keys[k - 1])


@compiled
def _count(lists: Lists, sessions: Ints, weights: Ints) -> Votes:
    """Add up the votes of sessions, each for all of its items."""
    total = _fetch(lists, sessions)
    items = _hash_table(total)
    sums = np.empty(len(items), np.int64)
    counts = np.empty(len(items), np.int64)
    filled = np.empty(total, np.int64)
    n_filled = 0
    for i, session in enumerate(sessions):
        start, length = lists.bounds[session, 0], lists.bounds[session, 1]
        for j in range(start, start + length):
            slot = _slot(items, lists.pool[j])
            if items[slot] == NOTHING:
                items[slot] = lists.pool[j]
                sums[slot] = counts[slot] = 0
                filled[n_filled] = slot
                n_filled += 1
            sums[slot] += weights[i]
            counts[slot] += 1
    return Votes(items, sums, counts, filled[:n_filled])


@compiled
def _fill_best(lists: Lists, votes: Votes, best_items: Ints, best_scores: Floats) -> None:
    """Fill in the items with the greatest sums, among equal ones the one that was clicked last."""
    k = len(best_items)
    best_sums = np.full(k, NOTHING, np.int64)
    for slot in votes.filled:
        item, sum_ = votes.items[slot], votes.sums[slot]
        place = k
        while place > 0 and (
            sum_ > best_sums[place - 1]
            or (
                sum_ == best_sums[place - 1]
                and _last_entry(lists, item) > _last_entry(lists, best_items[place - 1])
            )
        ):
            if place < k:
                best_sums[place], best_items[place] = best_sums[place - 1], best_items[place - 1]
            place -= 1
        if place < k:
            best_sums[place], best_items[place] = sum_, item
    for place in range(k):
        best_scores[place] = max(best_sums[place], 0) / UNIT


@compiled
def _last_entry(lists: Lists, row: int) -> int:
    return int(lists.pool[lists.bounds[row, 0] + lists.bounds[row, 1] - 1])


@compiled
def _hash_table(n_keys: int) -> Ints:
    """Return an empty table for this many keys, at most half full."""
    size = 8
    while size < 2 * n_keys:
        size *= 2
    return np.full(size, NOTHING, np.int64)


@compiled
def _slot(table: Ints, key: int) -> np.uint64:
    """Return the slot where a key is, or where it belongs."""
    mask = np.uint64(len(table) - 1)
    # The golden ratio's multiples are spread evenly; their upper bits are the best mixed.
    slot = (np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32) & mask
    while table[slot] != NOTHING and table[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return slot
