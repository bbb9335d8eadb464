"""The Python client, against a real service."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from nextclick.client import AsyncClient, Client, RefusedError
from nextclick.serving.keys import Keys

ODD = "a/b c?d=é&#靴%2F"


@pytest.fixture(scope="module")
def shop(
    serving: Any, popularity_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """A service, and a key of it."""
    folder = tmp_path_factory.mktemp("client")
    key = Keys(folder / "s").add("shop", ["read", "write"])
    with serving(folder, str(popularity_model), "--state", str(folder / "s")) as running:
        yield running.url, key


def test_a_visit(shop: tuple[str, str]) -> None:
    url, key = shop
    with Client(url, key=key) as client:
        first = client.click("visit", "item 4", timestamp=1e9, event_id="e1", recommend=5)
        assert not first["duplicate"]
        assert len(first["recommendations"]["items"]) == 5
        assert client.click("visit", "item 4", event_id="e1") == {"duplicate": True}
        more = [{"session_id": "visit", "item_id": item} for item in ("item 5", 17)]
        assert client.clicks(more) == {"accepted": 2, "duplicates": 0}
        kept = client.session("visit")["clicks"]
        assert [each["item_id"] for each in kept] == ["item 4", "item 5", "17"]
        assert kept[0] == {"item_id": "item 4", "timestamp": 1e9, "event_id": "e1"}
        told = client.recommend(
            session_id="visit", k=3, exclude=["item 1"], exclude_seen=True, explain=True
        )
        assert not {"item 1", "item 4", "item 5"} & {each["item_id"] for each in told["items"]}
        assert client.stats()["model"]["label"] == "Popularity"


def test_lists_and_items(shop: tuple[str, str]) -> None:
    url, key = shop
    with Client(url, key=key) as client:
        assert client.put_item(ODD, title="Odd", category="hats")["item_id"] == ODD
        assert client.item(ODD)["category"] == "hats"
        client.put_item("item 7", title="The 7th", category="hats")
        hats = client.recommend(["item 1"], k=20, categories=["hats"])["items"]
        assert [hat["item_id"] for hat in hats] == ["item 7"]
        many = client.recommend_many([["item 1"], [], ["item 2", "item 3"]], k=2)
        assert [len(answer["items"]) for answer in many] == [2, 2, 2]
        assert [answer["cold"] for answer in many] == [False, True, False]


def test_refusals_say_why(shop: tuple[str, str]) -> None:
    url, key = shop
    with Client(url) as stranger, pytest.raises(RefusedError, match="401 no_key") as refused:
        stranger.stats()
    assert refused.value.status == 401
    with Client(url, key=key) as client:
        with pytest.raises(RefusedError) as refused:
            client.recommend(["item 1"], k=1_001)
        assert refused.value.problem["limit"] == {"k": 1_000}
        with pytest.raises(TypeError, match="either items or session_id"):
            client.recommend(["item 1"], session_id="visit")
        with pytest.raises(TypeError, match="unknown"):
            client.click("visit", "item 1", recommend=1, unknown=True)
        with pytest.raises(TypeError, match="recommend"):
            client.click("visit", "item 1", explain=True)
    with Client("http://127.0.0.1:9") as nobody, pytest.raises(httpx.ConnectError):
        nobody.stats()


def test_the_same_with_asyncio(shop: tuple[str, str]) -> None:
    url, key = shop

    async def visit() -> list[Any]:
        async with AsyncClient(url, key=key) as client:
            clicked = [client.click(f"async {n}", f"item {n}", recommend=3) for n in range(8)]
            answers = list(await asyncio.gather(*clicked))
            await client.clicks([{"session_id": "async 0", "item_id": "item 9"}])
            await client.put_item("hat", title="Hat")
            answers += [await client.recommend(session_id="async 0", k=3, exclude_seen=True)]
            answers += await client.recommend_many([["item 3"]], k=1)
            answers += [await client.session("async 0"), await client.stats()]
            answers += [await client.item("hat")]
            with pytest.raises(RefusedError):
                await client.session("nobody")
        return answers

    *clicked, told, one, session, stats, hat = asyncio.run(visit())
    assert all(len(answer["recommendations"]["items"]) == 3 for answer in clicked)
    assert len(told["items"]) == 3
    assert len(one["items"]) == 1
    assert [each["item_id"] for each in session["clicks"]] == ["item 0", "item 9"]
    assert stats["model"]["label"] == "Popularity"
    assert hat["title"] == "Hat"


def test_both_clients_have_the_same_functions() -> None:
    def functions(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(function).parameters)
            for name, function in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    assert functions(Client) == functions(AsyncClient)


def test_the_client_needs_httpx_alone() -> None:
    code = (
        "import sys, nextclick.client;"
        "heavy = {'torch', 'faiss', 'polars', 'numba', 'numpy', 'msgspec', 'pydantic'};"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
