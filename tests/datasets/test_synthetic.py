"""The synthetic shop is one: repeatable, of any size, with news, repeats and a structure."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from nextclick.datasets import PreparedData, PrepareSettings, prepare
from nextclick.datasets.synthetic import ShopSettings, synthetic_shop, write_shop
from nextclick.errors import BadInputError
from nextclick.runtime import Runtime

CHECK_OF_MEMORY = """
import resource, sys
from nextclick.datasets.synthetic import ShopSettings, write_shop
write_shop(sys.argv[1], ShopSettings(sessions=int(sys.argv[2]), days=10))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.fixture(scope="module")
def shop() -> PreparedData:
    return synthetic_shop(runtime=Runtime(seed=3))


@pytest.mark.parametrize("sessions", [300, 3_000])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_news_among_the_test_clicks(sessions: int, seed: int) -> None:
    data = synthetic_shop(ShopSettings(sessions=sessions), Runtime(seed=seed))
    new = data.test.items >= data.n_train_items
    assert 0.05 <= new.mean() <= 0.4
    assert data.test.n_sessions == sessions / 10


def test_the_default_has_news_too(shop: PreparedData) -> None:
    assert 0.05 <= (shop.test.items >= shop.n_train_items).mean() <= 0.3
    assert shop.train.n_sessions + shop.validation.n_sessions + shop.test.n_sessions == 12_000


def test_the_same_seed_gives_the_same_clicks() -> None:
    settings = ShopSettings(sessions=200)
    one, same, other = (synthetic_shop(settings, Runtime(seed=seed)) for seed in (5, 5, 6))
    assert one.train.items.tolist() == same.train.items.tolist()
    assert one.train.times.tolist() == same.train.times.tolist()
    assert list(one.catalog) == list(same.catalog)
    assert one.train.items.tolist() != other.train.items.tolist()


def test_popularity_is_skewed_and_drifts(shop: PreparedData) -> None:
    clicks = np.sort(np.bincount(shop.train.items))[::-1]
    assert clicks[: len(clicks) // 10].sum() > 0.3 * clicks.sum()
    assert clicks[0] < 0.1 * clicks.sum()
    early, late = np.array_split(shop.train.items, 5)[0], np.array_split(shop.train.items, 5)[-1]
    n = shop.n_train_items
    best = [
        set(np.argsort(-np.bincount(part, minlength=n))[:50].tolist()) for part in (early, late)
    ]
    assert 5 < len(best[0] & best[1]) < 40


def test_items_come_go_and_are_news_when_they_come(shop: PreparedData) -> None:
    times = shop.train.times
    first = np.full(shop.n_train_items, np.inf)
    last = np.full(shop.n_train_items, -np.inf)
    np.minimum.at(first, shop.train.items, times)
    np.maximum.at(last, shop.train.items, times)
    span = times[-1] - times[0]
    assert (first > times[0] + 0.3 * span).mean() > 0.1
    assert (last < times[-1] - 0.3 * span).mean() > 0.1
    # Of the items that came halfway, more clicks fall in their first days than in the same time
    # later on.
    came = np.flatnonzero((first > times[0] + 0.2 * span) & (first < times[0] + 0.5 * span))
    age = times - first[shop.train.items]
    young = np.isin(shop.train.items, came) & (age < 0.1 * span)
    older = np.isin(shop.train.items, came) & (age >= 0.2 * span) & (age < 0.3 * span)
    assert young.sum() > 1.5 * older.sum()


def test_what_was_clicked_tells_what_comes_next(shop: PreparedData) -> None:
    following: dict[int, Counter[int]] = {}
    for context, item in shop.train.transitions():
        following.setdefault(int(context[-1]), Counter())[int(item)] += 1
    popular = {item for item, _ in Counter(shop.train.items.tolist()).most_common(20)}
    hits = {"popular": 0, "after the last": 0}
    transitions = shop.test.transitions()
    for context, item in transitions:
        after = following.get(int(context[-1]), Counter()).most_common(20)
        hits["popular"] += int(item) in popular
        hits["after the last"] += int(item) in dict(after)
    assert hits["after the last"] > 3 * hits["popular"]
    assert 0.4 * len(transitions) < hits["after the last"] < 0.6 * len(transitions)
    repeats = np.mean([int(item) in context for context, item in transitions])
    assert 0.15 < repeats < 0.5


def test_titles_and_categories(shop: PreparedData) -> None:
    titles = [item.title for item in shop.catalog]
    assert len(set(titles)) == len(titles)
    assert all(title and len(title) < 60 for title in titles)
    assert len({item.category for item in shop.catalog}) == 20


@pytest.mark.parametrize("name", ["shop.csv", "shop.parquet"])
def test_what_is_written_is_what_is_generated(name: str, tmp_path: Path) -> None:
    settings, runtime = ShopSettings(sessions=500, days=8), Runtime(seed=2)
    clicks = write_shop(tmp_path / name, settings, runtime)
    written = prepare(tmp_path / name, PrepareSettings(min_item_clicks=1))
    expected = synthetic_shop(settings, runtime)
    assert clicks == sum(map(len, expected.parts.values()))
    for part, log in expected.parts.items():
        assert written.parts[part].items.tolist() == log.items.tolist()
        assert written.parts[part].sessions.tolist() == log.sessions.tolist()
        assert np.allclose(written.parts[part].times, log.times, atol=1e-6)
    assert list(written.catalog) == list(expected.catalog)


def test_the_file_is_in_time_order_whatever_is_held_in_memory(tmp_path: Path) -> None:
    write_shop(tmp_path / "shop.parquet", ShopSettings(sessions=60_000, days=1), Runtime())
    table = pl.read_parquet(tmp_path / "shop.parquet")
    assert table["timestamp"].is_sorted()
    assert table["session_id"].n_unique() == 60_000
    lengths = table.group_by("session_id").len()["len"]
    assert lengths.min() == 2


def test_the_size_costs_no_memory(tmp_path: Path) -> None:
    peaks = []
    for sessions in (1_000, 150_000):
        command = [sys.executable, "-c", CHECK_OF_MEMORY, str(tmp_path / "x.csv"), str(sessions)]
        peaks.append(int(subprocess.run(command, check=True, capture_output=True).stdout))
    assert peaks[1] - peaks[0] < 40_000, "KiB; all clicks at once would be more than 60,000"


def test_a_name_that_says_no_format(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"ends in \.csv or \.parquet"):
        write_shop(tmp_path / "shop.xlsx")
