"""`nextclick serve --demo`: a synthetic shop, a small model, and visitors who click in it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace

import httpx
import numpy as np

from nextclick.catalog import Item
from nextclick.clicks import ClickLog
from nextclick.client import AsyncClient, RefusedError
from nextclick.datasets.prepared import PreparedData
from nextclick.datasets.shop import DAY, Shop
from nextclick.datasets.synthetic import ShopSettings, visits
from nextclick.methods import create
from nextclick.recommender import Recommender
from nextclick.runtime import Runtime
from nextclick.serving.logs import event

SHOP = ShopSettings(sessions=100_000, items=1_500, days=1_000)
"""A shop that is open for long: its visitors do not come twice."""

PAST_DAYS = 40
"""Of so many days the model has learned the clicks when the service opens."""

VALIDATION = 0.1
CLICKS_PER_SECOND = 25.0

MODEL = {
    "neural": {
        "encoder": {"embedding": 32, "hidden": 64},
        "training": {"epochs": 4, "batch": 256},
    }
}
"""Small, so that it is trained in seconds."""


@dataclass(frozen=True, eq=False)
class Demonstration:
    """The shop: its past, from which a model is made, and its visitors to come.

    Parameters
    ----------
    past
        The clicks of the first days.
    items
        All that will ever be sold.
    coming
        The clicks after those of the past, a few hours at a time.
    """

    past: ClickLog
    items: list[Item]
    coming: Iterator[ClickLog]

    @classmethod
    def open(cls, runtime: Runtime) -> Demonstration:
        """Open the shop."""
        shop = Shop.open(SHOP.n_items, SHOP.days * DAY, runtime.generator("shop"))
        coming = visits(shop, SHOP, runtime)
        slices = [next(coming)]
        opening = float(slices[0].times[0]) if len(slices[0]) else 0.0
        while not len(slices[-1]) or slices[-1].times[-1] < opening + PAST_DAYS * DAY:
            slices.append(next(coming))
        past = ClickLog(
            np.concatenate([clicks.sessions for clicks in slices]),
            np.concatenate([clicks.items for clicks in slices]),
            np.concatenate([clicks.times for clicks in slices]),
        )
        return cls(past, shop.items(runtime.generator("titles")), coming)

    def model(self, runtime: Runtime) -> Recommender:
        """Return MAN, trained on the past."""
        n = self.past.n_sessions
        begun = int(self.past.sessions.max()) + 1
        validation = begun - max(1, round(VALIDATION * n))
        data = PreparedData.cut(self.past, self.items, validation=validation, test=begun)
        # One thread: for a model as small as this, two take longer where other programs run.
        return create("man", MODEL, replace(runtime, threads=1)).fit(
            data.train, validation=data.validation, catalog=data.catalog
        )

    async def visit(self, address: str) -> None:
        """Let the visitors click, and see 20 recommendations after each click."""
        described: set[int] = set()
        pause = 1 / CLICKS_PER_SECOND
        loop = asyncio.get_running_loop()
        due = loop.time()
        async with AsyncClient(address) as client:
            for log in self.coming:
                for session, item, _ in log:
                    due = max(due + pause, loop.time() - 1)
                    await asyncio.sleep(due - loop.time())
                    try:
                        await self._click(client, session, self.items[item], described, item)
                    except (httpx.HTTPError, RefusedError) as error:
                        event("a_simulated_visitor_was_refused", reason=str(error))
                        await asyncio.sleep(1)
        event("the_simulated_visitors_have_left")

    @staticmethod
    async def _click(
        client: AsyncClient, session: int, item: Item, described: set[int], number: int
    ) -> None:
        if number not in described:
            await client.put_item(item.id, title=item.title, category=item.category)
            described.add(number)
        await client.click(f"visitor {session}", item.id, recommend=20)
