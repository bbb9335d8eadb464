"""The compiled part of session kNN: who shares items with a session, and what they vote for.

Everything that is remembered lies in two tables of growing lists, the items of each session and the
sessions of each item, so that neither learning nor asking touches more than a few of them. What a
question needs besides is a handful of hash tables, whose size depends on the question alone: not on
the number of sessions, and not on the size of the catalog.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np

from nextclick.baselines.compiled import NOTHING, compiled, hash_table, rank, slot_of
from nextclick.baselines.growing_lists import Lists, append, can_append, find, move_to_end
from nextclick.baselines.questions import Answers, Questions
from nextclick.clicks import Floats, Ints

UNIT = 1 << 32
"""What a similarity of 1 is as an integer: sums of integers do not depend on their order."""

RANK_BITS = 24
"""How many bits of a neighbour's key say how recent it is, below those of its similarity."""

SESSION_BITS = 32
"""How many bits of an entry are the session's number, below those of the click's number."""


class History(NamedTuple):
    """The past sessions, both ways round.

    Parameters
    ----------
    items
        The different items of each session, the one that was clicked last behind.
    sessions
        The entries of each item: the number of the click by which it entered a session, and that
        session's number, in one integer; so that entries are in order of time.
    last_click
        The number of the click by which each item last entered a session.
    clock
        The number of the next such click.
    """

    items: Lists
    sessions: Lists
    last_click: Ints
    clock: Ints


class Sample(NamedTuple):
    """Sessions that share items with a context, the most recent first.

    Parameters
    ----------
    sessions
        Their numbers.
    shared
        What the context's items that each has are worth together, in `UNIT`.
    latest
        The last position in the context of any of these.
    clicks
        The number of the click by which any of these last entered the session.
    """

    sessions: Ints
    shared: Ints
    latest: Ints
    clicks: Ints


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


class Rules(NamedTuple):
    """What makes one method of neighbouring sessions differ from another.

    Parameters
    ----------
    sample_size
        How many sessions are compared, the most recent ones.
    n_neighbours
        How many of these vote, the most similar ones.
    worth
        What an item that is shared is worth in the similarity, in `UNIT`: by the length of the
        context less one, and by the item's last position in it, from 0.
    by_length
        Whether the similarity is divided by the root of how many items the past session has.
    ageing
        How fast a similarity falls with a session's age: ``exp(-ageing * clicks)``.
    votes
        What a similarity is multiplied by to be a vote: by the length of the context less one, and
        by the position of the last item shared.
    reach
        What a vote is multiplied by for an item so many places behind the last item shared in the
        past session, from as many places ahead of it; beyond its ends as at them. One entry: all
        alike.
    rarity
        How much more the votes for rare items count: ``1 + rarity * idf``.
    """

    sample_size: int
    n_neighbours: int
    worth: Ints
    by_length: bool
    ageing: float
    votes: Floats
    reach: Floats
    rarity: float


@compiled
def learn(history: History, answers: Answers, first: int) -> int:
    """Let the clicks of transitions enter their sessions, the next item as the last one.

    Returns
    -------
    int
        The transition at which the lists ran out of room, to go on from when there is more; the
        number of transitions when all is done.
    """
    for t in range(first, len(answers.targets)):
        session, target = answers.sessions[t], answers.targets[t]
        for i in range(answers.starts[t], answers.ends[t]):
            item = answers.items[i]
            known = find(history.items, session, item) != NOTHING
            if not (known or _enter(history, session, item)):
                return t
        place = find(history.items, session, target)
        if place != NOTHING:
            move_to_end(history.items, session, place)
        elif not _enter(history, session, target):
            return t
    return len(answers.targets)


@compiled
def _enter(history: History, session: int, item: int) -> bool:
    """Put an item into a session that does not have it, if there is room for it."""
    if not (can_append(history.items, session) and can_append(history.sessions, item)):
        return False
    append(history.items, session, item)
    append(history.sessions, item, history.clock[0] << SESSION_BITS | session)
    history.last_click[item] = history.clock[0]
    history.clock[0] += 1
    return True


@compiled
def recommend(history: History, questions: Questions, rules: Rules, k: int) -> tuple[Ints, Floats]:
    """Return the `k` best items and their scores for each context, filled up with -1 and 0."""
    n_rows = len(questions.starts)
    items = np.full((n_rows, k), NOTHING, np.int64)
    scores = np.zeros((n_rows, k))
    sums = np.empty(k, np.int64)
    for row in range(n_rows):
        context = questions.items[questions.starts[row] : questions.ends[row]]
        votes = _votes(history, context, questions.own[row], rules)
        total = 0
        best = items[row]
        sums[:] = NOTHING
        for slot in votes.filled:
            total += votes.sums[slot]
            if votes.sums[slot] >= sums[-1]:
                rank(best, sums, votes.items[slot], votes.sums[slot], history.last_click)
        for place in range(min(k, len(votes.filled))):
            scores[row, place] = sums[place] / total
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
        total = 0
        for slot in votes.filled:
            total += votes.sums[slot]
        for column in range(asked.shape[1]):
            slot = slot_of(votes.items, asked[row, column])
            if asked[row, column] != NOTHING and votes.items[slot] != NOTHING:
                scores[row, column] = votes.sums[slot] / total
                counts[row, column] = votes.counts[slot]
    return scores, counts


@compiled
def _votes(history: History, context: Ints, own: int, rules: Rules) -> Votes:
    """Return what the nearest sessions vote for."""
    items, positions = _last_positions(context)
    worth = rules.worth[len(context) - 1][positions]
    sample, whole = _sample(history.sessions, items, positions, worth, own, rules.sample_size)
    if not whole:
        _compare(history.items, sample, items, positions, worth)
    keys = _keys(history.items, sample, worth, rules)
    sessions, latest = sample.sessions, sample.latest
    if len(keys) > rules.n_neighbours:
        nearest = keys >= _greatest(keys, rules.n_neighbours)
        sessions, keys, latest = sessions[nearest], keys[nearest], latest[nearest]
    weights = keys >> RANK_BITS
    factors = rules.votes[len(context) - 1]
    for i in range(len(weights)):
        weights[i] = _rounded(weights[i] * factors[latest[i]])
    votes = _count(history.items, sessions, weights, items, rules.reach)
    if rules.rarity > 0:
        _favour_rare(history, votes, rules.rarity)
    return votes


@compiled
def _last_positions(context: Ints) -> tuple[Ints, Ints]:
    """Return the different items of a context, the last first, and where each was last clicked."""
    items = np.empty(len(context), np.int64)
    positions = np.empty(len(context), np.int64)
    n_items = 0
    for i in range(len(context) - 1, -1, -1):
        if context[i] not in items[:n_items]:
            items[n_items] = context[i]
            positions[n_items] = i
            n_items += 1
    return items[:n_items], positions[:n_items]


@compiled
def _sample(
    lists: Lists, items: Ints, positions: Ints, worth: Ints, own: int, sample_size: int
) -> tuple[Sample, bool]:
    """Return the sessions that these items entered last, and whether these are all there are.

    If not, they may share more items with the context than is counted here.
    """
    tails = np.empty(len(items), np.int64)
    total = 0
    for j, item in enumerate(items):
        tails[j] = lists.bounds[item, 0] + lists.bounds[item, 1] - 1
        total += lists.bounds[item, 1]
    seen = hash_table(min(total, sample_size))
    ranks = np.empty(len(seen), np.int64)
    sessions = np.empty(min(total, sample_size), np.int64)
    shared = np.empty(len(sessions), np.int64)
    latest = np.empty(len(sessions), np.int64)
    clicks = np.empty(len(sessions), np.int64)
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
        slot = slot_of(seen, session)
        if seen[slot] == NOTHING:
            if n_found == sample_size:
                return Sample(sessions, shared, latest, clicks), False
            seen[slot] = session
            ranks[slot] = n_found
            sessions[n_found], clicks[n_found] = session, entry >> SESSION_BITS
            shared[n_found], latest[n_found] = 0, 0
            n_found += 1
        found = ranks[slot]
        shared[found] += worth[newest]
        latest[found] = max(latest[found], positions[newest])
    return Sample(sessions[:n_found], shared[:n_found], latest[:n_found], clicks[:n_found]), True


@compiled
def _compare(lists: Lists, sample: Sample, items: Ints, positions: Ints, worth: Ints) -> None:
    """Count what a sample shares with the context from the sessions themselves."""
    # One bit in 64 for each item of the context: most other items are told apart by it.
    bits = _bits(items)
    _fetch(lists, sample.sessions)
    for found, session in enumerate(sample.sessions):
        start, length = lists.bounds[session, 0], lists.bounds[session, 1]
        shared = latest = 0
        for i in range(start, start + length):
            if bits & _bit(lists.pool[i]):
                for j in range(len(items)):
                    if items[j] == lists.pool[i]:
                        shared += worth[j]
                        latest = max(latest, positions[j])
        sample.shared[found], sample.latest[found] = shared, latest


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
def _bits(items: Ints) -> np.uint64:
    bits = np.uint64(0)
    for item in items:
        bits |= _bit(item)
    return bits


@compiled
def _bit(item: int) -> np.uint64:
    return np.uint64(1) << np.uint64(item & 63)


@compiled
def _rounded(weight: float) -> int:
    """Return a weight as an integer: not nothing, however little it is."""
    return max(1, int(weight + 0.5))


@compiled
def _keys(lists: Lists, sample: Sample, worth: Ints, rules: Rules) -> Ints:
    """Return a key for each session of a sample: the nearer it is, the greater, none equal.

    It is the similarity, in units of `UNIT`, and in the bits below it how recent the session is.
    """
    squares = 0.0
    for value in worth:
        squares += (value / UNIT) ** 2
    keys = np.empty(len(sample.sessions), np.int64)
    for found, session in enumerate(sample.sessions):
        length = lists.bounds[session, 1] if rules.by_length else 1
        similarity = sample.shared[found] / UNIT / sqrt(squares * length)
        if rules.ageing > 0:
            # Against the most recent one: that is the same factor for all, and none gets too small.
            similarity *= exp(-rules.ageing * (sample.clicks[0] - sample.clicks[found]))
        keys[found] = _rounded(similarity * UNIT) << RANK_BITS | (len(keys) - found)
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
def _count(lists: Lists, sessions: Ints, weights: Ints, context: Ints, reach: Floats) -> Votes:
    """Add up the votes of sessions, each for all of its items."""
    total = _fetch(lists, sessions)
    items = hash_table(total)
    sums = np.empty(len(items), np.int64)
    counts = np.empty(len(items), np.int64)
    filled = np.empty(total, np.int64)
    n_filled = 0
    bits = _bits(context)
    farthest = len(reach) - 1
    for i, session in enumerate(sessions):
        start, length = lists.bounds[session, 0], lists.bounds[session, 1]
        weight = weights[i]
        nearest = 0
        if farthest:
            nearest = _last_shared(lists, session, context, bits) - farthest // 2
        for j in range(start, start + length):
            slot = slot_of(items, lists.pool[j])
            if items[slot] == NOTHING:
                items[slot] = lists.pool[j]
                sums[slot] = counts[slot] = 0
                filled[n_filled] = slot
                n_filled += 1
            if farthest:
                weight = _rounded(weights[i] * reach[min(max(j - nearest, 0), farthest)])
            sums[slot] += weight
            counts[slot] += 1
    return Votes(items, sums, counts, filled[:n_filled])


@compiled
def _last_shared(lists: Lists, session: int, context: Ints, bits: np.uint64) -> int:
    """Return where in the pool the last item is that a session shares with the context."""
    place = lists.bounds[session, 0] + lists.bounds[session, 1] - 1
    while not (bits & _bit(lists.pool[place]) and lists.pool[place] in context):
        place -= 1
    return int(place)


@compiled
def _favour_rare(history: History, votes: Votes, rarity: float) -> None:
    """Let votes count the more, the rarer their item is."""
    n_sessions = len(history.items.bounds)
    for slot in votes.filled:
        idf = log(n_sessions / history.sessions.bounds[votes.items[slot], 1])
        votes.sums[slot] = _rounded(votes.sums[slot] * (1 + rarity * idf))
