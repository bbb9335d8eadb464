"""MAN: its parts together, its schedule, and its switches."""

import numpy as np
import pytest

from nextclick.clicks import ClickLog, Contexts, Transitions
from nextclick.encoders.recommender import NeuralRecommender, NeuralSettings
from nextclick.encoders.training import TrainingSettings
from nextclick.errors import BadInputError
from nextclick.gate import GateSettings
from nextclick.memory.base import MemorySettings
from nextclick.memory_augmented import MemoryAugmented, MemoryAugmentedSettings, paper_settings
from nextclick.memory_augmented.compiled import CompiledConsultation
from nextclick.memory_augmented.consultation import Consultation
from nextclick.runtime import Runtime

RUNTIME = Runtime(seed=2, threads=1, show_progress=False)
NEURAL = NeuralSettings(
    encoder={"kind": "gru4rec", "embedding": 12, "hidden": 12},
    training=TrainingSettings(epochs=2, batch=64, precision="float32"),
)


def log(sessions=150, items=30, start=0):
    clicks = [
        (s, (s * s + i * i) % items, 10.0 * s + i)
        for s in range(start, start + sessions)
        for i in range(2 + s % 4)
    ]
    return ClickLog.of(clicks)


def man(*, remember="all", memory=None, gate=None, neural=NEURAL):
    settings = MemoryAugmentedSettings(
        neural=neural,
        memory=memory or MemorySettings(kind="exact", neighbours=10),
        gate=gate or GateSettings(epochs=3, hidden=8),
        remember=remember,
    )
    return MemoryAugmented(settings, RUNTIME)


def fitted(**settings):
    return man(**settings).fit(log(), validation=log(30, start=150))


def batch(pairs, session=1000):
    contexts, items = zip(*pairs, strict=True)
    given = Contexts.of(contexts, sessions=np.arange(session, session + len(items)))
    return Transitions(given, np.array(items), np.zeros(len(items)))


def plain_mixture(model, context, session=200):
    """P = w P_N + (1 - w) P_M over the whole catalog, from one context alone."""
    said = model._consult(Contexts.of([context[-20:]], sessions=[session]))
    everything = np.arange(model.n_items)[None]
    neural = said.neural.at(everything)[0]
    distances = said.neighbours.distances[0].astype(float)
    learned = said.opening.kernel
    if learned is None:
        nearest = distances[0]
        kernel = np.where(
            nearest > 0, np.exp(-distances / max(2 * nearest, 1e-300)), distances == 0
        )
    else:
        kernel = np.exp(-learned.bandwidths[0] * (distances - distances.min()))
        kernel *= (1.0 + said.neighbours.ages[0]) ** -learned.recency[0]
        kernel *= np.exp(learned.loyalty[0] * (said.neighbours.sessions[0] == session))
    memory = np.zeros(model.n_items)
    for item, vote in zip(said.neighbours.items[0], kernel / kernel.sum(), strict=True):
        memory[item] += vote
    w = said.opening.weights[0]
    return w * neural + (1 - w) * memory


@pytest.mark.parametrize("bandwidth", ["nearest", "learned"])
@pytest.mark.parametrize("kind", ["learned", "fixed"])
def test_recommends_the_best_of_the_whole_mixture(bandwidth, kind):
    gate = GateSettings(kind=kind, bandwidth=bandwidth, epochs=3, hidden=8, lean=False)
    model = fitted(gate=gate)
    model.learn(batch([([1], 20), ([4, 5], 21), ([7, 7], 22)], session=199))
    for context in ([1], [4, 5], [7, 7, 2], list(range(25))):
        full = plain_mixture(model, context)
        answer = model.recommend(Contexts.of([context], sessions=[200]), k=8)
        np.testing.assert_allclose(np.sort(full)[::-1][:8], answer.scores[0], rtol=1e-5)
        np.testing.assert_allclose(full[answer.items[0]], answer.scores[0], rtol=1e-5)


def test_the_mixture_is_a_distribution():
    model = fitted()
    assert plain_mixture(model, [3, 4]).sum() == pytest.approx(1, rel=1e-5)
    answer = model.recommend(Contexts.of([[3, 4]]), k=30)
    assert answer.scores.sum() == pytest.approx(1, rel=1e-5)
    assert 0 < answer.weights[0] < 1


def test_a_new_item_is_recommended_after_one_click():
    model = man(remember="fresh").fit(log(), validation=log(30, start=150), absorb=False)
    model.learn(batch([([4, 5], 30)]), parts={"memory"})
    answer = model.recommend(Contexts.of([[4, 5]]), k=5)
    assert 30 in answer.items
    why = model.explain(Contexts.of([[4, 5]]), answer)
    np.testing.assert_allclose(why.neural + why.memory, answer.scores, rtol=1e-5)
    place = answer.items[0].tolist().index(30)
    assert why.memory[0, place] > why.neural[0, place]
    assert why.sessions[0, place] == 1


def test_what_is_remembered_is_found_by_the_next_piece_of_the_batch():
    model = man(remember="fresh").fit(log(), validation=log(30, start=150), absorb=False)
    pieces = [batch([([4, 5], 30)]), batch([([4, 5], 31)])]
    first = model.test(pieces[0], 5, by_part=True)
    assert 30 not in first.by_part["memory"]
    model.remember(pieces[0], first)
    second = model.test(pieces[1], 5, by_part=True)
    assert second.by_part["memory"][0, 0] == 30
    np.testing.assert_array_equal(
        second.by_part["neural"], model._neural.recommend(pieces[1].contexts, 5).items
    )


def test_a_context_of_items_unknown_when_tested_is_remembered_whole():
    model = fitted()
    entries = model.memory_entries
    unknown = batch([([40], 41), ([1, 2], 3), ([1, 40], 41)])
    tested = model.test(unknown)
    model.remember(unknown, tested, parts={"memory"})
    assert model.memory_entries == entries + 3
    keys = model._neural.encode(unknown.contexts)
    found = model._memory.search(keys, 1)
    np.testing.assert_allclose(found.distances, 0, atol=1e-5)
    assert found.items[:, 0].tolist() == [41, 3, 41]


def test_explanations_count_sessions_not_clicks():
    model = fitted(remember="fresh")
    twice = batch([([4, 5], 30), ([4, 5], 30), ([4, 5], 30)])
    twice.contexts.sessions[:] = [500, 500, 501]
    model.learn(twice, parts={"memory"})
    answer = model.recommend(Contexts.of([[4, 5]]), k=5)
    why = model.explain(Contexts.of([[4, 5]]), answer)
    assert why.sessions[0, answer.items[0].tolist().index(30)] == 2


@pytest.mark.parametrize("settings", [{}, {"memory": {"size": 30}}])
def test_explanations_name_past_contexts(settings):
    model = fitted(**settings)
    model.learn(batch([([4, 5], 30), ([1, 2, 40], 31)]), parts={"memory"})
    again = man(**settings).restore(model.catalog, model.state())
    every = log().transitions() if not settings else None
    for each in (model, again):
        answer = each.recommend(Contexts.of([[4, 5]]), k=5)
        why = each.explain(Contexts.of([[4, 5]]), answer)
        place = answer.items[0].tolist().index(30)
        past = [context.tolist() for context in why.past]
        assert len(past) == why.voters.size
        assert past[place * why.voters.shape[2]] == [4, 5]
        named = {tuple(context) for context in past if context}
        if every is not None:
            assert named <= {tuple(context) for context in every.contexts} | {(4, 5), (1, 2, 40)}
        assert all(past[n] for n in range(len(past)) if why.voters.ravel()[n] >= 0)


def changed(model, parts):
    """Which parts' states a batch changes."""
    before = {name: values.copy() for name, values in model.state().items()}
    model.learn(batch([([1, 2], 3), ([5], 6)]), parts=parts)
    after = model.state()
    return {
        part
        for part in ("neural", "memory", "gate")
        for name in after
        if name.startswith(f"method/{part}/")
        and not name.startswith("method/neural/popular")
        and not np.array_equal(before.get(name), after[name])
    }


@pytest.mark.parametrize(
    "parts", [{"memory"}, {"neural"}, {"gate"}, {"neural", "gate"}, {"neural", "gate", "memory"}]
)
def test_each_part_learns_when_it_is_told_to_and_only_then(parts):
    assert changed(fitted(), parts) == parts


def test_the_schedule_memory_then_neural_then_gate_each_from_how_things_stood():
    model = fitted()
    step = batch([([1, 2], 3), ([5], 6)])
    said = model._consult(step.contexts)
    entries, neural = model.memory_entries, model._neural.clone()
    matches = said.neighbours.items == step.items[:, None]

    gate_saw = []
    plan_gate = model._gate.plan
    model._gate.plan = lambda lessons: (gate_saw.append(lessons), plan_gate(lessons))[1]
    model.learn(step)
    neural.learn(step)

    # The memory got the representations that the encoder gave before its step.
    assert model.memory_entries == entries + 2
    found = model._memory.search(said.neural.representations, 1)
    np.testing.assert_allclose(found.distances, 0, atol=1e-5)
    # The gate saw neighbours among which the batch itself was not, and P_N from before the step.
    np.testing.assert_array_equal(gate_saw[0].matches, matches)
    np.testing.assert_allclose(gate_saw[0].neural, said.neural.at(step.items[:, None])[:, 0])
    # The neural part took the one step it would have taken alone; MAN itself counts clicks.
    for name, values in neural.state().items():
        if "popular" in name:
            continue
        np.testing.assert_array_equal(model._neural.state()[name], values, err_msg=name)


def test_an_empty_memory_leaves_the_neural_part_alone():
    model = man(remember="fresh").fit(log(), validation=log(30, start=150), absorb=False)
    assert model.memory_entries == 0
    contexts = Contexts.of([[1, 2], [9]])
    answer, alone = model.recommend(contexts, 5), model._neural.recommend(contexts, 5)
    assert (answer.weights == 1).all()
    np.testing.assert_array_equal(answer.items, alone.items)


@pytest.mark.parametrize(
    ("remember", "absorb", "expected"),
    [("all", True, "train+validation"), ("all", False, "train"), ("fresh", True, "validation")],
)
def test_what_the_memory_holds_when_the_test_begins(remember, absorb, expected):
    training, validation = log(), log(30, start=150)
    model = man(remember=remember).fit(training, validation=validation, absorb=absorb)
    counts = {"train": len(training.transitions()), "validation": len(validation.transitions())}
    assert model.memory_entries == sum(counts[part] for part in expected.split("+"))


@pytest.mark.parametrize("lessons", ["static", "prequential"])
def test_not_absorbing_leaves_the_neural_part_as_training_left_it(lessons):
    training, validation = log(), log(30, start=150)
    gate = GateSettings(lessons=lessons, epochs=2, hidden=8)
    model = man(gate=gate).fit(training, validation=validation, absorb=False)
    alone = NeuralRecommender(NEURAL, RUNTIME).fit(training, validation=validation, absorb=False)
    for name, values in alone.state().items():
        if "popular" not in name and name != "recommender/n_items":
            np.testing.assert_array_equal(model._neural.state()[name], values, err_msg=name)


def test_without_a_validation_part_the_last_sessions_of_training_serve():
    training = log()
    model = man().fit(training)
    assert model.memory_entries == len(training.transitions())
    fresh = man(remember="fresh").fit(training)
    last_tenth = training.sessions >= 135
    assert fresh.memory_entries == last_tenth.sum() - 15


def test_encoded_anew_the_memory_holds_what_the_encoder_now_says():
    model = fitted(remember="fresh")
    transitions = log(30, start=150).transitions()
    for _ in range(5):
        model.learn(transitions, parts={"neural"})
    queries = model._neural.represent(transitions)
    stale = model._memory.search(queries)
    assert (stale.distances[:, 0] > 1e-6).any()
    model.encode_anew(transitions)
    found = model._memory.search(queries)
    assert model.memory_entries == len(transitions)
    assert (found.distances[:, 0] < 1e-6).all()
    assert (found.sessions[:, 0][found.ages[:, 0] == 0] == transitions.contexts.sessions[-1]).all()


def test_a_bounded_memory_stays_within_its_bound():
    model = fitted(
        memory=MemorySettings(kind="clustered", size=50, neighbours=10, clusters=4, codes="PQ4")
    )
    assert model.memory_entries == 50
    for session in range(20):
        model.learn(batch([([1, 2], 3), ([5], 6)], session=2000 + session))
        assert model.memory_entries == 50


def test_the_encoder_is_a_parameter():
    narm = NeuralSettings(
        encoder={"kind": "narm", "embedding": 8, "hidden": 8},
        training=TrainingSettings(epochs=1, batch=64, precision="float32"),
    )
    assert fitted(neural=narm).label == "MAN-NARM"
    assert fitted().label == "MAN-GRU4Rec"


def test_around_a_trained_network_equals_training_it_within():
    training, validation = log(), log(30, start=150)
    neural = NeuralRecommender(NEURAL, RUNTIME).fit(training, validation=validation, absorb=False)
    before = {name: values.copy() for name, values in neural.state().items()}
    around = MemoryAugmented.around(neural, man().settings).fit(training, validation=validation)
    within = man().fit(training, validation=validation)
    for name, values in within.state().items():
        np.testing.assert_array_equal(around.state()[name], values, err_msg=name)
    for name, values in neural.state().items():
        np.testing.assert_array_equal(before[name], values, err_msg=name)


def test_the_papers_recipe():
    settings = paper_settings(NEURAL)
    assert (settings.memory.clusters, settings.memory.codes, settings.remember) == (
        256,
        "PQ8",
        "all",
    )
    model = MemoryAugmented(
        settings.model_copy(
            update={"memory": settings.memory.model_copy(update={"clusters": 4, "codes": "PQ4"})}
        ),
        RUNTIME,
    ).fit(log(400), validation=log(30, start=400))
    assert 0 < model.recommend(Contexts.of([[4, 5]])).weights[0] < 1


def test_a_network_of_other_data_is_refused():
    neural = NeuralRecommender(NEURAL, RUNTIME).fit(log(), absorb=False)
    more = neural.clone()
    more.know(neural.n_items + 1)
    with pytest.raises(BadInputError, match=r"trained on other data.*train it on the same part"):
        MemoryAugmented.around(more, man().settings).fit(log())


@pytest.mark.parametrize("inputs", ["evidence", "context", "both"])
@pytest.mark.parametrize("recency", [True, False])
def test_one_compiled_pass_says_what_the_steps_say_one_by_one(inputs, recency):
    gate = GateSettings(inputs=inputs, recency=recency, epochs=3, hidden=8)
    model = fitted(gate=gate)
    model.learn(batch([([1], 20), ([4, 5], 21), ([7, 7], 22)], session=199))
    contexts = Contexts.of([[1], [4, 5], [7, 7, 2], list(range(20))], sessions=[200, 199, -1, 5])
    at_once, compiled = model._consult(contexts, 8), model._compiled
    assert isinstance(at_once, CompiledConsultation)
    model._compiled = None
    by_step = model._consult(contexts, 8)
    assert isinstance(by_step, Consultation)
    width = model._width(8)
    for one, other in (
        (at_once.top, by_step.top),
        ((at_once.evidence.features,), (by_step.evidence.features,)),
        ((at_once.opening.weights, at_once.shares), (by_step.opening.weights, by_step.shares)),
        (
            (at_once.votes.items, at_once.votes.probabilities),
            (by_step.votes.items, by_step.votes.probabilities),
        ),
        (model._mixed(at_once, width), model._mixed(by_step, width)),
        (model._ranked(at_once, 8)[:2], model._ranked(by_step, 8)[:2]),
    ):
        for given, expected in zip(one, other, strict=True):
            np.testing.assert_allclose(given, expected, rtol=1e-6)
    model._compiled = compiled
