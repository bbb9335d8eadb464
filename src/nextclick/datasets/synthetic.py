"""The synthetic shop: visitors with intents, and the clicks that they leave.

It is there so that everything can be tried without data of one's own. It was written before and
apart from the methods, and is not tuned to favour one: what a visitor clicks next depends on what
the shop sells at the moment (items come and go, their popularity drifts), on the category and the
style the visitor is after, and on the items clicked just before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source
from pydantic import Field

from nextclick.clicks import ClickLog, Floats, Ints, Mask
from nextclick.datasets.description import Description
from nextclick.datasets.prepared import PreparedData
from nextclick.datasets.shop import DAY, Shop
from nextclick.datasets.splits import TEST_SHARE, validation_start
from nextclick.errors import BadInputError
from nextclick.files import new_file
from nextclick.runtime import Runtime
from nextclick.settings import Settings

OPENING = 1_735_689_600.0
"""When the shop opens: 2025-01-01, in seconds since 1970."""

SLICES_PER_DAY = 2
"""How often what is on sale, and how popular it is, is looked up anew."""

SESSIONS_PER_SLICE = 20_000
"""More visits than this are not held in memory at once."""

LONGEST = 60
"""The most clicks of a visit."""

PAUSE = 40.0
"""The median time between two clicks, in seconds."""

# What a visitor does after a click: these shares, and browsing the category for the rest.
SHARES = {"return": 0.12, "compare": 0.45, "match": 0.08, "leave": 0.04}
CUMULATIVE = np.cumsum(list(SHARES.values()))
RETURN, COMPARE, MATCH, LEAVE = range(len(SHARES))
TURN = 0.1
"""How often somebody who compares dearer items turns to cheaper ones, or the other way round."""


class ShopSettings(Settings):
    """Settings of the synthetic shop.

    Parameters
    ----------
    sessions
        How many visits there are.
    items
        How many items are sold over the whole time; by default, as many as such a shop has.
    days
        How long the shop is watched.
    mean_clicks
        The mean number of clicks of a visit; the least is two.
    """

    sessions: Annotated[int, Field(ge=1)] = 12_000
    items: Annotated[int, Field(ge=10)] | None = None
    days: Annotated[float, Field(ge=1)] = 60.0
    mean_clicks: Annotated[float, Field(gt=2, le=20)] = 5.0

    @property
    def n_items(self) -> int:
        """How many items are sold."""
        return self.items or max(30, round(18 * self.sessions**0.45))


def synthetic_shop(
    settings: ShopSettings | None = None, runtime: Runtime | None = None
) -> PreparedData:
    """Return a synthetic shop's clicks, split by time: the last tenth is the test part.

    Parameters
    ----------
    settings
        How large it is.
    runtime
        Its seed is what all is drawn from: the same seed gives the same clicks.

    Examples
    --------
    >>> data = synthetic_shop(ShopSettings(sessions=100), Runtime(seed=1))
    >>> data.train.n_sessions, data.validation.n_sessions, data.test.n_sessions
    (81, 9, 10)
    >>> data.catalog[0].title
    'Fjord Studio Moss Ash Snood'
    """
    settings, runtime = settings or ShopSettings(), runtime or Runtime()
    shop = _open(settings, runtime)
    slices = list(visits(shop, settings, runtime))
    log = ClickLog(
        np.concatenate([clicks.sessions for clicks in slices]),
        np.concatenate([clicks.items for clicks in slices]),
        np.concatenate([clicks.times for clicks in slices]),
    )
    test = settings.sessions - max(1, round(TEST_SHARE * settings.sessions))
    validation = validation_start(test, 0.1)
    description = Description(
        source=f"synthetic shop, seed {runtime.seed}",
        format="synthetic",
        split=f"test: the last {settings.sessions - test:,} sessions; validation: the last "
        f"{test - validation:,} sessions before them",
        settings=settings.model_dump(mode="json"),
    )
    items = shop.items(runtime.generator("titles"))
    return PreparedData.cut(log, items, validation=validation, test=test, description=description)


def write_shop(
    path: str | Path, settings: ShopSettings | None = None, runtime: Runtime | None = None
) -> int:
    """Write a synthetic shop's clicks to a CSV or Parquet file, in bounded memory.

    Parameters
    ----------
    path
        The file; its name ends in `.csv` or `.parquet`.
    settings, runtime
        As for `synthetic_shop`.

    Returns
    -------
    int
        The number of clicks.
    """
    path, settings, runtime = Path(path), settings or ShopSettings(), runtime or Runtime()
    if path.suffix not in (".csv", ".parquet"):
        raise BadInputError(f"{path}: give a file name that ends in .csv or .parquet")
    shop = _open(settings, runtime)
    frames = _Frames(shop, settings, runtime)
    lazy = register_io_source(frames, schema=frames.SCHEMA)
    with new_file(path) as aside:
        if path.suffix == ".csv":
            lazy.sink_csv(aside)
        else:
            lazy.sink_parquet(aside)
    return frames.written


def visits(shop: Shop, settings: ShopSettings, runtime: Runtime) -> Iterator[ClickLog]:
    """Yield the clicks of all visits in time order, a stretch of time after the other."""
    rng = runtime.generator("visits")
    duration = settings.days * DAY
    n_slices = math.ceil(
        max(settings.days * SLICES_PER_DAY, settings.sessions / SESSIONS_PER_SLICE)
    )
    edges = np.linspace(0, duration, n_slices + 1)
    counts = rng.multinomial(settings.sessions, _traffic((edges[:-1] + edges[1:]) / 2))
    waiting = ClickLog.of([])
    first = 0
    with runtime.progress("Visiting the synthetic shop", settings.sessions) as advance:
        for begin, end, count in zip(edges[:-1], edges[1:], counts.tolist(), strict=True):
            starts = np.sort(rng.uniform(begin, end, count))
            waiting = _joined(
                waiting, _Visitors(shop, begin, starts, first, settings, rng).clicks()
            )
            first += count
            done = int(np.searchsorted(waiting.times, OPENING + end))
            yield _rows(waiting, slice(0, done))
            waiting = _rows(waiting, slice(done, None))
            advance(count)
    yield waiting


class _Visitors:
    """Visitors who come in one stretch of time; they click in step, all at once.

    Parameters
    ----------
    shop
        What they visit.
    time
        When: it decides what is on sale, and how popular.
    starts
        When each visit begins.
    first
        The number of the first visit.
    """

    def __init__(
        self,
        shop: Shop,
        time: float,
        starts: Floats,
        first: int,
        settings: ShopSettings,
        rng: np.random.Generator,
    ) -> None:
        self._shop, self._rng = shop, rng
        self._on_sale = shop.on_sale(time)
        self._cumulative = np.concatenate([np.zeros(1), np.cumsum(shop.popularity(time))])
        self._edges = np.searchsorted(shop.category, np.arange(shop.n_categories + 1))
        n = len(starts)
        self._first, self._starts = first, starts
        self._lengths = np.minimum(1 + rng.geometric(1 / (settings.mean_clicks - 1), n), LONGEST)
        self._taste = np.empty((n, 2))
        self._direction = rng.choice([-1, 1], n)
        self._clicked = np.full((n, int(self._lengths.max(initial=0))), -1, dtype=np.int64)

    def clicks(self) -> ClickLog:
        """Return their clicks, in time order."""
        for step in range(self._clicked.shape[1]):
            here = np.flatnonzero(self._lengths > step)
            self._clicked[here, step] = self._next(here, step) if step else self._enter(here)
        happened = self._clicked >= 0
        visit, _ = np.nonzero(happened)
        pauses = self._rng.lognormal(math.log(PAUSE), 1.0, self._clicked.shape)
        pauses[:, :1] = 0
        since_opening = (self._starts[:, None] + np.cumsum(np.minimum(pauses, 1200), 1))[happened]
        times = np.round(OPENING + since_opening, 3)
        order = np.lexsort((visit, times))
        return ClickLog(self._first + visit[order], self._clicked[happened][order], times[order])

    def _enter(self, here: Ints) -> Ints:
        """Come for something popular, with a taste that is close to it."""
        found = self._drawn(np.zeros(len(here), np.int64), np.full(len(here), len(self._shop)))
        self._taste[here] = self._shop.style[found] + self._rng.normal(0, 0.12, (len(here), 2))
        return found

    def _next(self, here: Ints, step: int) -> Ints:
        current = self._clicked[here, step - 1]
        turning = self._rng.random(len(here)) < TURN
        self._direction[here] *= np.where(turning, -1, 1)
        chosen = self._browse(here, self._shop.category[current])
        doing = np.searchsorted(CUMULATIVE, self._rng.random(len(here)), side="right")
        before = self._clicked[here, self._rng.integers(step, size=len(here))]
        chosen = np.where(doing == RETURN, before, chosen)
        dearer = self._direction[here] > 0
        chosen = self._follow((doing == COMPARE) & dearer, self._shop.dearer, current, chosen)
        chosen = self._follow((doing == COMPARE) & ~dearer, self._shop.cheaper, current, chosen)
        chosen = self._follow(doing == MATCH, self._shop.goes_with, current, chosen)
        leaving = doing == LEAVE
        chosen[leaving] = self._enter(here[leaving])
        return chosen

    def _browse(self, here: Ints, category: Ints) -> Ints:
        """Look at three items of a category, popular ones more likely; click the most to taste."""
        low, high = self._edges[category], self._edges[category + 1]
        seen = np.stack([self._drawn(low, high) for _ in range(3)])
        off = np.square(self._shop.style[seen] - self._taste[here]).sum(axis=-1)
        found: Ints = np.take_along_axis(seen, off.argmin(axis=0)[None], axis=0)[0]
        return found

    def _follow(self, who: Mask, links: Ints, current: Ints, otherwise: Ints) -> Ints:
        """Go on to an item that is linked with the current one, where it is on sale."""
        rank = np.minimum(self._rng.geometric(0.4, len(current)) - 1, links.shape[1] - 1)
        linked = links[current, rank]
        followed: Ints = np.where(who & (linked >= 0) & self._on_sale[linked], linked, otherwise)
        return followed

    def _drawn(self, low: Ints, high: Ints) -> Ints:
        """Draw an item by popularity from each stretch ``low:high`` of the items."""
        below, above = self._cumulative[low], self._cumulative[high]
        value = below + self._rng.random(len(low)) * (above - below)
        drawn: Ints = np.searchsorted(self._cumulative, value, side="right") - 1
        return np.minimum(drawn, high - 1)


class _Frames:
    """The clicks as data frames with the columns that `prepare` expects."""

    SCHEMA = pl.Schema(
        {
            "session_id": pl.Int64,
            "item_id": pl.String,
            "timestamp": pl.Int64,
            "title": pl.String,
            "category": pl.String,
        }
    )

    def __init__(self, shop: Shop, settings: ShopSettings, runtime: Runtime) -> None:
        self._shop, self._settings, self._runtime = shop, settings, runtime
        self.written = 0

    def __call__(
        self,
        with_columns: list[str] | None,  # noqa: ARG002 - what polars hands over; all are wanted
        predicate: pl.Expr | None,  # noqa: ARG002 - the same
        n_rows: int | None,  # noqa: ARG002 - the same
        batch_size: int | None,  # noqa: ARG002 - the same
    ) -> Iterator[pl.DataFrame]:
        items = pl.DataFrame(
            self._shop.items(self._runtime.generator("titles")),
            schema={"item_id": pl.String, "title": pl.String, "category": pl.String},
        )
        for log in visits(self._shop, self._settings, self._runtime):
            described = items[log.items]
            self.written += len(log)
            yield (
                pl.DataFrame(
                    {
                        "session_id": log.sessions,
                        "timestamp": np.round(log.times * 1000).astype(np.int64),
                    }
                )
                .hstack(described)
                .select(list(self.SCHEMA))
            )


def _open(settings: ShopSettings, runtime: Runtime) -> Shop:
    return Shop.open(settings.n_items, settings.days * DAY, runtime.generator("shop"))


def _traffic(times: Floats) -> Floats:
    """Return the share of the visits at each time: more in the evening, more at the weekend."""
    day = 1 + 0.6 * np.sin(2 * np.pi * (times / DAY - 0.4))
    week = 1 + 0.2 * np.sin(2 * np.pi * times / (7 * DAY))
    shares: Floats = day * week / (day * week).sum()
    return shares


def _joined(first: ClickLog, second: ClickLog) -> ClickLog:
    times = np.concatenate([first.times, second.times])
    sessions = np.concatenate([first.sessions, second.sessions])
    items = np.concatenate([first.items, second.items])
    order = np.lexsort((sessions, times))
    return ClickLog(sessions[order], items[order], times[order])


def _rows(log: ClickLog, rows: slice) -> ClickLog:
    return ClickLog(log.sessions[rows], log.items[rows], log.times[rows])
