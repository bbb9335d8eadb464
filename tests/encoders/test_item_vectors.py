"""The passes over the items against autograd and plain torch."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from nextclick.encoders.item_adam import AdamState
from nextclick.encoders.item_vectors import Extra, ItemVectors


def made(*, cosine=True, half=False, items=9000, width=12):
    torch.manual_seed(5)
    rows = torch.randn(items, width)
    rows[3] = 0
    return ItemVectors.of(rows, cosine=cosine, half=half)


def plain(rows, *, cosine):
    return functional.normalize(rows, dim=1) if cosine else rows


@pytest.mark.parametrize("cosine", [True, False])
def test_vectors_are_the_rows_scaled(cosine):
    vectors = made(cosine=cosine, half=True)
    expected = plain(vectors.rows, cosine=cosine)
    torch.testing.assert_close(vectors.units(np.arange(9000)), expected)
    assert vectors.columns.shape == (9000, 16)
    torch.testing.assert_close(vectors.columns[:, :12], expected.bfloat16())
    assert (vectors.columns[:, 12] == 1).all()
    assert (vectors.columns[:, 13:] == 0).all()


@pytest.mark.parametrize("queries", [1, 2, 6, 7, 30])
@pytest.mark.parametrize("cosine", [True, False])
def test_scores_and_their_log_sums(queries, cosine):
    vectors = made(cosine=cosine)
    asked = 20 * torch.randn(queries, 12)  # scores of up to 200 and more
    found = vectors.best(asked, 8500, 8500)
    expected = (asked @ plain(vectors.rows[:8500], cosine=cosine).T).sort(descending=True)
    torch.testing.assert_close(
        torch.from_numpy(found.scores), expected.values, rtol=1e-5, atol=1e-4
    )
    torch.testing.assert_close(torch.from_numpy(found.log_sums), expected.values.logsumexp(1))
    given = vectors.scores(asked, 8500)(found.items)
    np.testing.assert_allclose(given, found.scores, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("half", [True, False])
@pytest.mark.parametrize("cosine", [True, False])
def test_a_descent_equals_autograd(cosine, half):
    vectors = made(cosine=cosine, half=half)
    before = vectors.rows.clone()
    n, rate = 8500, 0.7
    precision = torch.bfloat16 if half else torch.float32
    exponents, queries = torch.rand(n, 6).to(precision), torch.randn(6, 12).to(precision)
    clicked, seen = torch.tensor([7, 7, 8000, 3]), torch.tensor([7, 0, 0, 8499])
    of_vectors, of_rows = torch.randn(4, 12), torch.randn(4, 12)

    rows = vectors.rows[:n].clone().requires_grad_()
    scored = plain(rows, cosine=cosine)
    gradient = (exponents.float() @ queries.float()).index_add(0, clicked, of_vectors)
    ((scored * gradient).sum() + (rows[seen] * of_rows).sum()).backward()
    usual = torch.arange(n) != 3  # a row of zeros has no direction
    expected = rows.detach() - rate * rows.grad

    extra = Extra.of(clicked, of_vectors, seen, of_rows)
    moved = vectors.descended(exponents, queries, extra, rate)
    torch.testing.assert_close(vectors.rows, before, rtol=0, atol=0)
    tolerance = {"rtol": 1e-2, "atol": 2e-2} if half else {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(moved.rows[:n][usual], expected[usual], **tolerance)
    anew = ItemVectors.of(moved.rows, cosine=cosine, half=half)
    np.testing.assert_array_equal(moved.scales[:n], anew.scales[:n])
    if half:
        assert torch.equal(moved.columns[:n], anew.columns[:n])


@pytest.mark.parametrize("half", [True, False])
@pytest.mark.parametrize("cosine", [True, False])
def test_steps_of_adam_equal_torch(cosine, half):
    vectors = made(cosine=cosine, half=half)
    n = 8500
    rows = torch.nn.Parameter(vectors.rows[:n].clone())
    optimizer = torch.optim.Adam([rows], lr=0.01, fused=True)
    precision = torch.bfloat16 if half else torch.float32
    known = AdamState.of(torch.optim.Adam([vectors.rows], lr=0.01), vectors.rows)
    for _ in range(3):
        # Whole numbers: no gradient is so near to zero that rounding gives it another sign.
        exponents = torch.randint(1, 3, (n, 6)).to(precision)
        queries = torch.randint(1, 9, (6, 12)).to(precision)
        clicked, seen = torch.tensor([7, 7, 8000, 3]), torch.tensor([7, 0, 0, 8499])
        of_vectors, of_rows = torch.rand(4, 12), torch.rand(4, 12)
        scored = plain(rows, cosine=cosine)
        gradient = (exponents.float() @ queries.float()).index_add(0, clicked, of_vectors)
        optimizer.zero_grad()
        ((scored * gradient).sum() + (rows[seen] * of_rows).sum()).backward()
        optimizer.step()

        before = vectors.rows.clone(), known.first.clone()
        extra = Extra.of(clicked, of_vectors, seen, of_rows)
        moved, ahead = vectors.adapted(exponents, queries, extra, known)
        # Behind the items there is room to grow, with whatever was in that memory.
        assert torch.equal(vectors.rows[:n], before[0][:n])
        assert torch.equal(known.first, before[1])
        vectors, known = moved, ahead
    usual = torch.arange(n) != 3  # a row of zeros has no direction
    kept = optimizer.state[rows]
    assert known.step == kept["step"] == 3
    difference = (vectors.rows[:n][usual] - rows.detach()[usual]).abs()
    assert (difference > 1e-4).float().mean() < 0.01  # where gradients are next to nothing
    largest = kept["exp_avg"][usual].abs().max()
    torch.testing.assert_close(
        known.first[:n][usual] / largest, kept["exp_avg"][usual] / largest, rtol=1e-2, atol=1e-4
    )
    assert (known.first[n:] == 0).all()
    anew = ItemVectors.of(vectors.rows, cosine=cosine, half=half)
    np.testing.assert_array_equal(vectors.scales[:n], anew.scales[:n])
    if half:
        assert torch.equal(vectors.columns[:n], anew.columns[:n])
