"""The gate and the mixture against their formulas, written out slowly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextclick.gate import (
    FEATURES,
    Evidence,
    FixedGate,
    GateSettings,
    LearnedGate,
    Lessons,
    evidence_features,
    make_gate,
    mix,
)
from nextclick.runtime import Runtime

DIMENSION, K = 5, 8
RUNTIME = Runtime(seed=1, threads=1, show_progress=False)


def lessons(n=600, seed=0, others=0):
    """Contexts whose first coordinate says which of the two parts is right.

    Where it is the memory, and the second coordinate says so, it is the first of the others.
    """
    generator = np.random.default_rng(seed)
    contexts = generator.standard_normal((n, DIMENSION)).astype(np.float32)
    memory_is_right = contexts[:, 0] > 0
    distances = np.sort(generator.random((n, K)).astype(np.float32), axis=1)
    matches = np.zeros((n, K), dtype=bool)
    further_is_right = memory_is_right & (contexts[:, 1] > 0) & (others > 0)
    matches[:, 0] = memory_is_right & ~further_is_right
    features = np.repeat(contexts[:, :1], FEATURES, axis=1)
    neural = np.where(memory_is_right, 0.01, 0.9)
    memory = np.where(memory_is_right, 0.8, 0.0)
    ages = generator.integers(0, 1000, size=(n, K))
    own = generator.random((n, K)) < 0.2
    given = generator.random((n, others)) / 1000
    given[:, :1] += 0.9 * further_is_right[:, None]
    silent = generator.random((n, others)) < 0.1
    evidence = Evidence(contexts, features, distances, silent)
    return Lessons(evidence, ages, own, matches, neural, memory, np.where(silent, 0, given))


def settings(**values):
    return GateSettings(**{"epochs": 40, "learning_rate": 0.01, "hidden": 16, **values})


@pytest.mark.parametrize("inputs", ["context", "evidence", "both"])
@pytest.mark.parametrize("bandwidth", ["nearest", "learned"])
def test_a_gate_learns_whom_to_trust(inputs, bandwidth):
    gate = LearnedGate(settings(inputs=inputs, bandwidth=bandwidth), DIMENSION, RUNTIME)
    gate.fit(lessons())
    fresh = lessons(seed=1)
    weights = gate.open(fresh.evidence).weights
    clear = np.abs(fresh.evidence.contexts[:, 0]) > 0.3
    right = (weights < 0.5) == (fresh.evidence.contexts[:, 0] > 0)
    assert right[clear].mean() > 0.95


def plain_loss(gate, given):
    """-mean log P(y), P = w P_N + (1 - w) P_M, from what the gate says openly."""
    opening, total = gate.open(given.evidence), 0.0
    for row in range(len(given)):
        distances = given.evidence.distances[row].astype(float)
        kernel = opening.kernel
        if kernel is None:
            memory = given.memory[row]
        else:
            shares = np.exp(-kernel.bandwidths[row] * distances)
            shares *= (1.0 + given.ages[row]) ** -kernel.recency[row]
            shares *= np.exp(kernel.loyalty[row] * given.own[row])
            memory = shares[given.matches[row]].sum() / shares.sum()
        w = opening.weights[row]
        further = sum(opening.others[row] * given.others[row])
        rest = 1 - w - sum(opening.others[row])
        total -= np.log(max(w * given.neural[row] + rest * memory + further, 1e-12))
    return total / len(given)


@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize(
    ("bandwidth", "recency"), [("nearest", True), ("learned", False), ("learned", True)]
)
def test_the_loss_is_the_cross_entropy_of_the_mixture(bandwidth, recency, others):
    chosen = settings(bandwidth=bandwidth, recency=recency, inputs="both", epochs=2)
    gate = LearnedGate(chosen, DIMENSION, RUNTIME, others=others)
    gate.fit(lessons(300, seed=3, others=others))
    given = lessons(50, others=others)
    assert gate._loss(given).item() == pytest.approx(plain_loss(gate, given), rel=1e-4)


def test_a_gate_learns_which_of_many_to_trust():
    gate = LearnedGate(settings(inputs="both"), DIMENSION, RUNTIME, others=2)
    gate.fit(lessons(2000, others=2))
    fresh = lessons(seed=1, others=2)
    opening = gate.open(fresh.evidence)
    weights = np.column_stack([opening.weights, opening.memory, opening.others])
    np.testing.assert_allclose(weights.sum(1), 1)
    assert (opening.others[fresh.evidence.silent] == 0).all()
    first, second = fresh.evidence.contexts[:, 0], fresh.evidence.contexts[:, 1]
    best = np.where(first < 0, 0, np.where(second > 0, 2, 1))
    clear = (np.abs(first) > 0.3) & (np.abs(second) > 0.3) & ~fresh.evidence.silent.any(1)
    assert (weights.argmax(1) == best)[clear].mean() > 0.95


def test_a_gate_learns_that_the_old_fade_and_that_the_own_session_counts():
    generator = np.random.default_rng(2)
    given = lessons(2000)
    evidence = given.evidence
    evidence.distances[:] = 0.5
    given.matches[:] = False
    newest = given.ages.argmin(axis=1)
    right = np.where(given.own.any(1), given.own.argmax(1), newest)
    given.matches[np.arange(2000), right] = generator.random(2000) < 0.9
    given.neural[:] = 1e-4
    gate = LearnedGate(settings(), DIMENSION, RUNTIME)
    gate.fit(given)
    kernel = gate.open(evidence).kernel
    assert kernel.recency.mean() > 0.5
    assert kernel.loyalty.mean() > 1


def test_an_online_step_lowers_the_loss_on_its_lessons():
    gate = LearnedGate(settings(), DIMENSION, RUNTIME)
    given = lessons(100)
    before = plain_loss(gate, given)
    gate.plan(given)()
    assert plain_loss(gate, given) < before


def test_a_gate_that_is_not_online_stays_as_it_is():
    gate = LearnedGate(settings(online=False), DIMENSION, RUNTIME)
    before = gate.open(lessons(9).evidence).weights
    gate.plan(lessons(100))()
    np.testing.assert_array_equal(gate.open(lessons(9).evidence).weights, before)


@pytest.mark.parametrize("kind", ["learned", "fixed"])
def test_a_silent_memory_has_no_weight(kind):
    gate = make_gate(settings(kind=kind), DIMENSION, RUNTIME)
    given = lessons(4)
    given.evidence.distances[:2] = np.inf
    weights = gate.open(given.evidence).weights
    assert (weights[:2] == 1).all()
    assert (weights[2:] < 1).all()


@pytest.mark.parametrize("bandwidth", ["nearest", "learned"])
def test_a_fixed_gate_takes_the_likeliest_weight(bandwidth):
    gate = FixedGate(settings(kind="fixed", bandwidth=bandwidth), DIMENSION, RUNTIME)
    given = lessons(300)
    gate.fit(given)
    chosen = plain_loss(gate, given)
    for weight in (0.1, 0.3, 0.5, 0.7, 0.9):
        other = FixedGate(
            settings(kind="fixed", bandwidth=bandwidth, weight=weight), DIMENSION, RUNTIME
        )
        other.fit(given)
        assert other.open(given.evidence).weights[0] == weight
        assert chosen <= plain_loss(other, given) + 1e-9


@pytest.mark.parametrize("kind", ["learned", "fixed"])
def test_a_restored_gate_goes_on_the_same(kind):
    gate = make_gate(settings(kind=kind), DIMENSION, RUNTIME)
    gate.fit(lessons())
    copy = make_gate(settings(kind=kind), DIMENSION, Runtime(seed=9, threads=1))
    copy.restore({name: values.copy() for name, values in gate.state().items()})
    for each in (gate, copy):
        each.plan(lessons(100, seed=5))()
    one, other = gate.open(lessons(20).evidence), copy.open(lessons(20).evidence)
    np.testing.assert_array_equal(one.weights, other.weights)
    for name, values in vars(one.kernel).items():
        np.testing.assert_array_equal(values, getattr(other.kernel, name), err_msg=name)


def test_features():
    distances = np.array([[1.0] * 9 + [4.0] + [9.0] * 40, [0.25] + [np.inf] * 49], dtype=np.float32)
    named = np.array([[7, 8, 7, 8, 7, 8, 7, 8, 7, 9] + [1] * 40, [3] + [-1] * 49])
    likely = np.array([[0.5, 0.25], [0.9, 0.1]])
    features = evidence_features(distances, named, likely, memory_size=99)
    np.testing.assert_allclose(features[0, :4], [1, 2, 3, 3])
    np.testing.assert_allclose(features[1, :4], [0.5, 2, 2, 1])
    np.testing.assert_allclose(features[:, 4], np.log([0.5, 0.9]), rtol=1e-6)
    entropy = -2 * 0.25 * np.log(0.25) - 0.5 * np.log(0.5)
    assert features[0, 5] == pytest.approx(entropy, rel=1e-6)
    np.testing.assert_allclose(features[:, 6], np.log(100), rtol=1e-6)


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 5), st.floats(0, 1))
def test_the_best_of_the_mixture_equal_the_whole_mixture(seed, k, m, weight):
    generator = np.random.default_rng(seed)
    n_items = 12
    neural = generator.dirichlet(np.full(n_items, 0.3))
    named = generator.permutation(n_items)[:m]
    memory = np.zeros(n_items)
    memory[named] = generator.dirichlet(np.ones(m))

    full = weight * neural + (1 - weight) * memory
    expected = np.lexsort((np.arange(n_items), -full))[:k]

    top = np.lexsort((np.arange(n_items), -neural))[None, :k]
    voted = np.append(named, [-1, -1])[None]
    items, scores = mix(
        np.array([weight]),
        (top, neural[top]),
        (voted, np.where(voted >= 0, neural[voted], 0), np.where(voted >= 0, memory[voted], 0)),
    )
    np.testing.assert_allclose(scores[0], full[expected], rtol=1e-12)
    assert set(full[items[0]].round(12)) == set(full[expected].round(12))
    if len(np.unique(full[full > 0])) == np.count_nonzero(full) and (scores[0] > 0).all():
        assert items[0].tolist() == expected.tolist()
