"""A temperature makes probabilities of scores that only rank."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from nextclick.datasets.prepared import PreparedData
from nextclick.encoders.calibration import fitted_temperature
from nextclick.encoders.recommender import NeuralRecommender, NeuralSettings
from nextclick.runtime import Runtime

Make = Callable[..., NeuralRecommender]


@pytest.fixture(scope="module")
def trained(tiny_data: PreparedData) -> Make:
    def make(loss: str, scores: str = "cosine") -> NeuralRecommender:
        settings: dict[str, Any] = {
            "encoder": {"kind": "gru4rec", "embedding": 16, "hidden": 16, "scores": scores},
            "training": {"epochs": 2, "batch": 64, "loss": {"kind": loss, "samples": 32}},
        }
        model = NeuralRecommender(
            NeuralSettings.model_validate(settings), Runtime(seed=3, threads=1)
        )
        return model.fit(
            tiny_data.train,
            validation=tiny_data.validation,
            catalog=tiny_data.catalog,
            absorb=False,
        )

    return make


def losses(model: NeuralRecommender, data: PreparedData) -> np.ndarray:
    """Minus the log-probability of what was clicked next in the validation part."""
    transitions = data.validation.transitions()
    known = transitions[transitions.items < model.n_items]
    probabilities = model.predict(known.contexts, 1).at(known.items[:, None])
    return -np.log(probabilities)


@pytest.mark.parametrize("scores", ["cosine", "inner"])
@pytest.mark.parametrize("loss", ["top1-max", "bpr-max"])
def test_no_other_temperature_is_better(
    loss: str, scores: str, trained: Make, tiny_data: PreparedData
) -> None:
    model = trained(loss, scores)
    encoder = model._encoder
    fitted = encoder.temperature
    assert fitted != 1

    def at(log: float) -> float:
        encoder.temperature = float(np.exp(log))
        return float(losses(model, tiny_data).mean())

    others = np.log(fitted) + np.linspace(-3, 3, 61)
    assert at(np.log(fitted)) <= min(map(at, others)) + 1e-6


def test_rankings_stay_as_they_are(trained: Make, tiny_data: PreparedData) -> None:
    model = trained("bpr-max")
    contexts = tiny_data.test.transitions().contexts
    calibrated = model.recommend(contexts).items
    model._encoder.temperature = 1.0
    np.testing.assert_array_equal(model.recommend(contexts).items, calibrated)


def test_cross_entropy_is_left_alone(trained: Make) -> None:
    assert trained("cross-entropy")._encoder.temperature == 1


def test_it_is_kept_with_the_model(trained: Make, tiny_data: PreparedData) -> None:
    model = trained("bpr-max")
    np.testing.assert_array_equal(losses(model.clone(), tiny_data), losses(model, tiny_data))


def test_a_step_descends_on_the_calibrated_scores(trained: Make, tiny_data: PreparedData) -> None:
    """What was learned is more probable afterwards, on the scale that probabilities are given."""
    model = trained("bpr-max")
    batch = tiny_data.validation.transitions()[:100]
    batch = batch[batch.items < model.n_items]

    def loss() -> float:
        return -float(np.log(model.predict(batch.contexts, 1).at(batch.items[:, None])).mean())

    before = loss()
    model.learn(batch)
    assert loss() < before


def test_nothing_known_means_no_temperature(trained: Make, tiny_data: PreparedData) -> None:
    model = trained("cross-entropy")
    transitions = tiny_data.validation.transitions()[:3]
    unknown = type(transitions)(
        transitions.contexts, transitions.items + model.n_items, transitions.times
    )
    with torch.inference_mode():
        assert fitted_temperature(model._encoder, unknown) == 1
