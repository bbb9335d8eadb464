"""The best k in one pass against sorting everything."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nextclick.encoders.top_k import top_k


@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 12))
def test_equals_sorting_everything(seed, n, k):
    k = min(k, n)
    generator = np.random.default_rng(seed)
    scores = generator.integers(-5, 6, size=(3, n)).astype(np.float32)  # many ties
    items, best = top_k(scores, k)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(items, expected)
    np.testing.assert_array_equal(best, np.take_along_axis(scores, expected, axis=1))
