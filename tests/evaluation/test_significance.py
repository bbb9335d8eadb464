"""The paired bootstrap, beside one that is written out."""

import numpy as np
import pytest

from nextclick.errors import BadInputError
from nextclick.evaluation.metrics import metrics_at
from nextclick.evaluation.prequential import Evaluation
from nextclick.evaluation.significance import paired_bootstrap


def evaluation(ranks: list[int] | np.ndarray, sessions: list[int] | np.ndarray) -> Evaluation:
    n = len(ranks)
    return Evaluation(
        ranks=np.asarray(ranks, dtype=np.int16),
        items=np.arange(n),
        sessions=np.asarray(sessions),
        weights=np.full(n, np.nan, dtype=np.float32),
        cold=np.zeros(n, dtype=np.bool_),
        frequencies=None,
        k=20,
        batch=100,
        recommend_seconds=np.zeros(1),
        learn_seconds=np.zeros(1),
    )


def two(n: int, gain: float, seed: int = 0) -> tuple[Evaluation, Evaluation]:
    """Two methods, the first of which hits the more often by `gain`."""
    random = np.random.default_rng(seed)
    sessions = random.integers(0, n // 4, size=n) * 7 + 3
    ranks = random.integers(0, 40, size=n)
    other = np.where(ranks > 20, 0, ranks)
    better = np.where((other == 0) & (random.random(n) < gain), 1, other)
    return evaluation(better, sessions), evaluation(other, sessions)


def test_it_is_what_drawing_sessions_one_by_one_gives() -> None:
    one, other = two(60, 0.1)
    found = paired_bootstrap(one, other, resamples=50, seed=4)

    generator = np.random.default_rng(4)
    numbers = sorted(set(one.sessions.tolist()))
    tests_of = {s: [i for i, own in enumerate(one.sessions) if own == s] for s in numbers}
    drawn: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(50):
        draw = generator.integers(len(numbers), size=len(numbers))
        tests = np.array([test for number in draw for test in tests_of[numbers[number]]])
        mine, theirs = (metrics_at(e.ranks[tests].astype(np.int64)) for e in (one, other))
        for name, values in drawn.items():
            values.append(mine[name] - theirs[name])

    for name, difference in found.items():
        assert difference.value == pytest.approx(one.metrics()[name] - other.metrics()[name])
        assert difference.low == pytest.approx(np.quantile(drawn[name], 0.025))
        assert difference.high == pytest.approx(np.quantile(drawn[name], 0.975))
        below = sum(value <= 1e-15 for value in drawn[name]) + 1
        above = sum(value >= -1e-15 for value in drawn[name]) + 1
        assert difference.p == pytest.approx(min(1, 2 * min(below, above) / 51))


def test_a_gain_is_found_and_chance_is_not() -> None:
    assert all(d.p < 0.01 and d.low > 0 for d in paired_bootstrap(*two(4000, 0.05)).values())
    swapped = paired_bootstrap(*two(4000, 0.05)[::-1])
    assert all(d.p < 0.01 and d.high < 0 for d in swapped.values())
    assert all(d.p == 1 for d in paired_bootstrap(*two(400, 0.0)).values())


def test_p_is_seldom_small_where_there_is_nothing() -> None:
    """Two methods of the same quality: one in twenty pairs is below 0.05."""
    random = np.random.default_rng(2)
    ps = []
    for seed in range(200):
        sessions = np.repeat(np.arange(100), 3)
        ranks = random.integers(0, 3, size=(2, 300))
        pair = [evaluation(own, sessions) for own in ranks]
        ps.append(paired_bootstrap(*pair, resamples=200, seed=seed)["HR@5"].p)
    assert 0.01 <= np.mean(np.array(ps) < 0.05) <= 0.11


def test_sessions_are_what_is_drawn() -> None:
    """A session of a thousand equal tests is one piece of evidence, not a thousand."""
    ranks = np.concatenate([np.ones(1000, dtype=np.int64), [0, 0, 0]])
    sessions = np.concatenate([np.zeros(1000, dtype=np.int64), [1, 2, 3]])
    one, other = evaluation(ranks, sessions), evaluation(np.zeros(1003, np.int64), sessions)
    assert paired_bootstrap(one, other)["HR@20"].p > 0.1


def test_some_of_the_tests_can_be_compared() -> None:
    one, other = two(200, 0.3)
    where = np.arange(200) % 2 == 0
    value = paired_bootstrap(one, other, where=where, resamples=10)["HR@5"].value
    assert value == pytest.approx(one.metrics(where)["HR@5"] - other.metrics(where)["HR@5"])
    with pytest.raises(BadInputError, match="there are no tests"):
        paired_bootstrap(one, other, where=np.zeros(200, dtype=np.bool_))


def test_other_tests_are_refused() -> None:
    one, other = two(200, 0.1)
    with pytest.raises(BadInputError, match="only on the same tests"):
        paired_bootstrap(one, evaluation(other.ranks[:100], other.sessions[:100]))
    with pytest.raises(BadInputError, match="only on the same tests"):
        paired_bootstrap(one, evaluation(other.ranks, other.sessions + 1))
