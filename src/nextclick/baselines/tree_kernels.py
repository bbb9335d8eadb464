"""The compiled part of the context tree: its growth, its experts, and their mixture.

A node stands for a suffix of sessions: the root for the empty one, a child for its parent's with
one more click ahead of it. Items and numbers of nodes lie in lists, so that a path from the root
down is found by a search in one short list for each of its steps. The root, whose counts are those
of all items, is apart from the nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nextclick.baselines.compiled import NOTHING, compiled, hash_table, rank, slot_of
from nextclick.baselines.growing_lists import Lists, append, fits, room_for
from nextclick.baselines.item_entries import count, entry, item_of, number_for, number_of
from nextclick.clicks import Floats, Ints


class Nodes(NamedTuple):
    """The nodes below the root; there is room for more than there are.

    Parameters
    ----------
    counts
        The items that followed each node's suffix, and how often.
    children
        The items that were clicked ahead of it, and the node of each of these longer suffixes.
    totals
        How many clicks followed it.
    weights
        The probability that a longer suffix says nothing that this one does not.
    used
        How many nodes there are, and how many items there were when the last one was learned.
    """

    counts: Lists
    children: Lists
    totals: Ints
    weights: Floats
    used: Ints


class Root(NamedTuple):
    """What is known by item, and the expert of the empty suffix.

    Parameters
    ----------
    nodes
        The node of the suffix that is each item alone, or `NOTHING`.
    counts
        How often each item followed anything.
    ranking
        The items, those with the highest counts first.
    places
        Where each item is in the ranking.
    above
        How many items have more than a count, by that count.
    last_click
        The number of the click by which each item was last clicked next.
    clock
        The number of the next such click: how many there were.
    """

    nodes: Ints
    counts: Ints
    ranking: Ints
    places: Ints
    above: Ints
    last_click: Ints
    clock: Ints


class Rules(NamedTuple):
    """The settings of the tree.

    Parameters
    ----------
    depth
        The length of the longest suffix that has a node.
    smoothing
        How many clicks, spread evenly over all items, each expert imagines besides its own.
    decay
        The weight that a node begins with, for each click of its suffix.
    least
        How near to 0 and to 1 a weight may come.
    """

    depth: int
    smoothing: float
    decay: float
    least: float


class Mixture(NamedTuple):
    """What the experts say together: ``base + at_root * root count + the item's sum``.

    Parameters
    ----------
    base, at_root
        What every item is given, and what each of its counts at the root adds to it.
    items
        A hash table of the items that followed the last click: the item in each slot.
    sums
        What the counts of the nodes add to that.
    filled
        The slots that hold an item.
    """

    base: float
    at_root: float
    items: Ints
    sums: Floats
    filled: Ints


@compiled
def learn(
    root: Root, nodes: Nodes, rules: Rules, items: Ints, starts: Ints, ends: Ints, targets: Ints,
    first: int,
) -> int:  # fmt: skip
    """Weigh the experts of each transition's suffixes by what they predicted, then count it.

    Returns
    -------
    int
        The transition at which the nodes or lists ran out of room, to go on from when there is
        more; the number of transitions when all is done.
    """
    for t in range(first, len(targets)):
        suffix = items[starts[t] : ends[t]][::-1][: rules.depth]
        if not _has_room(root, nodes, suffix, targets[t]):
            return t
        _know(nodes, suffix, targets[t])
        path = _grown(root, nodes, rules, suffix)
        _weigh(root, nodes, rules, path, targets[t])
        for node in path:
            count(nodes.counts, node, targets[t])
            nodes.totals[node] += 1
        _count_at_root(root, targets[t])
    return len(targets)


@compiled
def _know(nodes: Nodes, suffix: Ints, target: int) -> None:
    """See to it that the catalog, as far as it was learned, has these items."""
    nodes.used[1] = max(nodes.used[1], target + 1)
    for item in suffix:
        nodes.used[1] = max(nodes.used[1], item + 1)


@compiled
def _has_room(root: Root, nodes: Nodes, suffix: Ints, target: int) -> bool:
    """Whether there is room for a transition, wherever it has to be counted."""
    counts = children = 0
    path = _path(root, nodes, suffix)
    new = len(suffix) - len(path)
    for node in path:
        counts += room_for(nodes.counts, node, 1)
    if new > 0 and len(path) > 0:
        children += room_for(nodes.children, path[-1], 1)
    counts += new * nodes.counts.smallest
    children += new * nodes.children.smallest
    return (
        fits(nodes.counts, counts)
        and fits(nodes.children, children)
        and nodes.used[0] + new <= len(nodes.totals)
        and root.counts[target] + 1 < len(root.above)
    )


@compiled
def _path(root: Root, nodes: Nodes, suffix: Ints) -> Ints:
    """Return the nodes of a suffix, given the last click first, the shortest one first."""
    path = np.empty(len(suffix), np.int64)
    length = 0
    for item in suffix:
        if length == 0:
            node = root.nodes[item]
        else:
            node = number_for(nodes.children, path[length - 1], item)
        if node == NOTHING:
            break
        path[length] = node
        length += 1
    return path[:length]


@compiled
def _grown(root: Root, nodes: Nodes, rules: Rules, suffix: Ints) -> Ints:
    """Return the nodes of a suffix, all of them: those that are not there are made."""
    found = _path(root, nodes, suffix)
    path = np.empty(len(suffix), np.int64)
    path[: len(found)] = found
    for i in range(len(found), len(suffix)):
        path[i] = nodes.used[0]
        nodes.used[0] += 1
        nodes.weights[path[i]] = rules.decay ** (i + 1)
        if i == 0:
            root.nodes[suffix[0]] = path[0]
        else:
            append(nodes.children, path[i - 1], entry(suffix[i], path[i]))
    return path


@compiled
def _weigh(root: Root, nodes: Nodes, rules: Rules, path: Ints, target: int) -> None:
    """Give each expert the weight that is its due for having predicted this item as it did.

    An expert that has not seen anything says nothing, and keeps its weight.
    """
    uniform = rules.smoothing / nodes.used[1]
    mixed = (root.counts[target] + uniform) / (root.clock[0] + rules.smoothing)
    for node in path:
        total = nodes.totals[node]
        if total == 0:
            break
        n_times = max(number_for(nodes.counts, node, target), 0)
        alone = (n_times + uniform) / (total + rules.smoothing)
        weight = nodes.weights[node]
        mixed = weight * alone + (1 - weight) * mixed
        weight *= alone / mixed
        nodes.weights[node] = min(max(weight, rules.least), 1 - rules.least)


@compiled
def _count_at_root(root: Root, item: int) -> None:
    """Count an item at the root: it changes places with the first one that had as many."""
    n_times = root.counts[item]
    place, first = root.places[item], root.above[n_times]
    other = root.ranking[first]
    root.ranking[first], root.places[item] = item, first
    root.ranking[place], root.places[other] = other, place
    root.above[n_times] += 1
    root.counts[item] += 1
    root.last_click[item] = root.clock[0]
    root.clock[0] += 1


@compiled
def recommend(
    root: Root, nodes: Nodes, rules: Rules, items: Ints, starts: Ints, ends: Ints, k: int
) -> tuple[Ints, Floats]:
    """Return the `k` most probable items for each context, filled up with -1 and 0.

    An item that never followed anything is not among them.
    """
    n_rows = len(starts)
    best = np.full((n_rows, k), NOTHING, np.int64)
    scores = np.zeros((n_rows, k))
    for row in range(n_rows):
        mixture = _mixture(root, nodes, rules, items[starts[row] : ends[row]])
        for slot in mixture.filled:
            item = mixture.items[slot]
            score = _probability(mixture, root, item, slot)
            if score >= scores[row, -1]:
                rank(best[row], scores[row], item, score, root.last_click)
        # What did not follow the last click is as probable as it is popular.
        for item in root.ranking:
            slot = slot_of(mixture.items, item)
            if mixture.items[slot] != NOTHING:
                continue
            score = _probability(mixture, root, item, slot)
            if root.counts[item] == 0 or score < scores[row, -1]:
                break
            rank(best[row], scores[row], item, score, root.last_click)
    return best, scores


@compiled
def probabilities(
    root: Root, nodes: Nodes, rules: Rules, items: Ints, starts: Ints, ends: Ints, asked: Ints
) -> Floats:
    """Return how probable the items asked about are for each context."""
    answer = np.zeros(asked.shape)
    for row in range(len(starts)):
        mixture = _mixture(root, nodes, rules, items[starts[row] : ends[row]])
        for column in range(asked.shape[1]):
            item = asked[row, column]
            if item != NOTHING:
                slot = slot_of(mixture.items, item)
                answer[row, column] = _probability(mixture, root, item, slot)
    return answer


@compiled
def _probability(mixture: Mixture, root: Root, item: int, slot: np.uint64) -> float:
    followed = mixture.sums[slot] if mixture.items[slot] != NOTHING else 0.0
    return float(mixture.base + mixture.at_root * root.counts[item] + followed)


@compiled
def _mixture(root: Root, nodes: Nodes, rules: Rules, context: Ints) -> Mixture:
    """Mix the experts of a context's suffixes, from the longest one to the shortest."""
    path = _path(root, nodes, context[::-1][: rules.depth])
    worth = np.empty(len(path))  # of one count of each node
    share, base = 1.0, 0.0
    for i in range(len(path) - 1, -1, -1):
        weight = nodes.weights[path[i]]
        worth[i] = share * weight / (nodes.totals[path[i]] + rules.smoothing)
        share *= 1 - weight
        base += worth[i]
    at_root = share / (root.clock[0] + rules.smoothing)
    base = (base + at_root) * rules.smoothing / len(root.counts)

    n_items = nodes.counts.bounds[path[0], 1] if len(path) > 0 else 0
    items = hash_table(n_items)
    sums = np.empty(len(items))
    filled = np.empty(n_items, np.int64)
    n_filled = 0
    for i, node in enumerate(path):
        start, length = nodes.counts.bounds[node]
        for counted in nodes.counts.pool[start : start + length]:
            slot = slot_of(items, item_of(counted))
            if i == 0:  # what followed a longer suffix followed this one as well
                items[slot] = item_of(counted)
                sums[slot] = 0.0
                filled[n_filled] = slot
                n_filled += 1
            sums[slot] += worth[i] * number_of(counted)
    return Mixture(base, at_root, items, sums, filled)
