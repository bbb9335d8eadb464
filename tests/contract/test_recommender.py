"""What callers may count on, whichever method they use."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextclick import persistence
from nextclick.baselines.predictor import Predictor
from nextclick.clicks import ClickLog, Contexts, Transitions
from nextclick.datasets.prepared import PreparedData
from nextclick.errors import BadInputError
from nextclick.methods import METHODS, create
from nextclick.recommender import PARTS, Recommendations, Recommender, State
from nextclick.runtime import Runtime

Make = Callable[..., Recommender]


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def model(method: str, tiny: Make) -> Recommender:
    return tiny(method)


@pytest.fixture(scope="module")
def stream(tiny_data: PreparedData) -> list[Transitions]:
    """The test part, in batches; a new item is in it now and then."""
    log = tiny_data.test
    rows = np.arange(len(log))
    items = np.where(rows % 17 == 0, 40 + rows // 50, log.items)
    return list(ClickLog(log.sessions, items, log.times).transitions().batches(30))


@pytest.fixture(scope="module")
def contexts() -> Contexts:
    random = np.random.default_rng(2)
    return Contexts.of([random.integers(40, size=length) for length in (1, 1, 2, 3, 5, 20, 30)])


def snapshot(model: Recommender) -> State:
    return {name: np.array(array) for name, array in model.state().items()}


def assert_same_state(one: State, other: State) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name, strict=True)


def assert_same(one: Recommendations, other: Recommendations) -> None:
    np.testing.assert_array_equal(one.items, other.items)
    np.testing.assert_array_equal(one.scores, other.scores)
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(one.cold, other.cold)


def assert_sound(answer: Recommendations, n_items: int, k: int) -> None:
    assert answer.items.shape == answer.scores.shape == (len(answer), k)
    for items, scores in zip(answer.items, answer.scores, strict=True):
        said = items >= 0
        assert not said[np.argmin(said) :].any() or said.all(), "padding is behind"
        assert len(set(items[said])) == said.sum(), "no item twice"
        assert (items < n_items).all()
        assert (np.diff(scores[said]) <= 0).all(), "best first"
        assert (scores[~said] == 0).all()
        assert np.isfinite(scores).all()
    given = answer.weights[~np.isnan(answer.weights)]
    assert ((given >= 0) & (given <= 1)).all()


def test_to_recommend_changes_nothing(model: Recommender, contexts: Contexts) -> None:
    before = snapshot(model)
    first = model.recommend(contexts, 10)
    model.explain(contexts, first)
    model.recommend_one(["item 1", "unknown"], 5)
    assert_same(model.recommend(contexts, 10), first)
    assert_same_state(snapshot(model), before)


def test_to_test_is_to_recommend_and_changes_nothing(
    model: Recommender, stream: list[Transitions]
) -> None:
    before = snapshot(model)
    tested = model.test(stream[0], 10, by_part=True)
    assert_same_state(snapshot(model), before)
    assert_same(tested.recommendations, model.recommend(stream[0].contexts, 10))
    assert set(tested.by_part) <= model.parts
    for items in tested.by_part.values():
        assert items.shape == (len(stream[0]), 10)


def test_to_learn_is_to_test_to_remember_and_to_step(
    model: Recommender, stream: list[Transitions]
) -> None:
    apart = model.clone()
    for batch in stream:
        model.learn(batch)
        tested = apart.test(batch)
        apart.remember(batch, tested)
        apart.step(batch, [tested])
    assert_same_state(snapshot(apart), snapshot(model))


def test_a_batch_is_remembered_in_pieces_and_stepped_once(
    model: Recommender, stream: list[Transitions]
) -> None:
    n_items, tested = model.n_items, []
    for piece in stream[0].batches(3):
        tested.append(model.test(piece))
        model.remember(piece, tested[-1])
    model.step(stream[0], tested)
    assert model.n_items == max(n_items, stream[0].n_items)
    assert_sound(model.recommend(stream[1].contexts, 10), model.n_items, 10)


def test_to_plan_a_step_changes_nothing(
    model: Recommender, stream: list[Transitions], contexts: Contexts
) -> None:
    tested = model.test(stream[0])
    model.remember(stream[0], tested)
    before, answer = snapshot(model), model.recommend(contexts, 10)
    take_step = model.plan(stream[0], [tested])
    assert_same_state(snapshot(model), before)
    assert_same(model.recommend(contexts, 10), answer)
    apart = model.clone()
    apart.step(stream[0], [tested])
    take_step()
    assert_same_state(snapshot(model), snapshot(apart))
    assert_same(model.recommend(contexts, 10), apart.recommend(contexts, 10))


def test_what_becomes_known_around_a_step_makes_no_difference_to_it(
    model: Recommender, stream: list[Transitions]
) -> None:
    tested = model.test(stream[0])
    model.remember(stream[0], tested)
    # Enough new items that the catalog needs new room.
    far = model.n_items + 500
    later = Transitions(Contexts.of([[1, 2], [far - 9]]), np.array([far, far - 5]), np.zeros(2))
    tested_later = model.test(later)
    before, while_planned, after = (model.clone() for _ in range(3))

    before.remember(later, tested_later)
    before.step(stream[0], [tested])

    take_step = while_planned.plan(stream[0], [tested])
    while_planned.remember(later, tested_later)
    take_step()

    after.step(stream[0], [tested])
    after.remember(later, tested_later)

    assert before.n_items == while_planned.n_items == after.n_items == far + 1
    for one in (before, after):
        whole, other = snapshot(while_planned), snapshot(one)
        # The keys of contexts with items unknown when tested are made when they are remembered.
        by_then = {name for name in whole if "/memory/" in name}
        assert_same_state(
            {name: whole[name] for name in whole.keys() - by_then},
            {name: other[name] for name in other.keys() - by_then},
        )


def test_the_same_seed_and_stream_give_the_same(
    method: str, tiny: Make, make_tiny: Make, contexts: Contexts, stream: list[Transitions]
) -> None:
    one, other = tiny(method), make_tiny(method)
    assert_same_state(snapshot(one), snapshot(other))
    for batch in stream:
        one.learn(batch)
        other.learn(batch)
    assert_same(one.recommend(contexts, 10), other.recommend(contexts, 10))
    assert_same_state(snapshot(one), snapshot(other))


def test_saved_and_loaded_it_goes_on_as_before(
    model: Recommender, contexts: Contexts, stream: list[Transitions], tmp_path: Path
) -> None:
    model.learn(stream[0])
    persistence.save(model, tmp_path / "model")
    loaded = persistence.load(tmp_path / "model", model.runtime)
    assert_same(loaded.recommend(contexts, 10), model.recommend(contexts, 10))
    for batch in stream[1:]:
        model.learn(batch)
        loaded.learn(batch)
    assert_same(loaded.recommend(contexts, 10), model.recommend(contexts, 10))
    assert_same_state(snapshot(loaded), snapshot(model))


def test_a_clone_learns_apart(
    model: Recommender, contexts: Contexts, stream: list[Transitions]
) -> None:
    before, answer = snapshot(model), model.recommend(contexts, 10)
    clone = model.clone()
    assert_same(clone.recommend(contexts, 10), answer)
    for batch in stream:
        clone.learn(batch)
    clone.catalog.add(["only in the clone"])
    assert_same_state(snapshot(model), before)
    assert_same(model.recommend(contexts, 10), answer)
    assert "only in the clone" not in model.catalog


def test_an_item_first_learned_can_be_recommended(model: Recommender) -> None:
    n_items = model.n_items
    for _ in range(5):
        model.learn_one(["item 1", "item 2"], "never seen before")
    assert model.n_items > n_items
    answer = model.recommend_one(["item 1", "item 2"], model.n_items)
    assert "never seen before" in [one.id for one in answer]
    # And it can be asked about.
    assert model.recommend_one(["never seen before"], 5)


def test_what_is_clicked_often_enough_is_recommended(model: Recommender) -> None:
    for _ in range(300):
        model.learn_one(["item 1", "item 2"], "never seen before")
    answer = model.recommend_one(["item 1", "item 2"], 10)
    assert "never seen before" in [one.id for one in answer]


def test_a_batch_equals_its_rows(
    model: Recommender, contexts: Contexts, stream: list[Transitions]
) -> None:
    model.learn(stream[0])
    answer = model.recommend(contexts, 10)
    rows = [model.recommend(contexts[row : row + 1], 10) for row in range(len(contexts))]
    assert_sound(answer, model.n_items, 10)
    # Sums over a batch round otherwise than sums over a row, in the last digits.
    scores = np.concatenate([row.scores for row in rows])
    np.testing.assert_allclose(answer.scores, scores, rtol=1e-4, atol=1e-6)
    weights = np.concatenate([row.weights for row in rows])
    np.testing.assert_allclose(answer.weights, weights, rtol=1e-4)
    items = np.concatenate([row.items for row in rows])
    swapped = answer.items != items
    assert swapped.mean() < 0.05
    for row, place in np.argwhere(swapped):
        near = np.abs(answer.scores[row] - answer.scores[row, place]) < 1e-5
        assert near.sum() > 1, "only what is as good as equal may change places"


HARD = {
    "empty": [],
    "unknown": [9999],
    "negative": [-1, -5],
    "unknown among known": [1, 9999, 2, -1],
    "one": [3],
    "one item repeated": [3] * 50,
    "10,000 clicks": (np.arange(10_000) % 40).tolist(),
    "10,000 clicks on one item": [7] * 10_000,
}


@pytest.mark.parametrize("kind", HARD)
def test_there_is_always_an_answer(model: Recommender, kind: str) -> None:
    contexts = Contexts.of([HARD[kind]])
    for k in (1, 20, 1000):
        answer = model.recommend(contexts, k)
        assert_sound(answer, model.n_items, k)
        assert answer.items[0, 0] >= 0
        assert answer.cold[0] == (kind in ("empty", "unknown", "negative"))
        model.explain(contexts, answer)


def test_items_that_are_known_and_were_never_clicked(model: Recommender) -> None:
    first = model.n_items
    model.know(first + 20_000)  # beyond any room that was made ahead
    never = Contexts.of([[first + 19_999], [1, first + 10_000]])
    assert_sound(model.recommend(never, 10), model.n_items, 10)
    if isinstance(model, Predictor):
        given = model.probabilities(never, np.array([[first + 19_999, 1], [first + 5, 2]]))
        assert ((given >= 0) & (given <= 1)).all()


@pytest.mark.parametrize(
    "kind", [kind for kind in HARD if "unknown" not in kind and kind != "negative"]
)
def test_everything_can_be_learned(model: Recommender, kind: str) -> None:
    model.learn(Transitions(Contexts.of([HARD[kind]]), np.array([5]), np.full(1, np.nan)))
    assert_sound(model.recommend(Contexts.of([[5], HARD[kind]]), 10), model.n_items, 10)


def test_hard_contexts_do_not_disturb_their_neighbours(model: Recommender) -> None:
    alone = model.recommend(Contexts.of([[1, 2]]), 10)
    among = model.recommend(Contexts.of([*HARD.values(), [1, 2]]), 10)
    np.testing.assert_array_equal(among.items[-1], alone.items[0])
    np.testing.assert_allclose(among.scores[-1], alone.scores[0], rtol=1e-4)
    model.recommend(Contexts.of([]), 10)


def test_no_recommendation_cannot_be_asked_for(model: Recommender, contexts: Contexts) -> None:
    with pytest.raises(BadInputError, match="k is 0; ask for at least one"):
        model.recommend(contexts, 0)


def test_only_the_parts_asked_for_learn(model: Recommender, stream: list[Transitions]) -> None:
    before = snapshot(model)
    model.learn(stream[0], parts=())
    model.learn(stream[0], parts=set(PARTS) - model.parts)
    assert_same_state(snapshot(model), before)
    for part in model.parts:
        clone = model.clone()
        clone.learn(stream[0], parts=[part])
        after = snapshot(clone)
        changed = [n for n, array in after.items() if not np.array_equal(array, before.get(n))]
        assert any(name.startswith("method/") for name in changed), part


def test_nothing_to_learn_is_no_harm(model: Recommender, stream: list[Transitions]) -> None:
    before = snapshot(model)
    model.learn(stream[0][:0])
    assert_same_state(snapshot(model), before)


def test_an_explanation_adds_up(
    model: Recommender, contexts: Contexts, stream: list[Transitions]
) -> None:
    model.learn(stream[0])
    answer = model.recommend(contexts, 10)
    why = model.explain(contexts, answer)
    if why is None:
        pytest.skip(f"{model.label} has one part only")
    np.testing.assert_allclose(why.neural + why.memory, answer.scores, rtol=1e-4, atol=1e-6)
    assert ((why.sessions > 0) == (why.memory > 0)).all()


def test_scores_are_probabilities(
    model: Recommender, contexts: Contexts, stream: list[Transitions]
) -> None:
    if not isinstance(model, Predictor):
        pytest.skip(f"{model.label} does not say so")
    model.learn(stream[0])
    everything = np.tile(np.arange(model.n_items), (len(contexts), 1))
    shares = model.probabilities(contexts, everything)
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    answer = model.recommend(contexts, 10)
    items = np.column_stack([answer.items, np.full(len(contexts), 9999)])
    asked = model.probabilities(contexts, items)
    np.testing.assert_allclose(asked[:, :-1], answer.scores, rtol=1e-12)
    assert (asked[:, -1] == 0).all()
    assert (model.probabilities(Contexts.of([[], [-1, 9999]]), everything[:2]) == 0).all()


@pytest.mark.parametrize("kind", ["clustered", "exact"])
def test_a_bounded_memory_stays_within_its_bound(
    kind: str, make_tiny: Make, stream: list[Transitions]
) -> None:
    model: Any = make_tiny("man", memory={"kind": kind, "size": 50, "neighbours": 20})
    assert model.memory_entries == 50
    for batch in stream:
        model.learn(batch)
        assert model.memory_entries == 50
    newest = stream[-1]
    answer = model.recommend(newest.contexts, 10)
    assert_sound(answer, model.n_items, 10)


def test_a_model_can_be_trained_without_validation(method: str, make_tiny: Make) -> None:
    model = make_tiny(method, validated=False)
    assert_sound(model.recommend(Contexts.of([[1, 2]]), 5), model.n_items, 5)


@pytest.mark.parametrize("clicks", [1, 2])
def test_one_item_is_enough(method: str, clicks: int) -> None:
    log = ClickLog.of([(0, 0, float(time)) for time in range(clicks)])
    model = create(method, runtime=Runtime(threads=1)).fit(log)
    answer = model.recommend(Contexts.of([[0], []]), 3)
    assert_sound(answer, model.n_items, 3)
    assert answer.items[1].tolist() == [0, -1, -1]


def test_no_clicks_are_refused(method: str) -> None:
    with pytest.raises(BadInputError, match="no clicks to train on"):
        create(method).fit(ClickLog.of([]))
