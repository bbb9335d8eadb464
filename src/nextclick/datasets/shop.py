"""What the synthetic shop sells: items with a style, a price, a life, a title, a category.

Nothing here knows of any recommender, and no setting is chosen with one in view.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nextclick.catalog import Item
from nextclick.clicks import Floats, Ints, Mask

DAY = 86_400.0

CATEGORIES = {
    "Scarves": ("Scarf", "Shawl", "Snood"),
    "Shirts": ("Shirt", "Blouse", "Tunic"),
    "Trousers": ("Chinos", "Trousers", "Jeans"),
    "Jackets": ("Jacket", "Coat", "Parka"),
    "Shoes": ("Sneakers", "Loafers", "Boots"),
    "Bags": ("Tote", "Backpack", "Satchel"),
    "Hats": ("Cap", "Beanie", "Sun Hat"),
    "Lamps": ("Desk Lamp", "Floor Lamp", "Pendant"),
    "Chairs": ("Armchair", "Stool", "Rocker"),
    "Tables": ("Side Table", "Desk", "Bench"),
    "Rugs": ("Rug", "Runner", "Mat"),
    "Bedding": ("Quilt", "Pillow", "Throw"),
    "Tableware": ("Bowl", "Plate Set", "Mug"),
    "Cookware": ("Saucepan", "Casserole", "Skillet"),
    "Headphones": ("Headphones", "Earbuds", "Headset"),
    "Keyboards": ("Keyboard", "Number Pad", "Macro Pad"),
    "Watches": ("Watch", "Chronograph", "Field Watch"),
    "Bicycles": ("City Bike", "Gravel Bike", "Folding Bike"),
    "Tents": ("Tent", "Tarp", "Bivouac"),
    "Notebooks": ("Notebook", "Planner", "Sketchbook"),
}
LOOKS = (
    "Ivory",
    "Sand",
    "Amber",
    "Coral",
    "Rust",
    "Plum",
    "Moss",
    "Teal",
    "Navy",
    "Slate",
    "Black",
)
MAKES = ("Linen", "Cotton", "Wool", "Felt", "Oak", "Ash", "Cork", "Steel", "Brass", "Glass")
GRADES = ("Plain", "Everyday", "Classic", "Fine", "Studio", "Heritage", "Signature")
MAKERS = ("Alder", "Brook", "Calla", "Dune", "Ember", "Fjord", "Grove", "Haven", "Isle", "Juno")

STOCKED_FROM_THE_START = 0.6
EVERGREEN = 0.3
MEAN_LIFE = 40 * DAY
SHORTEST_LIFE = 3 * DAY

ZIPF = 0.9
HEAD = 8
"""The law of Zipf and Mandelbrot: the weight of an item falls as ``(HEAD + rank) ** -ZIPF``."""

NOVELTY = 4.0
NOVELTY_LASTS = 2.5 * DAY
DRIFT = 0.8
SEASON = 0.5

NEIGHBOURS = 6


@dataclass(frozen=True, eq=False)
class Shop:
    """The items of a shop, from the opening day to the last, and what goes with what.

    Parameters
    ----------
    category
        The category of each item, a number; items are in the order of their category.
    style
        Where each item stands in a plane of looks; people compare what is close.
    price
        Where each item stands between the cheapest (0) and the dearest (1).
    appears, disappears
        When each item can be clicked, in seconds since the opening.
    fame
        The Zipf weight of each item.
    wave, season
        Period and phase of the drift of each item's, and each category's, popularity.
    companion
        The category that each category's customers go on to.
    """

    category: Ints
    style: Floats
    price: Floats
    appears: Floats
    disappears: Floats
    fame: Floats
    wave: Floats
    season: Floats
    companion: Ints

    @classmethod
    def open(cls, n_items: int, duration: float, rng: np.random.Generator) -> Shop:
        """Stock a shop that exists for `duration` seconds."""
        n_categories = min(len(CATEGORIES), max(1, n_items // 10))
        category = np.sort(rng.integers(n_categories, size=n_items))
        appears = rng.uniform(0, duration, n_items)
        appears[rng.random(n_items) < STOCKED_FROM_THE_START] = 0.0
        life = SHORTEST_LIFE + rng.exponential(MEAN_LIFE, n_items)
        life[rng.random(n_items) < EVERGREEN] = np.inf
        # One item of each category is always there, so that no category is ever empty.
        _, always = np.unique(category, return_index=True)
        appears[always], life[always] = 0.0, np.inf
        return cls(
            category=category,
            style=rng.random((n_items, 2)),
            price=rng.random(n_items),
            appears=appears,
            disappears=appears + life,
            fame=np.power(HEAD + rng.permutation(n_items), -ZIPF, dtype=np.float64),
            wave=np.stack([rng.uniform(8, 40, n_items) * DAY, rng.uniform(0, 1, n_items)]),
            season=np.stack([rng.uniform(20, 90, n_categories) * DAY, rng.random(n_categories)]),
            companion=_round_trip(n_categories, rng),
        )

    def __len__(self) -> int:
        return len(self.category)

    @property
    def n_categories(self) -> int:
        """The number of categories."""
        return len(self.companion)

    def on_sale(self, time: float) -> Mask:
        """Tell which items can be clicked at a time."""
        return (self.appears <= time) & (time < self.disappears)

    def popularity(self, time: float) -> Floats:
        """Return the weight of each item at a time: its fame, its waves, and its novelty."""
        period, phase = self.wave
        drift = np.exp(DRIFT * np.sin(2 * np.pi * (time / period + phase)))
        period, phase = self.season
        season = np.exp(SEASON * np.sin(2 * np.pi * (time / period + phase)))[self.category]
        # What the shop opened with is not new to anyone.
        age = np.where(self.appears > 0, time - self.appears, np.inf)
        novelty = 1 + NOVELTY * np.exp(-np.maximum(age, 0) / NOVELTY_LASTS)
        weights: Floats = self.fame * drift * season * novelty * self.on_sale(time)
        return weights

    @cached_property
    def dearer(self) -> Ints:
        """For each item the similar ones of its category that cost more, the most similar first."""
        return self._alike(1)

    @cached_property
    def cheaper(self) -> Ints:
        """For each item the similar ones of its category that cost less, the most similar first."""
        return self._alike(-1)

    @cached_property
    def goes_with(self) -> Ints:
        """For each item the items of the companion category that match its style."""
        matches = np.full((len(self), NEIGHBOURS), -1, dtype=np.int64)
        for number, companion in enumerate(self.companion):
            theirs = np.flatnonzero(self.category == companion)
            for mine in _blocks(np.flatnonzero(self.category == number)):
                matches[mine] = _nearest(self._distances(mine, theirs), theirs)
        return matches

    def items(self, rng: np.random.Generator) -> list[Item]:
        """Return the items with ids, titles and categories."""
        names = list(CATEGORIES)
        nouns = rng.integers(3, size=len(self))
        makers = rng.integers(len(MAKERS), size=len(self))
        editions: Counter[str] = Counter()
        items = []
        for number in range(len(self)):
            category = names[self.category[number]]
            words = (
                MAKERS[makers[number]],
                GRADES[int(self.price[number] * len(GRADES))],
                LOOKS[int(self.style[number, 0] * len(LOOKS))],
                MAKES[int(self.style[number, 1] * len(MAKES))],
                CATEGORIES[category][nouns[number]],
            )
            title = " ".join(words)
            editions[title] += 1
            if editions[title] > 1:
                title += f" No. {editions[title]}"
            items.append(Item(f"{category[:3].upper()}-{number:05d}", title, category))
        return items

    def _alike(self, direction: int) -> Ints:
        alike = np.full((len(self), NEIGHBOURS), -1, dtype=np.int64)
        for number in range(self.n_categories):
            theirs = np.flatnonzero(self.category == number)
            for mine in _blocks(theirs):
                distances = self._distances(mine, theirs)
                step = direction * (self.price[theirs][None, :] - self.price[mine][:, None])
                distances[step <= 0] = np.inf
                alike[mine] = _nearest(distances, theirs)
        return alike

    def _distances(self, some: Ints, others: Ints) -> Floats:
        apart = self.style[some][:, None, :] - self.style[others][None, :, :]
        distances: Floats = np.square(apart).sum(axis=-1)
        return distances


def _nearest(distances: Floats, items: Ints) -> Ints:
    """Return the nearest items of each row, -1 where there are no more at a finite distance."""
    order = np.argsort(distances, axis=1)[:, :NEIGHBOURS]
    nearest = np.full((len(distances), NEIGHBOURS), -1, dtype=np.int64)
    finite = np.isfinite(np.take_along_axis(distances, order, axis=1))
    nearest[:, : order.shape[1]] = np.where(finite, items[order], -1)
    return nearest


def _blocks(items: Ints, size: int = 256) -> Iterator[Ints]:
    """Cut items into blocks, so that the table of distances stays small in a large shop."""
    return (items[start : start + size] for start in range(0, len(items), size))


def _round_trip(n: int, rng: np.random.Generator) -> Ints:
    """Return for each of `n` categories the next one, on a round trip through all."""
    route = rng.permutation(n)
    following = np.empty(n, dtype=np.int64)
    following[route] = np.roll(route, -1)
    return following
