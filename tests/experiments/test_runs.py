"""Evaluating a model on prepared data, its own or other."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from nextclick.datasets.prepared import PreparedData
from nextclick.errors import BadInputError
from nextclick.experiments.runs import evaluate_on, parts_named, record
from nextclick.recommender import Recommender

Tiny = Callable[[str], Recommender]


def moved(data: PreparedData, by: int) -> PreparedData:
    """The same data, its sessions numbered otherwise."""
    return replace(data, test=replace(data.test, sessions=data.test.sessions + by))


def test_sessions_of_other_data_are_not_those_of_the_training(
    tiny: Tiny, tiny_data: PreparedData
) -> None:
    """The number of a session says nothing: in other data another session has it."""
    expected = evaluate_on(tiny_data, tiny("s-sknn"), batch=1).ranks
    for by in (-240, -200, 5_000):
        ranks = evaluate_on(moved(tiny_data, by), tiny("s-sknn"), batch=1).ranks
        np.testing.assert_array_equal(ranks, expected)


def test_items_are_matched_by_their_ids(tiny: Tiny, tiny_data: PreparedData) -> None:
    expected = evaluate_on(tiny_data, tiny("man"))
    items = list(tiny_data.catalog)
    # The same clicks, numbered by a catalog in another order.
    turned = PreparedData(
        *(replace(log, items=len(items) - 1 - log.items) for log in tiny_data.parts.values()),
        catalog=type(tiny_data.catalog)(item.id for item in reversed(items)),
        description=tiny_data.description,
    )
    result = evaluate_on(turned, tiny("man"))
    np.testing.assert_array_equal(result.ranks, expected.ranks)
    np.testing.assert_array_equal(result.new, expected.new)


def test_parts_are_named_as_users_do(tiny: Tiny) -> None:
    man = tiny("man")
    assert parts_named("all", man) == ("neural", "gate", "memory")
    assert parts_named("memory, neural", man) == ("neural", "memory")
    assert parts_named("none", man) == ()
    with pytest.raises(BadInputError, match="MAN-NARM has no ''; there are: all, none, neural"):
        parts_named("neural,", man)


def test_the_record_has_no_numbers_that_json_lacks(tiny: Tiny, tiny_data: PreparedData) -> None:
    import json

    popularity = tiny("popularity")
    evaluation = evaluate_on(tiny_data, popularity, limit=1)
    result = record(evaluation, popularity, tiny_data, parts=(), limit=1)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["gate_weight"] is None
