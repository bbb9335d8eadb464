"""The best items and the log-sum-exp, block by block, against all scores sorted and added up."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nextclick.encoders import sifting
from nextclick.encoders.exponential import exponential
from nextclick.encoders.sifting import scores_at, sift


def sorted_best(scores, k):
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(scores, order, axis=1)


@given(
    st.integers(0, 10_000),
    st.integers(1, 300),
    st.integers(1, 12),
    st.integers(1, 9),
    st.booleans(),
)
def test_the_best_are_those_of_sorting_everything(seed, n, k, queries, whole):
    generator = np.random.default_rng(seed)
    k = min(k, n)
    numbers = generator.integers(-3, 4, size=(n, 2)).astype(np.float32)  # many ties, and -0
    asked = generator.integers(-2, 3, size=(queries, 2)).astype(np.float32)
    scales = generator.choice([0.5, 1, 2], size=n).astype(np.float32)
    kept, sifting.SCORES_AT_ONCE = sifting.SCORES_AT_ONCE, 200_000 if whole else 70 * queries
    try:
        found = sift(torch.from_numpy(asked), torch.from_numpy(numbers), scales, k)
    finally:
        sifting.SCORES_AT_ONCE = kept
    scores = (asked @ numbers.T) * scales
    items, best = sorted_best(scores, k)
    np.testing.assert_array_equal(found.items, items)
    np.testing.assert_array_equal(found.scores, best)
    expected = torch.from_numpy(scores).double().logsumexp(1).numpy()
    np.testing.assert_allclose(found.log_sums, expected, rtol=2e-6, atol=2e-6)
    every = np.tile(np.arange(-1, n + 1), (queries, 1))
    given_scores = scores_at(asked, numbers, scales, every)
    np.testing.assert_array_equal(given_scores[:, 1:-1], scores)
    assert np.isneginf(given_scores[:, [0, -1]]).all()


@pytest.mark.parametrize("queries", [1, 6, 7, 30, 100])
@pytest.mark.parametrize("rising", [False, True])
def test_many_items(queries, rising):
    generator = torch.Generator().manual_seed(5)
    rows = torch.randn(9000, 12, generator=generator)
    if rising:  # all the best come last
        rows = rows[(rows @ torch.ones(12)).argsort()]
    scales = np.linspace(0.1, 1, 9000, dtype=np.float32)
    asked = torch.randn(queries, 12, generator=generator) + 20 * rising  # scores of some hundreds
    found = sift(asked, rows, scales, 100)
    scores = (asked.double() @ rows.double().T).numpy() * scales
    expected = sorted_best(scores, 100)
    np.testing.assert_allclose(found.scores, expected[1], rtol=1e-5, atol=1e-5)
    assert (found.items == expected[0]).mean() > 0.99  # but for rounding
    np.testing.assert_allclose(
        found.log_sums, torch.from_numpy(scores).logsumexp(1).numpy(), rtol=1e-6, atol=1e-6
    )


def test_fewer_items_than_wanted():
    found = sift(torch.ones(1, 1), torch.tensor([[1.0], [2.0]]), np.ones(2, dtype=np.float32), 3)
    assert found.items.tolist() == [[1, 0, -1]]
    assert found.scores.tolist() == [[2, 1, -np.inf]]


def test_the_exponential():
    x = np.concatenate([-np.geomspace(1e-6, 87, 500), [0.0]]).astype(np.float32)
    fast = np.array([exponential(one) for one in x])
    np.testing.assert_allclose(fast, np.exp(x.astype(np.float64)), rtol=5e-7 * 87)
    near = x > -1
    np.testing.assert_allclose(fast[near], np.exp(x[near].astype(np.float64)), rtol=3e-7)
    assert exponential(np.float32(-1000)) < 1e-37
