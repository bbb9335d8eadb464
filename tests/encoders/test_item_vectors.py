"""The passes over the items against autograd and plain torch."""

import numpy as np
import pytest
import torch
from torch.nn import functional

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
    given = vectors.scores_at(asked, 8500, found.items)
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
