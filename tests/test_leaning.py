"""Leaning towards items by what was clicked, against formulas written out slowly."""

import numpy as np
import pytest
import torch

from nextclick.gate.leaning import HIDDEN, Leaning, LeaningLessons

CLICKS = np.random.default_rng(0).integers(5, size=200)
SINCE = np.random.default_rng(1).integers(10, size=40)


def leaning():
    """Ten items, half of them not in the training part, and a network of anything."""
    made = Leaning(seed=0)
    made.begin(CLICKS, n_items=12)
    made.count(SINCE[:30])
    made.count(SINCE[30:])
    with torch.no_grad():
        made._network[2].weight.copy_(torch.randn(1, HIDDEN))
    return made


def plain_facts(item):
    clicks = np.concatenate([CLICKS, SINCE])
    return [
        np.log1p((clicks == item).sum()) / 3,
        np.log1p((item == SINCE).sum()) / 3,
        np.log1p(240 - np.flatnonzero(clicks == item)[-1]) / 6,
        item not in CLICKS,
    ]


def plain_factors(made):
    facts = torch.tensor([plain_facts(item) for item in range(10)], dtype=torch.float32)
    return made._network(facts).detach().exp().numpy()[:, 0]


def mixtures(n=6):
    """The best five of ten items, and their probabilities, which leave something for the rest."""
    generator = np.random.default_rng(1)
    items = np.array([generator.permutation(10)[:5] for _ in range(n)])
    scores = -np.sort(-generator.random((n, 5)), axis=1)
    return items, scores / scores.sum(1, keepdims=True) * 0.9


def test_leans_as_the_network_says():
    made = leaning()
    items, scores = mixtures()
    factors = plain_factors(made)
    assert factors.std() > 0.1
    best, leant = made.best(items, scores, 3)
    for row in range(len(items)):
        product = scores[row] * factors[items[row]]
        product /= product.sum() + 0.1
        order = np.argsort(-product)[:3]
        np.testing.assert_array_equal(best[row], items[row][order])
        np.testing.assert_allclose(leant[row], product[order], rtol=1e-4)
        asked = made.factors(items[row : row + 1], scores[row : row + 1], best[row : row + 1])
        np.testing.assert_allclose(asked[0] * scores[row][order], leant[row], rtol=1e-6)


def plain_loss(made, items, scores, clicked):
    """-mean log P' of what was clicked, as far as leaning moves it."""
    factors, loss = plain_factors(made), 0.0
    for row, item in enumerate(clicked):
        loss += np.log((scores[row] * factors[items[row]]).sum() + 0.1)
        loss -= np.log(factors[item]) if item in items[row] else 0.0
    return loss / len(clicked)


def test_a_step_goes_down_the_cross_entropy():
    made = leaning()
    items, scores = mixtures()
    clicked = np.array([items[0, 0], items[1, 4], 11, items[3, 2], items[4, 1], 11])
    weight = made._network[2].weight.detach()
    slopes = np.empty(HIDDEN)
    for unit in range(HIDDEN):
        ahead, behind = leaning(), leaning()
        for one, by in ((ahead, 1e-2), (behind, -1e-2)):
            with torch.no_grad():
                one._network[2].weight.copy_(weight)
                one._network[2].weight[0, unit] += by
        losses = [plain_loss(one, items, scores, clicked) for one in (ahead, behind)]
        slopes[unit] = (losses[0] - losses[1]) / 2e-2
    made.plan(made.lessons(items, scores, clicked))()
    moment = made._optimizer.state[made._network[2].weight]["exp_avg"].numpy()[0] / 0.1
    np.testing.assert_allclose(moment, slopes, rtol=0.02, atol=1e-4)


def test_it_learns_that_what_is_new_comes_back():
    made = Leaning(seed=1)
    made.begin(np.arange(50).repeat(20), n_items=60)
    generator = np.random.default_rng(2)
    for _ in range(200):
        items = np.column_stack([generator.integers(50, size=20), generator.integers(50, 60, 20)])
        made.plan(made.lessons(items, np.full((20, 2), [0.8, 0.2]), items[:, 1]))()
        made.count(items[:, 1])
    assert made.best(np.array([[3, 55]]), np.array([[0.8, 0.2]]), 1)[0].tolist() == [[55]]
    assert made.best(np.array([[3, 4]]), np.array([[0.8, 0.2]]), 1)[0].tolist() == [[3]]


def test_what_pads_a_row_stays_behind_and_is_not_learned_from():
    made = leaning()
    items, scores = np.array([[3, 7, -1]]), np.array([[0.6, 0.4, 0.0]])
    best, leant = made.best(items, scores, 3)
    assert best[0, 2] == -1
    assert leant[0, 2] == 0
    assert leant.sum() == pytest.approx(1)
    narrow = made.lessons(items[:, :2], scores[:, :2], np.array([7]))
    wide = made.lessons(items, scores, np.array([7]))
    assert LeaningLessons.together([wide, narrow]).scores.shape == (2, 2)
    one, other = made, leaning()
    other.restore(made.state())
    one.plan(narrow)()
    other.plan(wide)()
    np.testing.assert_allclose(one._exp(items), other._exp(items), rtol=1e-5)


def test_saved_and_restored_it_goes_on_as_before():
    made, best = leaning(), mixtures()
    made.plan(made.lessons(*best, np.full(6, 3)))()
    other = Leaning(seed=5)
    other.restore(made.state())
    for one in (made, other):
        one.count(np.array([1, 9]))
        one.plan(one.lessons(*best, np.full(6, 4)))()
    np.testing.assert_array_equal(made.best(*best, 5)[1], other.best(*best, 5)[1])
