"""The visitors of `nextclick serve --demo`, in a small shop."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from nextclick.catalog import Item
from nextclick.clicks import ClickLog
from nextclick.serving import demonstration
from nextclick.serving.demonstration import Demonstration


def test_visitors_click_and_items_are_described(service: Any) -> None:
    items = [Item(f"HAT-{n}", title=f"Hat {n}", category="Hats") for n in range(5)]
    sessions = np.repeat(np.arange(1_000), 3)
    coming = ClickLog(sessions, np.arange(3_000) % 5, np.arange(3_000.0))
    shop = Demonstration(coming, items, iter([coming]))

    async def visit_for_a_while() -> None:
        await asyncio.wait_for(shop.visit(service.url), 2.5)

    before = service.http.get("/v1/stats").json()["clicks"]
    with pytest.raises(TimeoutError):
        asyncio.run(visit_for_a_while())
    clicked = service.http.get("/v1/sessions/visitor 0").json()["clicks"]
    assert [each["item_id"] for each in clicked] == ["HAT-0", "HAT-1", "HAT-2"]
    assert service.http.get("/v1/items/HAT-2").json()["title"] == "Hat 2"
    assert service.http.get("/v1/stats").json()["clicks"] - before < 4 * 25


def test_the_shop_opens_with_a_past_to_learn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    small = demonstration.ShopSettings(sessions=600, items=60, days=60)
    monkeypatch.setattr(demonstration, "SHOP", small)
    monkeypatch.setattr(demonstration, "PAST_DAYS", 20)
    runtime = demonstration.Runtime(seed=1, threads=1, show_progress=False)
    shop = Demonstration.open(runtime)
    assert 100 < shop.past.n_sessions < 300
    coming = next(log for log in shop.coming if len(log))
    assert coming.times[0] >= shop.past.times[-1]
    model = shop.model(runtime)
    assert model.label == "MAN-NARM"
    assert model.recommend_one([shop.items[int(shop.past.items[0])].id], k=5)
