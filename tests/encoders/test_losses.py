"""The fused losses against autograd on the plain formulas."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from nextclick.encoders import softmax
from nextclick.encoders.losses import LossSettings, bpr_max, loss_of, top1_max
from nextclick.encoders.narm import Narm, NarmSettings
from nextclick.encoders.sampled_softmax import Sample, Sampler, estimated_cross_entropy
from nextclick.encoders.softmax import Scratch, cross_entropy
from nextclick.encoders.unit_rows import unit_rows


def tensors(rows=70, items=33, dimension=12, seed=0):
    torch.manual_seed(seed)
    queries = torch.randn(rows, dimension, requires_grad=True)
    vectors = torch.randn(items, dimension, requires_grad=True)
    return queries, vectors, torch.randint(0, items, (rows,))


@pytest.mark.parametrize("bound", [None, 30.0, 50.0])
@pytest.mark.parametrize("rows_at_a_time", [7, 512])
def test_cross_entropy_equals_autograd(monkeypatch, bound, rows_at_a_time):
    monkeypatch.setattr(softmax, "ROWS_AT_A_TIME", rows_at_a_time)
    queries, vectors, targets = tensors()
    plain = functional.cross_entropy(queries @ vectors.T, targets)
    expected = torch.autograd.grad(3 * plain, (queries, vectors))
    fused = cross_entropy(queries, vectors, targets, bound=bound)
    gradients = torch.autograd.grad(3 * fused, (queries, vectors))
    torch.testing.assert_close(fused, plain)
    torch.testing.assert_close(gradients, expected)


def test_a_scratch_used_before_changes_nothing():
    queries, vectors, targets = tensors()
    scratch = Scratch()
    cross_entropy(*tensors(rows=90, seed=1), scratch=scratch)
    expected = cross_entropy(queries, vectors, targets)
    assert cross_entropy(queries, vectors, targets, scratch=scratch) == expected
    smaller = queries[:5].detach(), vectors, targets[:5]
    assert cross_entropy(*smaller, scratch=scratch) == cross_entropy(*smaller)


def test_cross_entropy_in_bfloat16_is_near():
    queries, vectors, targets = tensors()
    plain = functional.cross_entropy(queries @ vectors.T, targets)
    expected = torch.autograd.grad(plain, (queries, vectors))
    fused = cross_entropy(queries, vectors, targets, half=True)
    gradients = torch.autograd.grad(fused, (queries, vectors))
    torch.testing.assert_close(fused, plain, rtol=1e-2, atol=0)
    for near, exact in zip(gradients, expected, strict=True):
        assert (near - exact).abs().max() < 0.02 * exact.abs().max()


def test_cross_entropy_survives_large_scores():
    queries, vectors, targets = tensors()
    loss = cross_entropy(100 * queries, vectors, targets)
    torch.testing.assert_close(loss, functional.cross_entropy(100 * queries @ vectors.T, targets))


def test_unit_rows_equal_autograd():
    rows = torch.randn(20, 7, requires_grad=True)
    gradient = torch.randn(20, 7)
    plain = functional.normalize(rows, dim=1)
    torch.testing.assert_close(unit_rows(rows), plain)
    torch.testing.assert_close(
        torch.autograd.grad(unit_rows(rows), rows, gradient),
        torch.autograd.grad(plain, rows, gradient),
    )


def plain_ranking_loss(kind, positive, scores, other, regularisation=0.3):
    total = 0.0
    for row in range(len(scores)):
        r_i = float(positive[row])
        rivals = [float(s) for s, counts in zip(scores[row], other[row], strict=True) if counts]
        weights = np.exp(rivals) / np.exp(rivals).sum()
        sigma = [1 / (1 + np.exp(-(r_i - r_j))) for r_j in rivals]
        if kind == "bpr-max":
            total += -np.log(weights @ sigma) + regularisation * (weights @ np.square(rivals))
        else:
            squared = 1 / (1 + np.exp(-np.square(rivals)))
            total += weights @ (1 - np.array(sigma) + squared)
    return total / len(scores)


@pytest.mark.parametrize("kind", ["top1-max", "bpr-max"])
def test_ranking_losses_equal_their_formulas(kind):
    torch.manual_seed(1)
    scores, positive = torch.randn(6, 9), torch.randn(6, 1)
    other = torch.rand(6, 9) > 0.3
    if kind == "bpr-max":
        loss = bpr_max(positive, scores, other, 0.3)
    else:
        loss = top1_max(positive, scores, other)
    assert float(loss) == pytest.approx(plain_ranking_loss(kind, positive, scores, other), rel=1e-5)


@pytest.mark.parametrize("kind", ["top1-max", "bpr-max"])
def test_sampled_losses_never_draw_what_was_never_clicked(kind):
    encoder = Narm(NarmSettings(embedding=8, hidden=8))
    encoder.n_items = 50
    encoder.items.data = torch.randn(50, 8)
    targets = np.arange(10)
    loss = loss_of(
        LossSettings(kind=kind, samples=200), targets, 50, np.random.default_rng(0), half=False
    )
    queries = torch.randn(10, 8)
    loss(encoder, queries, torch.from_numpy(targets), 0.0).backward()
    touched = encoder.items.grad.abs().sum(1) > 0
    assert touched[:10].all()
    assert not touched[10:].any()


def encoder_of(items=40, scores="cosine", scale=14.0):
    torch.manual_seed(2)
    encoder = Narm(NarmSettings(embedding=8, hidden=8, scores=scores, scale=scale))
    encoder.n_items = items
    encoder.items.data = torch.randn(items, 8)
    return encoder


def plain_estimate(encoder, queries, clicked, sample):
    """Return the estimated loss, one query and one item at a time."""
    vectors, losses = encoder.vectors(), []
    for query, own in zip(queries, clicked.tolist(), strict=True):
        total = torch.exp(query @ vectors[own])
        for item, weight in zip(sample.items, sample.weights, strict=True):
            if item != own:
                total = total + weight * torch.exp(query @ vectors[item])
        losses.append(torch.log(total) - query @ vectors[own])
    return torch.stack(losses).mean()


SAMPLE = Sample(np.array([0, 3, 4, 17, 39]), np.array([1.0, 2.0, 8.0, 4.0, 16.0]))
NOTHING = Sample(np.empty(0, dtype=np.int64), np.empty(0))


@pytest.mark.parametrize("sample", [SAMPLE, NOTHING])
@pytest.mark.parametrize(("scores", "scale"), [("cosine", 14.0), ("cosine", 50.0), ("inner", 1.0)])
def test_the_estimated_loss_equals_autograd_on_its_formula(scores, scale, sample):
    encoder = encoder_of(scores=scores, scale=scale)
    queries = torch.randn(6, 8, requires_grad=True)
    clicked = torch.tensor([3, 3, 5, 39, 0, 12])  # in the sample and not, and one of them twice
    plain = plain_estimate(encoder, queries, clicked, sample)
    expected = torch.autograd.grad(3 * plain, (queries, encoder.items))
    fused = estimated_cross_entropy(encoder, queries, clicked, sample, Scratch())
    gradients = torch.autograd.grad(3 * fused, (queries, encoder.items))
    torch.testing.assert_close(fused, plain)
    torch.testing.assert_close(gradients, expected)


def test_the_estimated_loss_in_bfloat16_is_near():
    encoder = encoder_of()
    queries, clicked = torch.randn(6, 8), torch.tensor([3, 3, 5, 39, 0, 12])
    plain = estimated_cross_entropy(encoder, queries, clicked, SAMPLE, Scratch())
    half = estimated_cross_entropy(encoder, queries, clicked, SAMPLE, Scratch(), half=True)
    torch.testing.assert_close(half, plain, rtol=1e-2, atol=0)


def test_the_estimate_of_all_items_is_the_softmax():
    encoder = encoder_of()
    queries, clicked = torch.randn(6, 8), torch.tensor([3, 3, 5, 39, 0, 12])
    everything = Sampler.of(np.ones(40), 40).draw(np.random.default_rng(0))
    loss = estimated_cross_entropy(encoder, queries, clicked, everything, Scratch())
    torch.testing.assert_close(loss, cross_entropy(queries, encoder.vectors(), clicked))


@torch.no_grad()
def test_the_estimated_sums_are_right_on_average():
    encoder = encoder_of(scale=3.0)
    queries = 3 * functional.normalize(torch.randn(1, 8))
    clicked = torch.tensor([5])
    sampler = Sampler.of(np.arange(40.0) + 1, 15)
    generator = np.random.default_rng(0)
    own = queries[0] @ encoder.vectors()[5]
    draws = [sampler.draw(generator) for _ in range(4000)]
    sums = torch.stack(
        [estimated_cross_entropy(encoder, queries, clicked, drawn, Scratch()) for drawn in draws]
    )
    sums = (sums + own).exp()
    whole = (queries @ encoder.vectors().T).exp().sum()
    error = sums.std() / len(sums) ** 0.5
    assert abs(sums.mean() - whole) < 4 * error < 0.05 * whole


def plain_probabilities(weights, samples):
    """Return the probabilities by halving the interval that their factor lies in."""
    low, high = 0.0, samples / min(weights)
    for _ in range(200):
        factor = (low + high) / 2
        total = sum(min(1.0, factor * weight) for weight in weights)
        low, high = (factor, high) if total < samples else (low, factor)
    return [min(1.0, high * weight) for weight in weights]


@pytest.mark.parametrize("samples", [1, 7, 49, 50, 80])
def test_a_sampler_draws_so_many_items_on_average(samples):
    weights = np.random.default_rng(3).pareto(0.7, size=50) + 0.1
    sampler = Sampler.of(weights, samples)
    assert sampler.probabilities.sum() == pytest.approx(min(samples, 50))
    np.testing.assert_allclose(
        sampler.probabilities, plain_probabilities(weights, min(samples, 50)), rtol=1e-6
    )
    generator = np.random.default_rng(0)
    drawn = np.zeros(50)
    for _ in range(3000):
        drawn[sampler.draw(generator).items] += 1
    np.testing.assert_allclose(drawn / 3000, sampler.probabilities, atol=0.04)


def test_cross_entropy_is_estimated_until_it_is_not():
    encoder, targets = encoder_of(), np.arange(40)
    queries, clicked = torch.randn(6, 8), torch.tensor([3, 3, 5, 39, 0, 12])
    settings = LossSettings(estimated=0.5, samples=10)
    loss = loss_of(settings, targets, 40, np.random.default_rng(0), half=False)
    whole = cross_entropy(queries, encoder.vectors(), clicked)
    assert abs(loss(encoder, queries, clicked, 0.49) - whole) > 1e-3
    torch.testing.assert_close(loss(encoder, queries, clicked, 0.5), whole)
    unsampled = settings.model_copy(update={"samples": 40})
    loss = loss_of(unsampled, targets, 40, np.random.default_rng(0), half=False)
    torch.testing.assert_close(loss(encoder, queries, clicked, 0.0), whole)
