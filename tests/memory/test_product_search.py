"""The compiled search of product codes, against the same written out and against FAISS's own."""

import faiss
import numpy as np
import pytest

from nextclick.memory import MemorySettings
from nextclick.memory.inverted_file import InvertedFile
from nextclick.memory.product_search import ROUNDING, WORDS

K, PROBES = 30, 3


def keys_of(n, dimension, seed):
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(9).standard_normal((40, dimension))
    noise = 0.4 * random.standard_normal((n, dimension))
    return (centres[random.integers(40, size=n)] + noise).astype(np.float32)


def filled(codes, dimension, size=None):
    """Return an inverted file in which a third of the entries are alike, some removed again."""
    settings = MemorySettings(
        codes=codes, clusters=20, probes=PROBES, neighbours=K, size=size, rotate=False
    )
    lists = InvertedFile.trained(settings, keys_of(10_000, dimension, seed=1))
    keys = keys_of(3_000, dimension, seed=2)
    keys[::3] = keys[0]
    for start in range(0, len(keys), 500):
        part = slice(start, start + 500)
        numbers = np.arange(start, start + 500)
        lists.add(keys[part], numbers, numbers // 4 - 1)
    return lists


def written_out(lists, query):
    """Return (distance, age, item, session) of all entries in the nearest clusters, in order."""
    index, oldest = lists._index, lists._oldest
    words = faiss.vector_to_array(index.pq.centroids).reshape(index.pq.M, WORDS, -1)
    turned = query @ lists._matrix
    gaps = ((lists._centroids - turned) ** 2).sum(1)
    entries = []
    for cluster in np.argsort(gaps)[:PROBES].tolist():
        n = index.invlists.list_size(cluster)
        if not n:
            continue
        ids = faiss.rev_swig_ptr(index.invlists.get_ids(cluster), n)
        codes = faiss.rev_swig_ptr(index.invlists.get_codes(cluster), n * index.pq.M)
        for id_, code in zip(ids.tolist(), codes.reshape(n, -1), strict=True):
            meant = lists._centroids[cluster] + words[np.arange(index.pq.M), code].reshape(-1)
            distance = float(((turned - meant) ** 2).sum())
            distance = 0.0 if distance <= ROUNDING * (turned**2).sum() else distance
            place = (id_ >> 32) - oldest
            item = int(lists._items.values[place])
            session = int(np.uint32(id_ & 0xFFFFFFFF).astype(np.int32))
            entries.append((distance, len(lists) - 1 - place, item, session))
    return entries


@pytest.mark.parametrize("size", [None, 1_700])
@pytest.mark.parametrize(("codes", "dimension"), [("PQ4", 16), ("PQ16", 16), ("PQ7", 21)])
def test_it_finds_what_the_search_written_out_finds(codes, dimension, size):
    lists = filled(codes, dimension, size)
    queries = np.concatenate([keys_of(20, dimension, seed=3), keys_of(1, dimension, seed=2)])
    found = lists.search(queries, K)
    for row, query in enumerate(queries):
        entries = written_out(lists, query)
        about = {entry[1]: entry for entry in entries}
        distances = np.sort([entry[0] for entry in entries])[:K]
        np.testing.assert_allclose(found.distances[row], distances, rtol=1e-4, atol=1e-6)
        for k, age in enumerate(found.ages[row].tolist()):
            distance, _, item, session = about[age]
            assert (item, session) == (found.items[row, k], found.sessions[row, k])
            assert distance == pytest.approx(found.distances[row, k], rel=1e-4, abs=1e-6)
        # Of entries alike, those found are the newest.
        alike = sorted(e[1] for e in entries if e[0] == about[found.ages[row, -1]][0])
        there = sorted(set(alike) & set(found.ages[row].tolist()))
        assert there == alike[: len(there)]
        assert (np.diff(found.ages[row])[np.diff(found.distances[row]) == 0] > 0).all()


def test_it_finds_what_faiss_finds():
    lists = filled("PQ4", 16)
    queries = keys_of(200, 16, seed=3)
    found = lists.search(queries, K)
    lists._products = None
    by_faiss = lists.search(queries, K)
    np.testing.assert_allclose(found.distances, by_faiss.distances, rtol=1e-4, atol=1e-6)
    assert (found.items == by_faiss.items).mean() > 0.99


def test_what_it_lacks_is_filled_up():
    found = filled("PQ4", 16).search(keys_of(3, 16, seed=4), 5_000)
    nothing = found.items < 0
    assert nothing.any(axis=1).all()
    assert (np.diff(nothing.astype(int), axis=1) >= 0).all()
    assert np.isinf(found.distances[nothing]).all()
    assert np.isfinite(found.distances[~nothing]).all()
    assert (found.sessions[nothing] == -1).all()
    assert (found.ages[nothing] == -1).all()
