"""Prequential evaluation against a version that does one obvious thing at a time."""

import json
import math
from collections import Counter

import numpy as np
import pytest

from nextclick.baselines.popularity import Popularity
from nextclick.clicks import ClickLog
from nextclick.errors import BadInputError
from nextclick.evaluation.prequential import evaluate
from nextclick.runtime import Runtime


def random_log(n_clicks, n_items, seed, first_session=0):
    """Sessions of a few clicks, the first on item 0, so that no context is without a known item."""
    random = np.random.default_rng(seed)
    sessions = first_session + np.sort(random.integers(0, n_clicks // 4, n_clicks))
    items = random.zipf(1.3, n_clicks) % n_items
    items[np.unique(sessions, return_index=True)[1]] = 0
    return ClickLog(sessions, items, np.arange(n_clicks, dtype=float))


TRAINING = random_log(400, 30, seed=1)
TEST = random_log(950, 60, seed=2, first_session=1000)
TRANSITIONS = TEST.transitions()


def slow_ranks(batch, *, k=20, learns=True):
    """Rank by counts held in a dictionary, one transition at a time."""
    counts, n_items, ranks = Counter(TRAINING.items.tolist()), TRAINING.n_items, []
    rows = [(context.tolist(), int(item)) for context, item in TRANSITIONS]
    for start in range(0, len(rows), batch):
        for _, item in rows[start : start + batch]:
            best = sorted(range(n_items), key=lambda other: (-counts[other], other))[:k]
            ranks.append(best.index(item) + 1 if item in best else 0)
        for context, item in rows[start : start + batch] if learns else ():
            counts[item] += 1
            n_items = max(n_items, item + 1, max(context) + 1)
    return ranks


def evaluate_anew(**arguments):
    return evaluate(Popularity().fit(TRAINING), TRANSITIONS, **arguments)


@pytest.fixture
def model():
    return Popularity().fit(TRAINING)


@pytest.mark.parametrize("batch", [1, 7, 100, 10_000])
def test_every_transition_is_tested_before_it_is_learned(model, batch):
    result = evaluate(model, TRANSITIONS, batch=batch)
    steps = math.ceil(len(TRANSITIONS) / batch)
    assert result.ranks.tolist() == slow_ranks(batch)
    assert len(result.recommend_seconds) == len(result.learn_seconds) == steps
    assert result.seconds_per_recommendation > 0
    assert result.seconds_per_learning_step > 0


@pytest.mark.parametrize("write", [1, 10])
def test_what_is_remembered_at_once_is_as_if_batches_were_as_small(write):
    """Popularity takes no gradient step, so that nothing waits for the end of a batch."""
    at_once = evaluate(Popularity().fit(TRAINING), TRANSITIONS, batch=100, write=write)
    assert at_once.ranks.tolist() == slow_ranks(write)
    assert len(at_once.recommend_seconds) == math.ceil(len(TRANSITIONS) / 100)


@pytest.mark.parametrize("write", [0, 101])
def test_no_more_than_a_batch_is_remembered_at_a_time(model, write):
    with pytest.raises(BadInputError, match="write is"):
        evaluate(model, TRANSITIONS, batch=100, write=write)


@pytest.mark.parametrize("parts", [(), {"neural"}])
def test_a_model_that_learns_nothing_stays_as_it_is(model, parts):
    before = {name: array.copy() for name, array in model.state().items()}
    result = evaluate(model, TRANSITIONS, parts=parts)
    assert result.ranks.tolist() == slow_ranks(100, learns=False)
    for name, array in model.state().items():
        np.testing.assert_array_equal(array, before[name])


def test_without_parts_no_learning_step_is_counted(model):
    result = evaluate(model, TRANSITIONS, parts=())
    assert len(result.learn_seconds) == 0
    assert math.isnan(result.seconds_per_learning_step)
    assert result.to_json()["seconds"]["per_learning_step"] is None


def test_a_limit_tests_the_first_ones_only(model):
    whole = evaluate(model.clone(), TRANSITIONS)
    first = evaluate(model, TRANSITIONS, limit=130)
    assert first.ranks.tolist() == whole.ranks[:130].tolist()
    assert first._batch_sizes.tolist() == [100, 30]


def test_what_was_first_is_what_a_limit_gives(model):
    whole, limited = evaluate(model, TRANSITIONS).first(130), evaluate_anew(limit=130)
    assert whole.ranks.tolist() == limited.ranks.tolist()
    assert whole.metrics() == limited.metrics()
    assert whole.seconds_per_recommendation > 0
    assert len(whole.recommend_seconds) == len(limited.recommend_seconds) == 2
    assert len(whole.learn_seconds) == 2


def test_what_comes_after_a_batch_sees_all_ranks_so_far(model):
    seen = []
    whole = evaluate(model, TRANSITIONS, batch=100, after=seen.append)
    assert [len(ranks) for ranks in seen[:2]] == [100, 200]
    assert seen[-1].tolist() == whole.ranks.tolist()


def test_each_part_is_ranked_alone_and_nothing_else_changes(tiny, tiny_data):
    transitions = tiny_data.test.transitions()
    plain = evaluate(tiny("man"), transitions)
    parted = evaluate(tiny("man"), transitions, by_part=True)
    assert plain.ranks.tolist() == parted.ranks.tolist()
    assert plain.by_part == {}
    assert set(parted.by_part) == {"neural", "memory"}
    assert set(parted.first(5).by_part["neural"].shape) == {5}
    # Without learning, the neural part alone is the network that it is.
    still = evaluate(tiny("man"), transitions, parts=(), by_part=True)
    network = tiny("man")._neural
    alone = evaluate(network, transitions, parts=())
    warm = ~still.cold
    assert still.by_part["neural"][warm].tolist() == alone.ranks[warm].tolist()


def test_lists_have_the_length_asked_for(model):
    result = evaluate(model, TRANSITIONS, k=7)
    assert result.ranks.tolist() == slow_ranks(100, k=7)
    assert list(result.metrics()) == ["HR@5", "MRR@5", "HR@7", "MRR@7"]


def test_new_items_are_those_not_in_training_even_if_learned_since(model):
    result = evaluate(model, TRANSITIONS, training=TRAINING)
    in_training = set(TRAINING.items.tolist())
    assert result.new.tolist() == [item not in in_training for item in result.items.tolist()]
    new_hits = [rank > 0 for rank, new in zip(result.ranks, result.new, strict=True) if new]
    assert any(new_hits)
    assert result.metrics(result.new)["HR@20"] == pytest.approx(np.mean(new_hits))


def test_cold_contexts_are_marked():
    model = Popularity().fit(ClickLog.of([(0, 0, 0.0), (0, 1, 1.0)]))
    test = ClickLog.of([(1, 5, 2.0), (1, 0, 3.0), (1, 1, 4.0)])
    result = evaluate(model, test.transitions())
    assert result.cold.tolist() == [True, False]
    assert result.to_json()["cold"] == 1


def test_buckets_add_up_to_all_tests(model):
    result = evaluate(model, TRANSITIONS, training=TRAINING)
    buckets = result.buckets()
    assert sum(bucket.tests for bucket in buckets) == len(result)
    bounds = [bound for bucket in buckets for bound in (bucket.lowest, bucket.highest)]
    assert bounds == sorted(bounds)
    total = sum(bucket.tests * bucket.metrics["HR@20"] for bucket in buckets)
    assert total == pytest.approx(result.metrics()["HR@20"] * len(result))


def test_the_curve_is_made_of_averages_up_to_each_point(model):
    result = evaluate(model, TRANSITIONS)
    curve = result.curve(cutoff=5, window=50, points=9)
    assert len(curve.tests) == 9
    assert curve.tests[-1] == len(result)
    assert curve.hit_rate[-1] == pytest.approx(result.metrics()["HR@5"])
    assert curve.reciprocal_rank[-1] == pytest.approx(result.metrics()["MRR@5"])
    for point, tests in enumerate(curve.tests.tolist()):
        recent = result.ranks[max(0, tests - 50) : tests].astype(float)
        inside = (recent > 0) & (recent <= 5)
        assert curve.recent_hit_rate[point] == pytest.approx(inside.mean())
        assert curve.recent_reciprocal_rank[point] == pytest.approx(
            np.sum(1 / recent[inside]) / len(recent)
        )


def test_the_gates_weights_are_averaged_where_there_is_a_gate(model):
    result = evaluate(model, TRANSITIONS, training=TRAINING)
    assert math.isnan(result.mean_weight())
    result.weights[:] = np.where(result.new, 0.25, 0.75)
    result.weights[::3] = np.nan
    assert result.mean_weight(result.new) == 0.25
    assert result.mean_weight(~result.new) == 0.75
    assert 0.25 < result.mean_weight() < 0.75


def test_results_are_json(model):
    result = evaluate(model, TRANSITIONS, training=TRAINING)
    report = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert report["tests"] == len(TRANSITIONS)
    assert report["metrics"] == result.metrics()
    assert report["new"]["metrics"] == result.metrics(result.new)
    assert report["new"]["gate_weight"] is None
    assert report["buckets"][0]["lowest"] == 0
    assert report["curve"]["tests"][-1] == len(TRANSITIONS)


def test_no_transitions_are_no_tests(model):
    result = evaluate(model, TRANSITIONS[:0], training=TRAINING)
    assert len(result) == 0
    report = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert report["metrics"]["HR@20"] is None
    assert report["curve"]["tests"] == []


def test_new_items_need_the_training_part(model):
    result = evaluate(model, TRANSITIONS)
    assert "new" not in result.to_json()
    with pytest.raises(BadInputError, match="training"):
        _ = result.new


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"parts": {"memry"}}, "no part is called 'memry'; what can learn is neural, gate, memory"),
        ({"batch": 0}, "batch is 0"),
        ({"limit": 0}, "limit is 0"),
        ({"k": 0}, "k is 0"),
    ],
)
def test_what_cannot_be_done_is_refused(model, arguments, message):
    with pytest.raises(BadInputError, match=message):
        evaluate(model, TRANSITIONS, **arguments)


def test_progress_shows_the_hit_rate_so_far(model, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    result = evaluate(model, TRANSITIONS, runtime=Runtime(show_progress=True))
    shown = capsys.readouterr().err
    assert "Evaluating Popularity" in shown
    assert f"HR@20 {result.metrics()['HR@20']:.3f}" in shown
