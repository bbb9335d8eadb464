"""Methods of neighbouring sessions against one that keeps sessions in a dictionary."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextclick.baselines.session_knn import SessionKNN, SessionKNNSettings
from nextclick.baselines.stan import STAN, VSTAN, STANSettings, VSTANSettings
from nextclick.baselines.v_sknn import VSKNN, VSKNNSettings
from nextclick.catalog import Catalog
from nextclick.clicks import ClickLog, Contexts, Transitions
from nextclick.datasets import prepare
from nextclick.evaluation.prequential import evaluate
from nextclick.methods import create, name_of

UNIT = 2**32


def rounded(weight):
    return max(1, int(weight + 0.5))


def falling(distance, scale):
    return 1.0 if scale is None else math.exp(-distance / scale)


class SlowSKNN:
    """The definition, one session at a time."""

    by_length = True

    def __init__(self, rules):
        self.rules = rules
        self.sessions = {}  # session: {item: when it entered}, the last item behind
        self.clicks = 0

    def worth(self, _ahead, _length):
        return 1.0

    def ageing(self, _clicks):
        return 1.0

    def vote(self, ahead, length):
        emphasis = self.rules.emphasis if self.rules.kind == "s-sknn" else 0
        return ((length - ahead) / length) ** emphasis

    def reach(self, _places):
        return 1.0

    def rarity(self, _item):
        return 1.0

    def learn(self, session, context, item):
        key = session if session >= 0 else ("anonymous", len(self.sessions))
        entered = self.sessions.setdefault(key, {})
        for clicked in [*context[-20:], item]:
            if clicked not in entered:
                entered[clicked] = self.clicks
                self.clicks += 1
        entered[item] = entered.pop(item)

    def neighbours(self, session, context):
        """Yield the similarity of each, how far from the end it shares an item, and the session."""
        ahead = {item: len(context) - 1 - i for i, item in enumerate(context)}
        worth = {item: round(self.worth(ahead[item], len(context)) * UNIT) for item in ahead}
        squares = sum((worth[item] / UNIT) ** 2 for item in sorted(ahead, key=ahead.get))
        candidates = []
        for key, entered in self.sessions.items():
            shared = set(entered) & set(context)
            if shared and key != session:
                candidates.append((max(entered[item] for item in shared), shared, entered))
        candidates.sort(key=lambda candidate: -candidate[0])
        compared = []
        for recency, shared, entered in candidates[: self.rules.sample_size]:
            length = len(entered) if self.by_length else 1
            similarity = sum(worth[item] for item in shared) / UNIT / math.sqrt(squares * length)
            similarity *= self.ageing(candidates[0][0] - recency)
            nearest = min(ahead[item] for item in shared)
            compared.append((rounded(similarity * UNIT), nearest, shared, entered))
        compared.sort(key=lambda neighbour: -neighbour[0])  # the more recent stays ahead
        return compared[: self.rules.k]

    def votes(self, session, context):
        context = context[-20:]
        sums, counts = {}, {}
        for similarity, nearest, shared, entered in self.neighbours(session, context):
            weight = rounded(similarity * self.vote(nearest, len(context)))
            items = list(entered)
            last = max(items.index(item) for item in shared)
            for place, item in enumerate(items):
                vote = rounded(weight * self.reach(place - last))
                sums[item] = sums.get(item, 0) + vote
                counts[item] = counts.get(item, 0) + 1
        return {item: rounded(sum_ * self.rarity(item)) for item, sum_ in sums.items()}, counts

    def recommend(self, session, context, k):
        sums, _ = self.votes(session, context)
        last = {}
        for entered in self.sessions.values():
            for item, when in entered.items():
                last[item] = max(last.get(item, -1), when)
        best = sorted(sums, key=lambda item: (-sums[item], -last[item]))[:k]
        return best, [sums[item] / sum(sums.values()) for item in best]

    def idf(self, item):
        return math.log(len(self.sessions) / sum(item in of for of in self.sessions.values()))


class SlowVSKNN(SlowSKNN):
    by_length = False

    def worth(self, ahead, length):
        position = length - ahead
        return {
            "same": 1.0,
            "linear": max(1 - 0.1 * ahead, 0.0),
            "div": position / length,
            "log": 1 / math.log10(ahead + 1.7),
            "quadratic": (position / length) ** 2,
        }[self.rules.clicks]

    def ageing(self, clicks):
        return falling(clicks, self.rules.age)

    def vote(self, ahead, _length):
        step = ahead + 1
        return {
            "same": 1.0,
            "linear": max(1 - 0.1 * step, 0.0),
            "div": 1 / step,
            "log": 1 / math.log10(step + 1.7),
            "quadratic": 1 / step**2,
        }[self.rules.votes]

    def rarity(self, item):
        return 1 + self.rules.idf * self.idf(item) if self.rules.idf else 1.0


class SlowSTAN(SlowSKNN):
    def worth(self, ahead, _length):
        return falling(ahead, self.rules.position)

    def ageing(self, clicks):
        return falling(clicks, self.rules.age)

    def vote(self, _ahead, _length):
        return 1.0

    def reach(self, places):
        return falling(min(abs(places), 64), self.rules.distance)


class SlowVSTAN(SlowSTAN):
    def reach(self, places):
        return super().reach(places) * (self.rules.before if places < 0 else 1.0)

    def vote(self, ahead, _length):
        return falling(ahead, self.rules.vote)

    def rarity(self, item):
        return 1 + self.rules.idf * self.idf(item) if self.rules.idf else 1.0


METHODS = {
    SessionKNNSettings: (SessionKNN, SlowSKNN),
    VSKNNSettings: (VSKNN, SlowVSKNN),
    STANSettings: (STAN, SlowSTAN),
    VSTANSettings: (VSTAN, SlowVSTAN),
}


def both(rules):
    """Return the method of these settings, and its definition."""
    fast, slow = METHODS[type(rules)]
    return fast(rules), slow(rules)


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
    VSKNNSettings(),
    VSKNNSettings(clicks="same", votes="same", idf=0, age=None),
    VSKNNSettings(clicks="linear", votes="linear", idf=1, age=50, sample_size=9, k=4),
    VSKNNSettings(clicks="div", votes="div", idf=10, age=3),
    VSKNNSettings(clicks="log", votes="log", sample_size=20, k=4),
    VSKNNSettings(clicks="quadratic", votes="quadratic", k=7),
    STANSettings(),
    STANSettings(position=None, age=None, distance=None),
    STANSettings(position=0.3, age=5, distance=0.5, sample_size=12, k=6),
    VSTANSettings(),
    VSTANSettings(position=4, age=100, distance=None, vote=None, before=1, idf=0, k=8),
    VSTANSettings(distance=None, before=0.2),
    VSTANSettings(position=1, age=None, distance=1, vote=0.5, idf=2, sample_size=10, k=5),
]


@pytest.mark.parametrize("rules", RULES, ids=repr)
@pytest.mark.parametrize("batch", [1, 40])
def test_rankings_and_scores_are_those_of_the_definition(rules, batch):
    log = random_log(seed=3)
    training = ClickLog(log.sessions[:300], log.items[:300], log.times[:300])
    transitions = log.transitions()
    learned = len(training.transitions())
    model, slow = both(rules)
    model.fit(training)
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


FEW = [
    SessionKNNSettings(sample_size=6, k=3),
    VSKNNSettings(sample_size=6, k=3, age=7),
    STANSettings(sample_size=6, k=3, age=7),
    VSTANSettings(sample_size=6, k=3, age=7),
]


@pytest.mark.parametrize("rules", FEW, ids=repr)
@settings(max_examples=60)
@given(transitions_, st.lists(st.integers(0, 9), min_size=1, max_size=25), st.integers(-1, 4))
def test_any_stream_of_transitions_is_remembered(rules, stream, asked, session):
    first = [(9, [0], 1)]
    model, slow = both(rules)
    model.fit(ClickLog.of([(9, 0, 0.0), (9, 1, 1.0)]))
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
    model, slow = both(VSTANSettings())
    model.fit(random_log(seed=5))
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
        model = VSTAN().fit(ClickLog.of([(500, 1, 0.0), (500, 2, 1.0)]))
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
    model = VSTAN().fit(random_log(seed=8))
    model.learn(transitions[:150])
    saved = {name: array.copy() for name, array in model.state().items()}
    copy = VSTAN().restore(Catalog(range(model.n_items)), saved)
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


@pytest.mark.parametrize("name", ["sknn", "s-sknn", "v-sknn", "stan", "vstan"])
def test_each_has_a_name(name):
    model = create(name)
    assert name_of(model) == name
    assert model.label == name.upper()


@pytest.fixture(scope="module")
def diginetica(shared_data):
    return prepare(shared_data / "diginetica")


@pytest.mark.slow
@pytest.mark.parametrize(("method", "least"), [("sknn", 0.48), ("s-sknn", 0.49), ("vstan", 0.5)])
def test_diginetica_is_predicted_as_well_as_published(diginetica, method, least):
    model = create(method)
    model.fit(diginetica.train, validation=diginetica.validation)
    test = diginetica.test.transitions()
    result = evaluate(model, test, training=diginetica.train, limit=20_000)
    assert result.metrics()["HR@20"] > least
    assert result.metrics(result.new)["HR@20"] > 0.14
