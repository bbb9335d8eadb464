"""Rough centres first, then exactly, against measuring all of them."""

import numpy as np
import pytest

from nextclick.memory.nearest_centres import nearest_centres, prepared


def asked(query, centres, n):
    near = np.empty(n, dtype=np.int64)
    nearest_centres(query, prepared(centres, (centres**2).sum(1)), near)
    return near.tolist()


@pytest.mark.parametrize("dimension", [1, 3, 8, 21, 128])
@pytest.mark.parametrize("spread", [0.001, 1, 1000])
def test_they_are_the_nearest_in_order(dimension, spread):
    random = np.random.default_rng(dimension)
    centres = (spread * random.standard_normal((300, dimension))).astype(np.float32)
    # Some so near to each other that rough ones cannot tell them apart.
    centres[200:] = centres[:100] * np.float32(1.0001)
    for _ in range(20):
        query = (spread * random.standard_normal(dimension)).astype(np.float32)
        gaps = ((centres.astype(np.float64) - query) ** 2).sum(1)
        found = asked(query, centres, 5)
        assert len(set(found)) == 5
        # Two as near, up to rounding, may be told apart differently.
        np.testing.assert_allclose(
            gaps[found], np.sort(gaps)[:5], rtol=1e-4, atol=1e-5 * spread**2 * dimension
        )


def test_of_centres_alike_the_first_come_first():
    centres = np.tile(np.float32([[1, 2], [5, 5]]), (4, 1))
    assert asked(np.float32([1, 2]), centres, 4) == [0, 2, 4, 6]


def test_all_of_them_if_so_many_are_wanted():
    centres = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)
    assert sorted(asked(centres[3], centres, 9)) == list(range(9))


def test_centres_and_queries_of_nothing():
    centres = np.zeros((3, 4), dtype=np.float32)
    centres[2] = 1
    assert asked(np.zeros(4, dtype=np.float32), centres, 3) == [0, 1, 2]
