"""Item-KNN against counts in dictionaries."""

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextclick.baselines.item_knn import ItemKNN, ItemKNNSettings
from nextclick.clicks import ClickLog, Contexts, Transitions
from nextclick.errors import BadInputError
from nextclick.methods import create, name_of


class SlowItemKNN:
    """The definition: sessions as lists, searched anew for every recommendation."""

    def __init__(self, regularization):
        self.regularization = regularization
        self.sessions = {}  # session: its different items, in the order in which they entered
        self.last_click = {}

    def learn(self, session, context, item):
        key = session if session >= 0 else ("anonymous", len(self.sessions))
        items = self.sessions.setdefault(key, [])
        for clicked in [*context[-20:], item]:
            if clicked not in items:
                items.append(clicked)
                self.last_click[clicked] = sum(map(len, self.sessions.values()))

    def recommend(self, session, context, k):
        """Return the best items with their scores, and in how many sessions all are with it."""
        last = context[-1]
        together, n_sessions = defaultdict(int), defaultdict(int)
        for key, items in self.sessions.items():
            if key == session:
                near_own = [
                    item
                    for item in items
                    if last not in items or abs(items.index(item) - items.index(last)) > 20
                ]  # what was not counted together with the last item stays as it is
                for item in near_own:
                    n_sessions[item] += 1
                continue
            for item in items:
                n_sessions[item] += 1
            if last in items:
                for item in items:
                    if 0 < abs(items.index(item) - items.index(last)) <= 20:
                        together[item] += 1
        cosines = {
            item: n / math.sqrt(n_sessions[item] + self.regularization)
            for item, n in together.items()
        }
        best = sorted(cosines, key=lambda item: (-cosines[item], -self.last_click[item]))[:k]
        return best, [cosines[item] / sum(cosines.values()) for item in best], together


def assert_same(model, slow, session, context, k=6):
    question = Contexts.of([context], sessions=[session])
    answer = model.recommend(question, k)
    known = [item for item in context[-20:] if item < model.n_items]
    if not known:
        assert answer.cold[0]
        return
    items, scores, together = slow.recommend(session, known, k)
    assert [item for item in answer.items[0].tolist() if item >= 0] == items
    np.testing.assert_allclose(answer.scores[0, : len(items)], scores, rtol=1e-12)
    everything = np.arange(model.n_items)[None]
    shares = model.probabilities(question, everything)[0]
    assert shares.sum() == pytest.approx(1.0 if items else 0.0)
    np.testing.assert_allclose(shares[items], scores, rtol=1e-12)
    why = model.explain(question, answer)
    np.testing.assert_array_equal(why.memory, answer.scores)
    assert why.sessions[0, : len(items)].tolist() == [together[item] for item in items]


transitions_ = st.lists(
    st.tuples(
        st.integers(-1, 5),
        st.lists(st.integers(0, 30), min_size=1, max_size=25),
        st.integers(0, 30),
    ),
    max_size=25,
)


@settings(max_examples=150)
@given(
    transitions_,
    st.lists(st.integers(0, 30), min_size=1, max_size=25),
    st.integers(-1, 5),
    st.sampled_from([0.0, 3.0]),
)
def test_any_stream_is_counted_as_in_the_definition(stream, asked, session, regularization):
    model = ItemKNN(ItemKNNSettings(regularization=regularization))
    slow = SlowItemKNN(regularization)
    model.fit(ClickLog.of([(9, 0, 0.0), (9, 1, 1.0)]))
    for row in [(9, [0], 1), *stream]:
        slow.learn(*row)
    if stream:
        sessions, contexts, items = zip(*stream, strict=True)
        past = Contexts.of(contexts, sessions=sessions)
        model.learn(Transitions(past, np.array(items), np.zeros(len(items))))
    assert_same(model, slow, session, asked)


def test_what_a_session_did_itself_says_nothing_to_it():
    model = ItemKNN().fit(ClickLog.of([(7, 0, 0.0), (7, 1, 1.0)]))
    assert model.recommend(Contexts.of([[0]], sessions=[7]), 2).items.tolist() == [[-1, -1]]
    assert model.recommend(Contexts.of([[0]], sessions=[8]), 2).items.tolist() == [[1, -1]]


def test_a_long_session_says_nothing_to_itself_up_to_both_ends_of_what_was_counted():
    model = ItemKNN().fit(ClickLog.of([(7, item, float(item)) for item in range(41)]))
    own = model.recommend(Contexts.of([[20]], sessions=[7]), 41)
    assert (own.items == -1).all()
    other = model.recommend(Contexts.of([[20]], sessions=[8]), 41).items[0]
    assert sorted(other[other >= 0].tolist()) == [*range(20), *range(21, 41)]


def test_rare_items_count_less_with_regularization():
    together = [(session, item) for session in range(8) for item in (0, 1)]
    alone = [(session, 1) for session in range(8, 40)]
    rare = [(50, 0), (50, 2)]
    clicks = [(*click, float(time)) for time, click in enumerate([*together, *alone, *rare])]
    clicks += [(session, 3, 100.0 + session) for session in range(8, 40)]
    log = ClickLog.of(clicks)
    best = {
        regularization: int(
            ItemKNN(ItemKNNSettings(regularization=regularization))
            .fit(log)
            .recommend(Contexts.of([[0]]), 1)
            .items[0, 0]
        )
        for regularization in (0.0, 20.0)
    }
    assert best[0.0] == 1  # 8 / sqrt(40) > 1 / sqrt(1)
    log = ClickLog.of([click for click in clicks if click[0] >= 3])
    fewer = ItemKNN(ItemKNNSettings(regularization=0.0)).fit(log)
    assert fewer.recommend(Contexts.of([[0]]), 1).items[0, 0] == 2  # 5 / sqrt(37) < 1
    more = ItemKNN(ItemKNNSettings(regularization=20.0)).fit(log)
    assert more.recommend(Contexts.of([[0]]), 1).items[0, 0] == 1


def test_a_long_session_costs_no_more_than_its_length():
    clicks = [(0, item, float(item)) for item in range(5000)]
    model = ItemKNN().fit(ClickLog.of(clicks))
    best = model.recommend(Contexts.of([[2500]]), 100).items[0]
    assert sorted(best[best >= 0].tolist()) == [*range(2480, 2500), *range(2501, 2521)]


def test_how_the_stream_is_cut_makes_no_difference():
    random = np.random.default_rng(4)
    log = ClickLog(
        np.sort(random.integers(0, 60, 800)), random.integers(0, 40, 800), np.arange(800.0)
    )
    states = []
    for batch in (1, 13, 1000):
        model = ItemKNN().fit(ClickLog.of([(500, 1, 0.0), (500, 2, 1.0)]))
        for part in log.transitions().batches(batch):
            model.learn(part)
        states.append(model.state())
    for name, array in states[0].items():
        if name.startswith("method/"):
            for state in states[1:]:
                np.testing.assert_array_equal(state[name], array)


def test_it_has_a_name():
    model = create("item-knn", {"regularization": 3})
    assert (name_of(model), model.label) == ("item-knn", "Item-KNN")
    with pytest.raises(BadInputError, match="regularization: input should be greater"):
        create("item-knn", {"regularization": -1})
