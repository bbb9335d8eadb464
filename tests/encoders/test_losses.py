"""The fused losses against autograd on the plain formulas."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from nextclick.encoders import losses
from nextclick.encoders.losses import LossSettings, bpr_max, cross_entropy, loss_of, top1_max
from nextclick.encoders.narm import Narm, NarmSettings
from nextclick.encoders.unit_rows import unit_rows


def tensors(rows=70, items=33, dimension=12, seed=0):
    torch.manual_seed(seed)
    queries = torch.randn(rows, dimension, requires_grad=True)
    vectors = torch.randn(items, dimension, requires_grad=True)
    return queries, vectors, torch.randint(0, items, (rows,))


@pytest.mark.parametrize("bound", [None, 30.0, 50.0])
@pytest.mark.parametrize("rows_at_a_time", [7, 512])
def test_cross_entropy_equals_autograd(monkeypatch, bound, rows_at_a_time):
    monkeypatch.setattr(losses, "ROWS_AT_A_TIME", rows_at_a_time)
    queries, vectors, targets = tensors()
    plain = functional.cross_entropy(queries @ vectors.T, targets)
    expected = torch.autograd.grad(3 * plain, (queries, vectors))
    fused = cross_entropy(queries, vectors, targets, bound=bound)
    gradients = torch.autograd.grad(3 * fused, (queries, vectors))
    torch.testing.assert_close(fused, plain)
    torch.testing.assert_close(gradients, expected)


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
    loss(encoder, queries, torch.from_numpy(targets)).backward()
    touched = encoder.items.grad.abs().sum(1) > 0
    assert touched[:10].all()
    assert not touched[10:].any()
