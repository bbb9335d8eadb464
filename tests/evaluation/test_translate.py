"""A model and data numbered apart come together by the items' ids."""

import pytest

from nextclick.catalog import Catalog
from nextclick.clicks import ClickLog
from nextclick.errors import BadInputError
from nextclick.evaluation.translate import align


def test_clicks_name_the_same_items_afterwards():
    model_catalog = Catalog(["a", "b", "c"])
    data_catalog = Catalog(["x", "c", "y", "b", "never clicked"])
    data_catalog.describe("y", title="Yarn", category="wool")
    log = ClickLog.of([(0, 2, 1.0), (0, 1, 2.0), (1, 0, 3.0), (1, 2, 4.0), (1, 3, 5.0)])
    aligned = align(model_catalog, data_catalog, log)
    before = [data_catalog.id(item) for item in log.items]
    after = [model_catalog.id(item) for item in aligned.items]
    assert before == after
    assert [item.id for item in model_catalog] == ["a", "b", "c", "y", "x"]
    assert model_catalog[3].title == "Yarn"
    assert aligned.sessions is log.sessions
    assert aligned.times is log.times


def test_no_clicks_change_nothing():
    model_catalog = Catalog(["a"])
    assert len(align(model_catalog, Catalog(), ClickLog.of([]))) == 0
    assert len(model_catalog) == 1


@pytest.mark.parametrize("item", [-1, 2])
def test_clicks_of_another_catalog_are_refused(item):
    with pytest.raises(BadInputError, match=f"item number {item}, but their catalog has 2 items"):
        align(Catalog(), Catalog(["a", "b"]), ClickLog.of([(0, item, 1.0)]))
