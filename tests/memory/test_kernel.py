import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextclick.memory import Neighbours
from nextclick.memory.kernel import learned_weights, nearest_weights, votes, voting_sessions


def summed(items, shares):
    sums = {}
    for item, share in zip(items, shares, strict=True):
        sums[item] = sums.get(item, 0.0) + share
    total = sum(sums.values())
    return {item: value / total for item, value in sums.items()}


def prediction_by_loops(distances, items):
    """The paper's formula, literally, for one query: squared distances, and items, -1 for none."""
    found = [(d, item) for d, item in zip(distances, items, strict=True) if item >= 0]
    nearest = min((d for d, _ in found), default=0)
    shares = []
    for d, _ in found:
        if nearest == 0:
            shares.append(1.0 if d == 0 else 0.0)
        else:
            shares.append(math.exp(-d / (2 * nearest)))
    return summed([item for _, item in found], shares)


def learned_by_loops(found, row, session, bandwidth, recency, loyalty):
    items, shares = [], []
    for k, item in enumerate(found.items[row].tolist()):
        if item >= 0:
            own = found.sessions[row, k] == session and session >= 0
            age = float(found.ages[row, k])
            share = (1 + age) ** -recency * math.exp(loyalty * own)
            shares.append(share * math.exp(-bandwidth * float(found.distances[row, k])))
            items.append(item)
    return summed(items, shares)


@st.composite
def neighbours(draw):
    k = draw(st.integers(1, 12))
    rows = draw(st.integers(1, 4))
    distances = np.full((rows, k), np.inf, dtype=np.float32)
    items = np.full((rows, k), -1)
    sessions = np.full((rows, k), -1)
    ages = np.full((rows, k), -1)
    for row in range(rows):
        found = draw(st.integers(0, k))
        # Ratios of distances stay within what exp can tell from zero.
        values = st.one_of(st.just(0.0), st.floats(0.125, 40, width=32))
        distances[row, :found] = sorted(draw(values) for _ in range(found))
        items[row, :found] = [draw(st.integers(0, 4)) for _ in range(found)]
        sessions[row, :found] = [draw(st.integers(-1, 3)) for _ in range(found)]
        ages[row, :found] = [draw(st.integers(0, 10**6)) for _ in range(found)]
    return Neighbours(distances, items, sessions, ages)


def as_dicts(answer):
    return [
        {int(item): p for item, p in zip(items, shares, strict=True) if item >= 0}
        for items, shares in zip(answer.items, answer.probabilities, strict=True)
    ]


@given(neighbours())
def test_the_papers_kernel_is_the_double_loop(found):
    answer = as_dicts(votes(found, nearest_weights(found)))
    for row, actual in enumerate(answer):
        expected = prediction_by_loops(found.distances[row].tolist(), found.items[row].tolist())
        assert actual == pytest.approx(expected, abs=1e-12)


FOUR = {"min_size": 4, "max_size": 4}


@given(
    neighbours(),
    st.lists(st.floats(0, 5), **FOUR),
    st.lists(st.floats(0, 2), **FOUR),
    st.lists(st.floats(-3, 3), **FOUR),
    st.lists(st.integers(-1, 3), **FOUR),
)
def test_the_learned_kernel_is_the_double_loop(found, bandwidths, recency, loyalty, sessions):
    columns = [
        np.array(values[: len(found)]) for values in (bandwidths, recency, loyalty, sessions)
    ]
    answer = as_dicts(votes(found, learned_weights(found, *columns)))
    for row, actual in enumerate(answer):
        beta, delta, gamma, session = (column[row] for column in columns)
        expected = learned_by_loops(found, row, session, beta, delta, gamma)
        assert actual == pytest.approx(expected, abs=1e-12)


@given(neighbours())
def test_sessions_are_counted_once_for_each_item(found):
    items = votes(found, nearest_weights(found)).items
    counts = voting_sessions(found, items)
    for row in range(len(found)):
        pairs = zip(found.items[row].tolist(), found.sessions[row].tolist(), strict=True)
        different = {pair for pair in pairs if pair[0] >= 0}
        for item, count in zip(items[row].tolist(), counts[row].tolist(), strict=True):
            assert count == sum(named == item for named, _ in different)


def one_row(distances, items):
    row = np.array([items])
    return Neighbours(np.array([distances], dtype=np.float32), row, row, row)


def test_the_nearest_item_comes_first():
    found = one_row([1, 2, 3, 4], [7, 5, 5, 5])
    assert votes(found, nearest_weights(found)).items.tolist() == [[7, 5, -1, -1]]


def test_the_limit_of_the_kernel_is_continuous():
    at_zero = one_row([0, 1], [3, 4])
    near_zero = one_row([1e-30, 1], [3, 4])
    assert nearest_weights(at_zero).tolist() == nearest_weights(near_zero).tolist() == [[1, 0]]


def test_a_steep_kernel_does_not_underflow():
    found = one_row([1000, 1000.5], [3, 4])
    shares = learned_weights(found, *np.array([[1e4], [0], [0]]), np.array([-1]))
    assert shares.tolist() == [[1, 0]]


def test_no_neighbours_make_no_prediction():
    nobody = Neighbours.none(2, 3)
    answer = votes(nobody, nearest_weights(nobody))
    assert answer.items.tolist() == [[-1] * 3] * 2
    assert answer.probabilities.tolist() == [[0] * 3] * 2
