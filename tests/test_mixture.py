"""The mixture of any number of predictors, against the whole of it written out."""

import numpy as np
import pytest
from pydantic import ValidationError

from nextclick.baselines.context_tree import ContextTreeSettings
from nextclick.clicks import ClickLog, Contexts, Transitions
from nextclick.encoders.recommender import NeuralRecommender, NeuralSettings
from nextclick.encoders.training import TrainingSettings
from nextclick.gate import GateSettings
from nextclick.memory.base import MemorySettings
from nextclick.mixture import Mixture, MixtureSettings, PredictorSettings, different
from nextclick.runtime import Runtime

RUNTIME = Runtime(seed=2, threads=1, show_progress=False)
NEURAL = NeuralSettings(
    encoder={"kind": "gru4rec", "embedding": 12, "hidden": 12},
    training=TrainingSettings(epochs=2, batch=64, precision="float32"),
)
SETTINGS = MixtureSettings(
    neural=NEURAL,
    memory=MemorySettings(kind="exact", neighbours=10),
    gate=GateSettings(epochs=3, hidden=8, lean=False),
    predictors=PredictorSettings(ct=ContextTreeSettings()),
    candidates=20,
)


def log(sessions=150, items=60, start=0):
    clicks = [
        (s, (s * s + i * i) % items, 10.0 * s + i)
        for s in range(start, start + sessions)
        for i in range(2 + s % 4)
    ]
    return ClickLog.of(clicks)


def fitted(settings=SETTINGS):
    return Mixture(settings, RUNTIME).fit(log(), validation=log(30, start=150))


def clicked(pairs, session=1000):
    contexts, items = zip(*pairs, strict=True)
    given = Contexts.of(contexts, sessions=np.arange(session, session + len(items)))
    return Transitions(given, np.array(items), np.zeros(len(items)))


def plain_mixture(model, contexts):
    """P over the whole catalog: each part asked for all of it, by itself."""
    contexts = contexts.last(20)
    said = model._consult(contexts)
    everything = np.tile(np.arange(model.n_items), (len(contexts), 1))
    memory = np.zeros(everything.shape)
    for row, (items, shares) in enumerate(zip(said.neighbours.items, said.shares, strict=True)):
        for item, share in zip(items, shares, strict=True):
            memory[row, item] += share
    parts = [said.neural.at(everything), memory]
    parts += [one.probabilities(contexts, everything) for one in model._predictors.values()]
    opening = said.opening
    weights = np.column_stack([opening.weights, opening.memory, opening.others])
    np.testing.assert_allclose(weights.sum(1), 1)
    assert (weights > 0).all()
    return sum(weight[:, None] * part for weight, part in zip(weights.T, parts, strict=True))


def test_recommends_the_best_of_the_whole_mixture():
    model = fitted()
    model.learn(clicked([([1], 62), ([4, 5], 60), ([7, 7], 61)]))
    contexts = Contexts.of([[1], [4, 5], [7, 7, 2], list(range(25))], sessions=[7, 8, 9, -1])
    full = plain_mixture(model, contexts)
    np.testing.assert_allclose(full.sum(1), 1, rtol=1e-5)
    answer = model.recommend(contexts, k=8)
    np.testing.assert_allclose(np.sort(full, axis=1)[:, ::-1][:, :8], answer.scores, rtol=1e-5)
    same = np.take_along_axis(full, answer.items, axis=1)
    np.testing.assert_allclose(same, answer.scores, rtol=1e-5)


def test_an_explanation_says_what_the_neural_part_gives():
    model = fitted()
    contexts = Contexts.of([[4, 9], [], [16]])
    answer = model.recommend(contexts, k=5)
    why = model.explain(contexts, answer)
    said = model._consult(contexts[np.array([0, 2])])
    neural = said.opening.weights[:, None] * said.neural.at(answer.items[[0, 2]])
    np.testing.assert_allclose(why.neural[[0, 2]], neural)
    assert (why.neural[1] == 0).all()


def test_all_predictors_learn_with_the_memory_and_only_then():
    model = fitted()
    news = clicked([([4, 5], 60)])
    model.learn(news, parts={"neural", "gate"})
    before = given(model, news.contexts, 60)
    assert before[:2].tolist() == [[[0]], [[0]]]  # CT gives something to every item
    model.learn(clicked([([4, 5], 60)], session=2000), parts={"memory"})
    assert (given(model, news.contexts, 60) > 2 * before).all()


def given(model, contexts, item):
    asked = np.array([[item]])
    return np.array([one.probabilities(contexts, asked) for one in model._predictors.values()])


def test_leaning_multiplies_the_best_of_the_mixture():
    model = fitted(SETTINGS.model_copy(update={"gate": GateSettings(epochs=3, hidden=8)}))
    contexts = Contexts.of([[1], [4, 5]], sessions=[7, 8])
    model.learn(clicked([([1], 62), ([4, 5], 60)]))
    full = plain_mixture(model, contexts)
    factors = model._leaning._exp(np.tile(np.arange(model.n_items), (2, 1)))
    assert factors.std() > 0
    leant = full * factors / (full * factors).sum(1, keepdims=True)
    answer = model.recommend(contexts, k=8)
    np.testing.assert_allclose(np.sort(leant, axis=1)[:, ::-1][:, :8], answer.scores, rtol=1e-4)
    why = model.explain(contexts, answer)
    np.testing.assert_allclose(why.neural + why.memory, answer.scores, rtol=1e-5)


def test_one_may_leave_predictors_out():
    one = fitted(SETTINGS.model_copy(update={"predictors": PredictorSettings(vstan="none")}))
    assert list(one._predictors) == ["s_sknn"]
    none = PredictorSettings(s_sknn=None, vstan=None)
    man = fitted(SETTINGS.model_copy(update={"predictors": none}))
    answer = man.recommend(Contexts.of([[4, 9]]), k=5)
    full = plain_mixture(man, Contexts.of([[4, 9]]))
    np.testing.assert_allclose(np.sort(full, axis=1)[:, ::-1][:, :5], answer.scores, rtol=1e-5)


def test_it_can_be_built_around_a_trained_network():
    neural = NeuralRecommender(NEURAL, RUNTIME)
    neural.fit(log(), validation=log(30, start=150), absorb=False)
    around = Mixture.around(neural, SETTINGS).fit(log(), validation=log(30, start=150))
    contexts = Contexts.of([[4, 9], [16]])
    answer, other = around.recommend(contexts, 5), fitted().recommend(contexts, 5)
    np.testing.assert_array_equal(answer.items, other.items)
    np.testing.assert_array_equal(answer.scores, other.scores)


@pytest.mark.parametrize("gate", [{"kind": "fixed"}, {"inputs": "context"}])
def test_a_gate_that_cannot_weigh_them_is_refused(gate):
    with pytest.raises(ValidationError, match="the weights of a mixture"):
        MixtureSettings(gate=GateSettings(**gate))


def test_different_items_against_a_dictionary():
    named = np.random.default_rng(0).integers(-1, 30, size=(50, 80))
    for row, items in zip(named.tolist(), different(named).tolist(), strict=True):
        first = [item for item in dict.fromkeys(row) if item >= 0]
        assert items == first + [-1] * (80 - len(first))
