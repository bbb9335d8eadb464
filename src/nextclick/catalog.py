"""The append-only map between the items' names outside and their numbers inside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from nextclick.clicks import Ints
from nextclick.errors import BadInputError

MAX_ID_BYTES = 1024
"""Longer item ids are refused: they are data in the wrong column."""


@dataclass(frozen=True)
class Item:
    """What is known of an item besides its clicks."""

    id: str
    title: str | None = None
    category: str | None = None


class Catalog:
    """External item ids, and the dense numbers they have inside.

    An id is text; an integer is taken as its decimal digits, so that 5 and "5" are one item.
    Numbers are given in the order in which ids arrive, and never change.

    Examples
    --------
    >>> catalog = Catalog(["shoes", "socks"])
    >>> catalog.add(["hat", "socks"]).tolist()
    [2, 1]
    >>> catalog.find(["shoes", "tie"]).tolist()
    [0, -1]
    >>> catalog.id(2)
    'hat'
    """

    def __init__(self, ids: Iterable[str | int] = ()) -> None:
        self._items: list[Item] = []
        self._number: dict[str, int] = {}
        self.add(ids)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __contains__(self, id_: str | int) -> bool:
        return str(id_) in self._number

    def __getitem__(self, number: int) -> Item:
        return self._items[number]

    def id(self, number: int) -> str:
        """Return the external id of an item."""
        return self._items[number].id

    def find(self, ids: Iterable[str | int]) -> Ints:
        """Return the items' numbers, -1 for those that are not in the catalog."""
        return np.array([self._number.get(str(id_), -1) for id_ in ids], dtype=np.int64)

    def add(self, ids: Iterable[str | int]) -> Ints:
        """Return the items' numbers, appending those that are not in the catalog yet."""
        return np.array([self._add_one(str(id_)) for id_ in ids], dtype=np.int64)

    def describe(
        self, id_: str | int, *, title: str | None = None, category: str | None = None
    ) -> int:
        """Set an item's title and category, appending it if it is new; return its number."""
        number = self._add_one(str(id_))
        self._items[number] = Item(str(id_), title, category)
        return number

    def copy(self, size: int | None = None) -> Catalog:
        """Return a catalog of its own with the first `size` items."""
        copy = Catalog()
        copy._items = self._items[:size]
        copy._number = {item.id: number for number, item in enumerate(copy._items)}
        return copy

    def _add_one(self, id_: str) -> int:
        number = self._number.get(id_)
        if number is None:
            check_id(id_)
            number = len(self._items)
            self._number[id_] = number
            self._items.append(Item(id_))
        return number


def check_id(id_: str) -> None:
    """Refuse an id that no item can have."""
    if not id_:
        raise BadInputError("an item id is empty; leave such clicks out")
    if len(id_) > MAX_ID_BYTES or len(id_.encode(errors="replace")) > MAX_ID_BYTES:
        raise BadInputError(
            f"an item id is {len(id_):,} characters long ({id_[:40]!r}…); "
            f"ids have at most {MAX_ID_BYTES:,} bytes: is this the right column?"
        )
