import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nextclick.memory import MemorySettings
from nextclick.memory.exact import ExactMemory, candidates


def search_by_list(entries, query, k):
    """A plain list of (key, item, session), searched literally: nearest, then newest, first."""
    ranked = sorted(
        (float(((key.astype(float) - query) ** 2).sum()), -age, item, session)
        for age, (key, item, session) in enumerate(entries)
    )
    return [(d, item, session) for d, _, item, session in ranked[:k]]


def found_in(answer, row):
    there = answer.items[row] >= 0
    return list(
        zip(
            answer.distances[row][there].tolist(),
            answer.items[row][there].tolist(),
            answer.sessions[row][there].tolist(),
            strict=True,
        )
    )


# On a grid of integers float32 is exact, and ties abound.
grids = hnp.arrays(
    np.float32, st.tuples(st.integers(1, 30), st.just(2)), elements=st.integers(0, 2)
)


@given(
    st.lists(grids, max_size=5), grids, st.one_of(st.none(), st.integers(1, 12)), st.integers(1, 9)
)
def test_it_is_the_plain_list_bounded_or_not(batches, queries, size, k):
    memory = ExactMemory(MemorySettings(kind="exact", size=size, normalise=False), 2)
    entries = []
    for keys in batches:
        numbers = len(entries) + np.arange(len(keys))
        memory.add(keys, numbers, numbers // 3 - 1)
        entries += zip(keys, numbers.tolist(), (numbers // 3 - 1).tolist(), strict=True)
        assert len(memory) == min(len(entries), size or len(entries))
    kept = entries if size is None else entries[-size:]
    answer = memory.search(queries, k)
    for row, query in enumerate(queries):
        assert found_in(answer, row) == search_by_list(kept, query, k)


def clustered_keys(n, dimension=24, seed=0):
    random = np.random.default_rng(seed)
    centres = random.standard_normal((40, dimension))
    keys = centres[random.integers(40, size=n)] + 0.1 * random.standard_normal((n, dimension))
    return keys.astype(np.float32)


def test_it_is_the_plain_list_over_many_chunks():
    keys = clustered_keys(30_000)
    keys[5_000:9_000] = keys[3]
    memory = ExactMemory(MemorySettings(kind="exact", normalise=False), 24)
    memory.add(keys, np.arange(30_000), np.zeros(30_000, dtype=np.int64))
    queries = np.concatenate([keys[:3], clustered_keys(300, seed=1)])
    answer = memory.search(queries, 150)
    for row in (0, 2, 7, 150, 302):
        differences = keys.astype(np.float64) - queries[row]
        distances = (differences**2).sum(1)
        nearest = np.lexsort((-np.arange(30_000), distances))[:150]
        assert answer.items[row].tolist() == nearest.tolist()
        assert answer.distances[row] == pytest.approx(distances[nearest], rel=1e-5)


def test_of_many_repeats_the_newest_are_found_at_distance_zero():
    keys = clustered_keys(20_000)
    keys[4_000:12_000] = keys[3]
    memory = ExactMemory(MemorySettings(kind="exact"), 24)
    memory.add(keys, np.arange(20_000), np.zeros(20_000, dtype=np.int64))
    # The representation of the same context, as another batch rounds it.
    query = keys[3:4] * np.float32(1 + 1e-6) + np.float32(1e-7)
    answer = memory.search(query, 50)
    assert answer.items[0].tolist() == list(range(11_999, 11_949, -1))
    assert not answer.distances.any()


def test_candidates_hold_the_nearest_though_products_round():
    # Far from the origin, |x|² - 2qx loses every digit that tells these keys apart.
    keys = 1000 + np.random.default_rng(0).standard_normal((5_000, 16)).astype(np.float32)
    squares = np.einsum("ij,ij->i", keys, keys)
    distances = ((keys.astype(np.float64) - keys[17]) ** 2).sum(1)
    _, entries = candidates(keys[17:18], keys, squares, 10)
    assert set(np.argsort(distances)[:10]) <= set(entries.tolist())
