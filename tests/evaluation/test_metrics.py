"""Ranks and what is averaged from them, against the definitions written out."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextclick.evaluation.metrics import metrics_at, ranks_of


def slow_metrics(lists, targets, k):
    hit = reciprocal = 0.0
    for recommended, target in zip(lists, targets, strict=True):
        if target in recommended[:k]:
            hit += 1
            reciprocal += 1 / (recommended.index(target) + 1)
    return hit / len(targets), reciprocal / len(targets)


@given(st.lists(st.tuples(st.permutations(range(25)), st.integers(0, 40)), min_size=1, max_size=20))
def test_metrics_are_those_of_the_definitions(rows):
    lists = [list(recommended) for recommended, _ in rows]
    targets = [target for _, target in rows]
    got = metrics_at(ranks_of(np.array(targets), np.array(lists)), (5, 20))
    for k in (5, 20):
        hit, reciprocal = slow_metrics(lists, targets, k)
        assert got[f"HR@{k}"] == pytest.approx(hit)
        assert got[f"MRR@{k}"] == pytest.approx(reciprocal)


def test_padding_is_never_a_hit():
    assert ranks_of(np.array([0, 3]), np.array([[-1, -1], [-1, -1]])).tolist() == [0, 0]


def test_nothing_to_average_is_not_a_number():
    assert math.isnan(metrics_at(np.empty(0, np.int64))["HR@5"])
