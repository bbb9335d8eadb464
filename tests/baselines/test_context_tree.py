"""The context tree against one of dictionaries, its online weights included."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextclick.baselines.context_tree import ContextTree, ContextTreeSettings
from nextclick.catalog import Catalog
from nextclick.clicks import ClickLog, Contexts, Transitions
from nextclick.methods import create, name_of


class SlowTree:
    """The definition: counts and a weight for each suffix, in dictionaries by the suffix."""

    def __init__(self, rules):
        self.rules = rules
        self.counts = defaultdict(lambda: defaultdict(int))  # by suffix, then by item
        self.weights = {}
        self.last_click = {}
        self.n_items = 0

    def suffixes(self, context):
        longest = min(len(context), self.rules.depth)
        return [tuple(context[len(context) - length :]) for length in range(1, longest + 1)]

    def expert(self, suffix, item, n_items):
        counts = self.counts[suffix]
        smoothing = self.rules.smoothing
        return (counts[item] + smoothing / n_items) / (sum(counts.values()) + smoothing)

    def learn(self, context, item):
        suffixes = self.suffixes(context[-20:])
        seen = [*context[-self.rules.depth :], item]
        self.n_items = max(self.n_items, *(number + 1 for number in seen))
        mixed = self.expert((), item, self.n_items)
        for suffix in suffixes:
            if suffix in self.weights:
                weight = self.weights[suffix]
                alone = self.expert(suffix, item, self.n_items)
                mixed = weight * alone + (1 - weight) * mixed
                least = self.rules.least
                self.weights[suffix] = min(max(weight * alone / mixed, least), 1 - least)
            else:
                self.weights[suffix] = self.rules.decay ** len(suffix)
        for suffix in [(), *suffixes]:
            self.counts[suffix][item] += 1
        self.last_click[item] = len(self.last_click) and sum(self.counts[()].values())

    def probability(self, context, item, n_items):
        mixed = self.expert((), item, n_items)
        for suffix in self.suffixes(context[-20:]):
            if suffix in self.weights:
                weight = self.weights[suffix]
                mixed = weight * self.expert(suffix, item, n_items) + (1 - weight) * mixed
        return mixed


def assert_same(model, slow, context, k=5):
    question = Contexts.of([context])
    answer = model.recommend(question, k)
    known = [item for item in context[-20:] if item < model.n_items]
    if not known:
        assert answer.cold[0]
        return
    n = model.n_items
    expected = np.array([slow.probability(known, item, n) for item in range(n)])
    assert expected.sum() == pytest.approx(1.0)
    everything = np.arange(n)[None]
    np.testing.assert_allclose(model.probabilities(question, everything)[0], expected, rtol=1e-9)
    # Sums in another order may differ in their last digit: what is equal up to it is a tie.
    followed = [item for item in range(n) if slow.counts[()][item]]
    best = sorted(
        followed, key=lambda item: (-float(f"{expected[item]:.9e}"), -slow.last_click[item])
    )[:k]
    assert [item for item in answer.items[0].tolist() if item >= 0] == best
    np.testing.assert_allclose(answer.scores[0, : len(best)], expected[best], rtol=1e-9)
    model_weights = {
        suffix: weight for suffix, weight in weights(model).items() if suffix in slow.weights
    }
    assert model_weights == pytest.approx(slow.weights)


def weights(model):
    """Return the weight of each suffix in the tree."""
    root, nodes = model._root, model._nodes
    found = {}

    def walk(node, suffix):
        found[suffix] = float(nodes.weights[node])
        for entry in model._children[node].tolist():
            walk(entry & (2**32 - 1), (entry >> 32, *suffix))

    for item, node in enumerate(root.nodes.tolist()):
        if node >= 0:
            walk(node, (item,))
    return found


RULES = [
    ContextTreeSettings(),
    ContextTreeSettings(depth=1, smoothing=1, decay=0.9, least=0.01),
    ContextTreeSettings(depth=3, smoothing=0.1, decay=0.3, least=1e-9),
    ContextTreeSettings(depth=20, smoothing=100, least=0.3),
]
transitions_ = st.lists(
    st.tuples(st.lists(st.integers(0, 6), min_size=1, max_size=25), st.integers(0, 6)),
    max_size=40,
)


@pytest.mark.parametrize("rules", RULES, ids=repr)
@settings(max_examples=60)
@given(transitions_, st.lists(st.integers(0, 7), min_size=1, max_size=25))
def test_predictions_and_weights_are_those_of_the_definition(rules, stream, asked):
    model, slow = ContextTree(rules), SlowTree(rules)
    model.fit(ClickLog.of([(9, 0, 0.0), (9, 1, 1.0)]))
    for row in [([0], 1), *stream]:
        slow.learn(*row)
    if stream:
        contexts, items = zip(*stream, strict=True)
        model.learn(Transitions(Contexts.of(contexts), np.array(items), np.zeros(len(items))))
    assert_same(model, slow, asked)


def walk(seed, n_clicks=3000, n_items=60):
    """Sessions in which the two last clicks say what comes next, more often than not."""
    random = np.random.default_rng(seed)
    sessions = np.sort(random.integers(0, n_clicks // 6, n_clicks))
    items = random.integers(0, n_items, n_clicks)
    for i in range(2, n_clicks):
        if sessions[i] == sessions[i - 2] and random.random() < 0.7:
            items[i] = (3 * items[i - 1] + 7 * items[i - 2]) % n_items
    return ClickLog(sessions, items, np.arange(n_clicks, dtype=float))


@pytest.mark.parametrize("rules", RULES[::3], ids=repr)
def test_a_stream_with_new_items_is_followed(rules):
    log = walk(seed=1, n_clicks=700)
    items = log.items + np.arange(len(log)) // 100  # new ones keep coming
    transitions = ClickLog(log.sessions, items, log.times).transitions()
    model, slow = ContextTree(rules), SlowTree(rules)
    model.fit(ClickLog.of([(9, 0, 0.0), (9, 1, 1.0)]))
    slow.learn([0], 1)
    for start in range(0, len(transitions), 60):
        for context, _ in transitions[start : start + 3]:
            assert_same(model, slow, context.tolist(), k=10)
        batch = transitions[start : start + 60]
        model.learn(batch)
        for context, item in batch:
            slow.learn(context.tolist(), int(item))


def test_experts_that_predict_well_gain_weight():
    model = ContextTree(ContextTreeSettings(least=0.001)).fit(walk(seed=2, n_clicks=60_000))
    by_length = defaultdict(list)
    for suffix, weight in weights(model).items():
        by_length[len(suffix)].append(weight)
    means = {length: float(np.mean(values)) for length, values in by_length.items()}
    assert means[2] > 0.9
    assert max(means[1], means[3]) < 0.2


def test_how_the_stream_is_cut_makes_no_difference():
    states = []
    for batch in (1, 13, 5000):
        model = ContextTree().fit(ClickLog.of([(9000, 1, 0.0), (9000, 2, 1.0)]))
        for part in walk(seed=3).transitions().batches(batch):
            model.learn(part)
        states.append(model.state())
    for name, array in states[0].items():
        if name.startswith("method/"):
            for state in states[1:]:
                np.testing.assert_array_equal(state[name], array)


def test_going_on_from_a_state_is_as_if_nothing_had_happened():
    transitions = walk(seed=4).transitions()
    model = ContextTree().fit(walk(seed=5, n_clicks=500))
    model.learn(transitions[:700])
    saved = {name: array.copy() for name, array in model.state().items()}
    copy = ContextTree().restore(Catalog(range(model.n_items)), saved)
    for part in transitions[700:].batches(100):
        mine, theirs = model.recommend(part.contexts), copy.recommend(part.contexts)
        np.testing.assert_array_equal(mine.items, theirs.items)
        np.testing.assert_array_equal(mine.scores, theirs.scores)
        model.learn(part)
        copy.learn(part)
    for name, array in model.state().items():
        np.testing.assert_array_equal(array, copy.state()[name])


def test_the_tree_is_no_deeper_than_it_may_be():
    model = ContextTree(ContextTreeSettings(depth=3)).fit(walk(seed=6))
    assert max(map(len, weights(model))) == 3


def test_what_nothing_followed_is_answered_by_what_is_popular():
    log = ClickLog.of([(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 2, 3), (2, 3, 4), (2, 2, 5)])
    model = ContextTree().fit(log)
    assert model.recommend(Contexts.of([[2]]), 4).items.tolist() == [[2, 1, -1, -1]]


def test_it_has_a_name():
    model = create("ct", {"depth": 2})
    assert (name_of(model), model.label) == ("ct", "CT")
