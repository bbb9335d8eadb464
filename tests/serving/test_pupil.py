"""A pupil that plans its steps in a second thread learns what one learns that does not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from nextclick.recommender import PARTS, Recommender
from nextclick.serving.log import CLICK, Record
from nextclick.serving.pupil import Pending, Pupil
from nextclick.sessions import OpenSession

SIZES = (100, 30, 70, 1, 99, 100, 50)
"""Of groups: some fill a batch alone, some do so together, the last leaves one open."""


def groups(newcomers: Sequence[int]) -> list[list[Pending]]:
    """Return groups of clicks; the groups of these numbers click on an item nobody knows."""
    random = np.random.default_rng(2)
    number, made = 0, []
    for place, size in enumerate(SIZES):
        group = []
        for _ in range(size):
            number += 1
            items = tuple(
                f"item {item}" for item in random.integers(40, size=random.integers(1, 5))
            )
            session = OpenSession(number // 3, items, float(number), float(number))
            click = Record(number, CLICK, float(number), str(number), f"item {number % 40}", None)
            group.append(Pending(session, click))
        if place in newcomers:
            group[0] = Pending(group[0].session, group[0].click._replace(item=f"new {place}"))
        made.append(group)
    return made


@pytest.mark.parametrize("method", ["man", "man-mix", "narm", "popularity"])
@pytest.mark.parametrize("parts", [PARTS, ("memory", "gate")])
def test_a_hurried_pupil_learns_the_same(
    tiny: Callable[[str], Recommender], method: str, parts: Sequence[str]
) -> None:
    states = []
    for hurried in (False, True):
        pupil = Pupil(tiny(method), threading.Lock())
        for group in groups(newcomers=(2, 5)):
            for pending in group:
                pupil.meet(str(pending.click.item))
            pupil.take(group, parts, hurried=hurried)
        assert pupil.steps == 4
        states.append(pupil.state())
    plain, hurried_state = states
    assert plain.outline == hurried_state.outline
    assert plain.model.state.keys() == hurried_state.model.state.keys()
    for name, array in plain.model.state.items():
        np.testing.assert_array_equal(array, hurried_state.model.state[name], err_msg=name)


def test_only_a_batch_of_known_items_is_planned_ahead(tiny: Callable[[str], Recommender]) -> None:
    asked: list[bool] = []
    model = tiny("man")
    plan = type(model).plan

    def noting(*given: object, **named: object) -> object:
        asked.append(named["ahead"] is not None)
        return plan(model, *given, **named)  # type: ignore[arg-type] # whatever it is asked with

    model.plan = noting  # type: ignore[method-assign,assignment] # the same, and noted
    pupil = Pupil(model, threading.Lock())
    for group in groups(newcomers=(2, 5)):
        for pending in group:
            pupil.meet(str(pending.click.item))
        pupil.take(group, PARTS, hurried=True)
    # In the beginning some of the forty are not known either.
    assert asked == [False, False, True, False]
