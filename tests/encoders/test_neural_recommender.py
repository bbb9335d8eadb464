"""A neural encoder as a recommender: training, growth, online steps, checkpoints."""

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch.nn import functional

from nextclick.clicks import ClickLog, Contexts, Transitions
from nextclick.encoders.recommender import (
    NeuralRecommender,
    NeuralSettings,
    OnlineSettings,
    new_rows,
)
from nextclick.encoders.training import Course, TrainingSettings
from nextclick.errors import BadInputError
from nextclick.runtime import Runtime

SMALL = {
    "kind": "narm",
    "embedding": 12,
    "hidden": 12,
    "embedding_dropout": 0.0,
    "representation_dropout": 0.0,
}


def log(sessions=120, items=30):
    clicks = [(s, (s + i) % items, 10.0 * s + i) for s in range(sessions) for i in range(2 + s % 4)]
    return ClickLog.of(clicks)


def model(*, epochs=1, seed=0, checkpoint=None, online=None, **training):
    settings = NeuralSettings(
        encoder=SMALL,
        training=TrainingSettings(
            epochs=epochs, batch=64, learning_rate=0.03, precision="float32", **training
        ),
        online=online or OnlineSettings(),
    )
    return NeuralRecommender(settings, Runtime(seed=seed, threads=1, checkpoint=checkpoint))


def batch(pairs):
    contexts, items = zip(*pairs, strict=True)
    return Transitions(Contexts.of(contexts), np.array(items), np.arange(len(items), dtype=float))


def test_learns_a_plain_sequence():
    trained = model(epochs=8).fit(log(sessions=400))
    answer = trained.recommend(Contexts.of([[3], [10, 11]]), k=3)
    assert answer.items[:, 0].tolist() == [4, 12]


def test_probabilities_are_the_softmax_over_the_catalog():
    trained = model().fit(log())
    contexts = Contexts.of([[1, 2], [5]])
    answer = trained.recommend(contexts, k=30)
    np.testing.assert_allclose(answer.scores.sum(1), 1, rtol=1e-5)
    prediction = trained.predict(contexts, k=1)
    encoder = trained._encoder
    queries = encoder.queries(torch.from_numpy(prediction.representations))
    scores = (queries @ encoder.vectors().T).detach()
    expected = torch.softmax(scores.double(), dim=1).numpy()
    np.testing.assert_allclose(
        prediction.at(np.array([[3, -1], [4, 29]])),
        [[expected[0, 3], 0], [expected[1, 4], expected[1, 29]]],
        rtol=1e-5,
    )


def test_new_items_start_alike_however_the_catalog_grew():
    whole = new_rows(7, 0, 3000, 4)
    steps = [new_rows(7, a, b, 4) for a, b in ((0, 1), (1, 1024), (1024, 1500), (1500, 3000))]
    np.testing.assert_array_equal(np.concatenate(steps), whole)


def test_a_grown_catalog_equals_one_born_with_all_items():
    grown = model().fit(log())
    for n_items in (31, 45, 60, 90):
        grown.know(n_items)
        grown.learn(batch([([1, n_items - 1], 2), ([3], n_items - 1)]))
    grown.know(100)  # 112 have room

    state = grown.state()
    born = model().restore(grown.catalog.copy(), {k: v.copy() for k, v in state.items()})
    assert len(state["method/encoder/items"]) == 100
    assert len(born._encoder.items) == 100 < len(grown._encoder.items)  # room is no part of it
    step = batch([([99, 1], 98), ([4, 5], 6)])
    for each in (grown, born):
        each.learn(step)
    contexts = Contexts.of([[99], [1, 2, 3]])
    one, other = grown.recommend(contexts, k=100), born.recommend(contexts, k=100)
    np.testing.assert_array_equal(one.items, other.items)
    np.testing.assert_array_equal(one.scores, other.scores)


@pytest.mark.parametrize("item_rate", [None, 0.7])
def test_an_online_step_is_one_step_on_the_mean_cross_entropy(item_rate):
    trained = model(online=OnlineSettings(item_learning_rate=item_rate)).fit(log())
    copy = trained.clone()
    pairs = [([1, 2], 3), ([7], 9), ([2, 2], 3)]

    encoder = copy._encoder
    by_adam = [p for p in encoder.parameters() if item_rate is None or p is not encoder.items]
    optimizer = torch.optim.Adam(by_adam, lr=copy.settings.online.learning_rate)
    loss = 0
    for context, item in pairs:
        state = encoder(torch.tensor([context]))[0, -1]
        scores = encoder.queries(state) @ encoder.vectors().T
        loss = loss + functional.cross_entropy(scores[None], torch.tensor([item])) / len(pairs)
    loss.backward()
    optimizer.step()
    if item_rate is not None:
        encoder.items.data -= item_rate * encoder.items.grad

    trained.learn(batch(pairs))
    for one, other in zip(trained._encoder.parameters(), encoder.parameters(), strict=True):
        torch.testing.assert_close(one[: len(other)], other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("pull", [0.3, 1.0])
def test_a_new_item_starts_at_the_given_angle_to_its_contexts(pull):
    online = OnlineSettings(new_item_pull=pull, learning_rate=1e-9, item_learning_rate=1e-9)
    placed = model(online=online).fit(log())
    prediction = placed.predict(Contexts.of([[1, 2]]), k=1)
    placed.learn(batch([([1, 2], 30), ([1, 2], 30)]))
    with torch.no_grad():
        query = placed._encoder.queries(torch.from_numpy(prediction.representations))[0]
        cosine = functional.cosine_similarity(query, placed._encoder.items[30], dim=0)
    assert cosine.item() == pytest.approx(pull, abs=1e-4)
    if pull == 1:
        assert placed.recommend(Contexts.of([[1, 2]]), k=1).items == 30
    # Only where it starts: what was clicked before is not moved there again.
    before = placed._encoder.items[30].clone()
    placed.learn(batch([([20], 30)]))
    torch.testing.assert_close(before, placed._encoder.items[30])


def test_the_best_epoch_is_kept():
    encoder = model().fit(log())._encoder
    course = Course(encoder, torch.optim.Adam(encoder.parameters()))
    for epoch, hit_rate in enumerate([0.1, 0.3, 0.2], start=1):
        course.epoch = epoch
        with torch.no_grad():
            encoder.items.fill_(epoch)
        course.judge(hit_rate)
    assert (course.best_epoch, course.best_hit_rate) == (2, 0.3)
    assert course.best["items"].unique().tolist() == [2]


def test_training_stops_when_the_validation_part_gets_no_better(tmp_path):
    hopeless = ClickLog.of([(9, 5, 1e6), (9, 40, 1e6 + 1), (9, 41, 1e6 + 2)])
    checkpoint = tmp_path / "narm.checkpoint"
    model(epochs=30, patience=2, checkpoint=checkpoint).fit(log(), validation=hopeless)
    with safe_open(checkpoint, framework="pt") as file:
        facts = json.loads(file.metadata()["course"])
    assert facts["epoch"] == 3  # the first of three equally bad ones is the best


@pytest.mark.parametrize("estimated", [0.0, 0.8])
def test_training_that_is_interrupted_goes_on_as_if_it_had_not_been(
    tmp_path, monkeypatch, estimated
):
    loss = {"estimated": estimated, "samples": 16}
    whole = model(epochs=3, loss=loss).fit(log())

    checkpoint = tmp_path / "narm.checkpoint"
    epochs = []

    def interrupted_after_two(course, *rest):
        if len(epochs) == 2:
            raise KeyboardInterrupt
        epochs.append(course.epoch)
        train_epoch(course, *rest)

    from nextclick.encoders import training

    train_epoch = training._train_epoch
    monkeypatch.setattr(training, "_train_epoch", interrupted_after_two)
    with pytest.raises(KeyboardInterrupt):
        model(epochs=3, loss=loss, checkpoint=checkpoint).fit(log())
    monkeypatch.setattr(training, "_train_epoch", train_epoch)
    resumed = model(epochs=3, loss=loss, checkpoint=checkpoint).fit(log())

    assert epochs == [1, 2]
    for name, values in whole.state().items():
        np.testing.assert_array_equal(values, resumed.state()[name], err_msg=name)


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    checkpoint = tmp_path / "narm.checkpoint"
    model(checkpoint=checkpoint).fit(log())
    with pytest.raises(BadInputError, match=r"narm\.checkpoint: the checkpoint of a training with"):
        model(checkpoint=checkpoint, seed=1).fit(log())


@pytest.mark.parametrize("damage", ["truncated", "another file", "full disk"])
def test_a_checkpoint_that_cannot_be_used_is_named(tmp_path, small_disk, damage):
    checkpoint = (small_disk if damage == "full disk" else tmp_path) / "narm.checkpoint"
    if damage == "truncated":
        model(checkpoint=checkpoint).fit(log())
        checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    elif damage == "another file":
        checkpoint.write_text("weights")
    else:
        (small_disk / "filler").write_bytes(bytes(60_000))
    with pytest.raises(BadInputError, match=r"narm\.checkpoint: (not a checkpoint|no space left)"):
        model(checkpoint=checkpoint).fit(log())


def test_the_same_seed_gives_the_same_model():
    one, other, another = (model(seed=seed).fit(log()).state() for seed in (4, 4, 5))
    for name, values in one.items():
        np.testing.assert_array_equal(values, other[name], err_msg=name)
    assert not np.array_equal(one["method/encoder/items"], another["method/encoder/items"])


@pytest.mark.parametrize("kind", ["cross-entropy", "top1-max", "bpr-max"])
def test_sampled_losses_train_and_give_probabilities(kind):
    trained = model(epochs=8, loss={"kind": kind, "samples": 16}).fit(log(sessions=400))
    answer = trained.recommend(Contexts.of([[3]]), k=30)
    assert answer.items[0, 0] == 4
    np.testing.assert_allclose(answer.scores.sum(), 1, rtol=1e-5)


def test_a_device_that_is_not_there_is_named():
    with pytest.raises(BadInputError, match="device 'nonsense' is not there"):
        NeuralRecommender(runtime=Runtime(device="nonsense"))
