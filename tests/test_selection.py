"""Selecting the smallest against sorting all."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nextclick.selection import keep_smallest


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=60), st.data())
def test_the_smallest_come_to_the_front_the_largest_of_them_last(given_values, data):
    k = data.draw(st.integers(1, len(given_values)))
    values, beside = np.array(given_values), np.arange(len(given_values))
    keep_smallest(values, beside, len(values), k)
    assert sorted(values[:k]) == sorted(given_values)[:k]
    assert values[k - 1] == values[:k].max()
    assert sorted(beside) == list(range(len(values)))
    assert [given_values[place] for place in beside] == values.tolist()


def test_what_is_behind_the_first_n_stays():
    values = np.array([3, 1, 2, 0])
    keep_smallest(values, None, 3, 2)
    assert values[3] == 0
    assert sorted(values[:2]) == [1, 2]
