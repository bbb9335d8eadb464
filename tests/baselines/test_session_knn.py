"""Session kNN against a version that keeps sessions in a dictionary and looks at all of them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextclick.baselines.session_knn import SessionKNN, SessionKNNSettings
from nextclick.catalog import Catalog
from nextclick.clicks import ClickLog, Contexts, Transitions
from nextclick.datasets import prepare
from nextclick.evaluation.prequential import evaluate
from nextclick.methods import create, name_of


class SlowSessionKNN:
    """The definition, one session at a time."""

    def __init__(self, rules):
        self.rules = rules
        self.sessions = {}  # session: {item: when it entered}
        self.clicks = 0

    def learn(self, session, context, item):
        key = session if session >= 0 else ("anonymous", len(self.sessions))
        entered = self.sessions.setdefault(key, {})
        for clicked in [*context[-20:], item]:
            if clicked not in entered:
                entered[clicked] = self.clicks
                self.clicks += 1

    def votes(self, session, context):
        context = context[-20:]
        candidates = []
        for key, entered in self.sessions.items():
            shared = set(entered) & set(context)
            if shared and key != session:
                recency = max(entered[item] for item in shared)
                cosine = len(shared) / math.sqrt(len(set(context)) * len(entered))
                position = max(i + 1 for i, item in enumerate(context) if item in shared)
                candidates.append((recency, int(cosine * 2**32 + 0.5), position, entered))
        candidates.sort(key=lambda candidate: -candidate[0])
        candidates = candidates[: self.rules.sample_size]
        candidates.sort(key=lambda candidate: (-candidate[1], -candidate[0]))
        emphasis = self.rules.emphasis if self.rules.kind == "s-sknn" else 0
        sums, counts = {}, {}
        for _, cosine, position, entered in candidates[: self.rules.k]:
            vote = int(cosine * (position / len(context)) ** emphasis + 0.5)
            for item in entered:
                sums[item] = sums.get(item, 0) + vote
                counts[item] = counts.get(item, 0) + 1
        return sums, counts

    def recommend(self, session, context, k):
        sums, _ = self.votes(session, context)
        last = {}
        for entered in self.sessions.values():
            for item, when in entered.items():
                last[item] = max(last.get(item, -1), when)
        best = sorted(sums, key=lambda item: (-sums[item], -last[item]))[:k]
        return best, [sums[item] / 2**32 for item in best]


def random_log(seed, n_clicks=600, n_items=25, n_sessions=120):
    """Sessions that overlap in time and come back, with repeated clicks and uneven popularity."""
    random = np.random.default_rng(seed)
    places = np.sort(random.normal(np.linspace(0, n_sessions, n_clicks), 4))
    sessions = np.clip(places + random.normal(0, 2, n_clicks), 0, n_sessions - 1).astype(np.int64)
    items = (random.zipf(1.2, n_clicks) + random.integers(0, 3, n_clicks)) % n_items
    return ClickLog(sessions, items, np.arange(n_clicks, dtype=float))


RULES = [
    SessionKNNSettings(),
    SessionKNNSettings(sample_size=1000, k=20),
    SessionKNNSettings(kind="sknn"),
    SessionKNNSettings(emphasis=1, sample_size=7, k=3),
    SessionKNNSettings(kind="sknn", sample_size=10, k=4),
    SessionKNNSettings(sample_size=5, k=100),
    SessionKNNSettings(sample_size=1, k=1),
]


@pytest.mark.parametrize("rules", RULES, ids=repr)
@pytest.mark.parametrize("batch", [1, 40])
def test_rankings_and_scores_are_those_of_the_definition(rules, batch):
    log = random_log(seed=3)
    training = ClickLog(log.sessions[:300], log.items[:300], log.times[:300])
    transitions = log.transitions()
    learned = len(training.transitions())
    model, slow = SessionKNN(rules).fit(training), SlowSessionKNN(rules)
    for start in [None, *range(learned, len(transitions), batch)]:
        now = transitions[:learned] if start is None else transitions[start : start + batch]
        rows = list(zip(now.contexts.sessions.tolist(), now, strict=True))
        if start is not None:
            answer = model.recommend(now.contexts, 10)
            for row, (session, (context, _)) in enumerate(rows):
                known = [item for item in context.tolist() if item < model.n_items]
                items, scores = slow.recommend(session, known, 10)
                n = len(items)
                if known:
                    assert answer.items[row].tolist() == items + [-1] * (10 - n)
                    assert answer.scores[row].tolist() == scores + [0.0] * (10 - n)
            model.learn(now)
        for session, (context, item) in rows:
            slow.learn(session, context.tolist(), int(item))


transitions_ = st.lists(
    st.tuples(
        st.integers(-1, 4),
        st.lists(st.integers(0, 9), min_size=1, max_size=25),
        st.integers(0, 9),
    ),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(transitions_, st.lists(st.integers(0, 9), min_size=1, max_size=25), st.integers(-1, 4))
def test_any_stream_of_transitions_is_remembered(stream, asked, session):
    rules = SessionKNNSettings(sample_size=6, k=3)
    first = [(9, [0], 1)]
    model = SessionKNN(rules).fit(ClickLog.of([(9, 0, 0.0), (9, 1, 1.0)]))
    slow = SlowSessionKNN(rules)
    for row in first + stream:
        slow.learn(*row)
    if stream:
        sessions, contexts, items = zip(*stream, strict=True)
        past = Contexts.of(contexts, sessions=sessions)
        model.learn(Transitions(past, np.array(items), np.zeros(len(items))))
    question = Contexts.of([asked], sessions=[session])
    known = [item for item in asked[-20:] if item < model.n_items]
    answer = model.recommend(question, 5)
    if known:
        items, scores = slow.recommend(session, known, 5)
        assert [item for item in answer.items[0].tolist() if item >= 0] == items
        assert answer.scores[0, : len(scores)].tolist() == scores


def test_explanations_count_the_sessions_that_voted():
    model, slow = SessionKNN().fit(random_log(seed=5)), SlowSessionKNN(SessionKNNSettings())
    for session, (context, item) in zip(
        random_log(seed=5).transitions().contexts.sessions,
        random_log(seed=5).transitions(),
        strict=True,
    ):
        slow.learn(int(session), context.tolist(), int(item))
    question = Contexts.of([[3, 4], [2]])
    answer = model.recommend(question, 8)
    why = model.explain(question, answer)
    for row, context in enumerate([[3, 4], [2]]):
        _, counts = slow.votes(-1, context)
        assert why.sessions[row].tolist() == [
            counts.get(item, 0) for item in answer.items[row].tolist()
        ]
    np.testing.assert_array_equal(why.memory, answer.scores)
    assert not why.neural.any()


def test_a_session_is_not_its_own_neighbour():
    model = SessionKNN().fit(ClickLog.of([(7, 0, 0.0), (7, 1, 1.0)]))
    assert model.recommend(Contexts.of([[0]], sessions=[7]), 2).items.tolist() == [[-1, -1]]
    assert model.recommend(Contexts.of([[0]], sessions=[8]), 2).items.tolist() == [[1, 0]]
    assert model.recommend(Contexts.of([[0]]), 2).items.tolist() == [[1, 0]]


def test_how_the_stream_is_cut_makes_no_difference():
    log = random_log(seed=7)
    transitions = log.transitions()
    states = []
    for batch in (1, 13, 1000):
        model = SessionKNN().fit(ClickLog.of([(500, 1, 0.0), (500, 2, 1.0)]))
        for part in transitions.batches(batch):
            model.learn(part)
        states.append(model.state())
    for state in states[1:]:
        assert {k for k in state if "popular" not in k} == {
            k for k in states[0] if "popular" not in k
        }
        for name in state:
            if name.startswith("method/"):
                np.testing.assert_array_equal(state[name], states[0][name])


def test_going_on_from_a_state_is_as_if_nothing_had_happened():
    log = random_log(seed=9)
    transitions = log.transitions()
    model = SessionKNN().fit(random_log(seed=8))
    model.learn(transitions[:150])
    saved = {name: array.copy() for name, array in model.state().items()}
    copy = SessionKNN().restore(Catalog(range(model.n_items)), saved)
    for part in transitions[150:].batches(50):
        mine, theirs = model.recommend(part.contexts), copy.recommend(part.contexts)
        np.testing.assert_array_equal(mine.items, theirs.items)
        np.testing.assert_array_equal(mine.scores, theirs.scores)
        model.learn(part)
        copy.learn(part)
    for name, array in model.state().items():
        np.testing.assert_array_equal(array, copy.state()[name])


def test_a_long_session_and_a_popular_item_are_learned_whole():
    clicks = [(0, item, float(item)) for item in range(3000)]
    clicks += [(session, 7, 3000.0 + session) for session in range(1, 2000) for _ in range(2)]
    model = SessionKNN().fit(ClickLog.of(clicks))
    assert model.recommend(Contexts.of([[2999]]), 3000).items[0].tolist() == [
        7,
        *reversed([item for item in range(3000) if item != 7]),
    ]
    # Only the latest of the 2,000 sessions with item 7 are looked at, the long one is not.
    assert model.recommend(Contexts.of([[7]]), 20).items[0].tolist() == [7] + [-1] * 19


def test_an_item_of_no_session_has_no_say():
    model = SessionKNN().fit(ClickLog.of([(0, 0, 0.0), (0, 1, 1.0), (1, 2, 2.0)]))
    assert model.recommend(Contexts.of([[2]]), 2).items.tolist() == [[-1, -1]]
    assert model.recommend(Contexts.of([[2, 0]]), 2).items.tolist() == [[1, 0]]


def test_fitting_again_begins_anew():
    log = random_log(seed=1)
    model = SessionKNN().fit(random_log(seed=2)).fit(log)
    for name, array in SessionKNN().fit(log).state().items():
        np.testing.assert_array_equal(model.state()[name], array)


@pytest.mark.parametrize("name", ["sknn", "s-sknn"])
def test_both_kinds_have_a_name(name):
    model = create(name)
    assert name_of(model) == name
    assert model.label == name.upper()


@pytest.fixture(scope="module")
def diginetica(shared_data):
    return prepare(shared_data / "diginetica")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "least"), [("sknn", 0.48), ("s-sknn", 0.49)])
def test_diginetica_is_predicted_as_well_as_published(diginetica, kind, least):
    model = SessionKNN(SessionKNNSettings(kind=kind))
    model.fit(diginetica.train, validation=diginetica.validation)
    test = diginetica.test.transitions()
    result = evaluate(model, test, training=diginetica.train, limit=20_000)
    assert result.metrics()["HR@20"] > least
    assert result.metrics(result.new)["HR@20"] > 0.14
