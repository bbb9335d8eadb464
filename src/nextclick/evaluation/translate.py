"""Putting a model and data that were numbered apart on one numbering."""

from __future__ import annotations

import numpy as np

from nextclick.catalog import Catalog
from nextclick.clicks import ClickLog
from nextclick.errors import BadInputError


def align(model_catalog: Catalog, data_catalog: Catalog, log: ClickLog) -> ClickLog:
    """Return the clicks with the model's item numbers instead of the data's.

    Items that the model's catalog lacks are appended to it, in the order of their first clicks,
    with what the data know of them; so a model that is evaluated on data it was not trained from
    meets them as it would in service.

    Parameters
    ----------
    model_catalog
        The catalog of the recommender that is to read the clicks; it grows.
    data_catalog
        The catalog that the clicks are numbered by.
    log
        The clicks.

    Examples
    --------
    >>> model_catalog, data_catalog = Catalog(["shoes", "socks"]), Catalog(["hat", "socks"])
    >>> log = ClickLog.of([(0, 1, 1.0), (0, 0, 2.0)])
    >>> align(model_catalog, data_catalog, log).items.tolist()
    [1, 2]
    >>> model_catalog.id(2)
    'hat'
    """
    clicked, first_click = np.unique(log.items, return_index=True)
    if len(clicked) and not 0 <= clicked[0] <= clicked[-1] < len(data_catalog):
        wrong = clicked[0] if clicked[0] < 0 else clicked[-1]
        raise BadInputError(
            f"the clicks name item number {wrong}, but their catalog has {len(data_catalog):,} "
            "items; give the catalog that was made with them"
        )
    number = np.full(len(data_catalog), -1, dtype=np.int64)
    for item in clicked[np.argsort(first_click)].tolist():
        number[item] = _find_or_append(model_catalog, data_catalog, item)
    return ClickLog(log.sessions, number[log.items], log.times)


def _find_or_append(model_catalog: Catalog, data_catalog: Catalog, item: int) -> int:
    known = data_catalog[item]
    if known.id in model_catalog:
        return int(model_catalog.find([known.id])[0])
    return model_catalog.describe(known.id, title=known.title, category=known.category)
