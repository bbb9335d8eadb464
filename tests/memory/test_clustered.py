import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nextclick.errors import BadInputError
from nextclick.memory import MemorySettings, make_memory
from nextclick.memory.exact import ExactMemory
from nextclick.memory.inverted_file import InvertedFile

DIMENSION = 16
FEW = {"clusters": 32, "codes": "PQ4", "probes": 32, "rotate": False}


def keys_of(n, seed=0, dimension=DIMENSION):
    """Keys around centres around centres, as sessions lie around intents around tastes."""
    random = np.random.default_rng(seed)
    tastes = np.random.default_rng(99).standard_normal((30, dimension))
    intents = np.random.default_rng(98).standard_normal((400, dimension))
    taste = random.integers(30, size=n)
    intent = random.integers(400, size=n)
    noise = random.standard_normal((n, dimension))
    return (tastes[taste] + 0.6 * intents[intent] + 0.25 * noise).astype(np.float32)


@pytest.fixture(scope="module")
def trained():
    """Return memories trained on the same keys, without training again."""
    states = {}

    def memory(size=None, **changes):
        chosen = MemorySettings(**{**FEW, **changes}, size=size)
        kind = chosen.codes, chosen.rotate
        if kind not in states:
            fresh = make_memory(chosen, DIMENSION)
            fresh.train(keys_of(12_000, seed=5))
            states[kind] = fresh.state()
        new = make_memory(chosen, DIMENSION)
        new.restore({name: array.copy() for name, array in states[kind].items()})
        return new

    return memory


def fill(memory, n, seed=0, first=0):
    memory.add(keys_of(n, seed), first + np.arange(n), (first + np.arange(n)) // 3 - 1)


def same(one, other):
    return (
        np.array_equal(one.distances, other.distances)
        and np.array_equal(one.items, other.items)
        and np.array_equal(one.sessions, other.sessions)
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    st.lists(st.integers(1, 40), max_size=12),
    st.one_of(st.none(), st.integers(1, 60)),
    st.sampled_from([0, 2**30 - 30]),
)
def test_it_holds_what_the_plain_list_holds(trained, batches, size, oldest):
    memory = trained(size)
    memory.restore({**memory.state(), "oldest": np.array(oldest)})
    expected = []
    for number, n in enumerate(batches):
        fill(memory, n, seed=number, first=len(expected))
        expected += range(len(expected), len(expected) + n)
        kept = expected if size is None else expected[-size:]
        assert len(memory) == len(kept)
        answer = memory.search(keys_of(1, seed=number), 500)
        there = answer.items[0] >= 0
        assert sorted(answer.items[0][there].tolist()) == kept
        assert (answer.sessions[0][there] == answer.items[0][there] // 3 - 1).all()
        assert np.isinf(answer.distances[0][~there]).all()


def test_of_entries_it_cannot_tell_apart_the_newest_are_found_first(trained):
    memory = trained(probes=2)
    fill(memory, 1_000)
    repeated = np.repeat(keys_of(3, seed=7), 400, axis=0)
    memory.add(repeated, 1_000 + np.arange(1_200), np.zeros(1_200, dtype=np.int64))
    fill(memory, 1_000, seed=2, first=2_200)
    answer = memory.search(keys_of(3, seed=7), 100)
    for row, newest in enumerate((1_399, 1_799, 2_199)):
        expected = range(newest, newest - 100, -1)
        # Others may have the very same code; of these, too, the newest come first.
        among = [item for item in answer.items[row].tolist() if item in expected]
        assert among == list(expected)[: len(among)]
        assert len(among) > 50
        assert (np.diff(answer.items[row])[np.diff(answer.distances[row]) == 0] < 0).all()


@pytest.mark.parametrize("size", [None, 700])
def test_after_a_restore_everything_goes_on_as_if_nothing_had_happened(trained, size):
    memory, queries = trained(size, probes=3), keys_of(50, seed=1)
    fill(memory, 900)
    copy = trained(size, probes=3)
    copy.restore({name: array.copy() for name, array in memory.state().items()})
    assert same(memory.search(queries), copy.search(queries))
    assert memory.nbytes == copy.nbytes
    for each in (memory, copy):
        # FAISS would make one on reading, of more bytes than a million entries' codes.
        assert each._entries._index.precomputed_table.size() == 0
    for step in range(8):
        fill(memory, 100, seed=step, first=900)
        fill(copy, 100, seed=step, first=900)
    assert same(memory.search(queries), copy.search(queries))
    assert len(memory) == len(copy) == (size or 1700)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("codes", ["PQ4", "SQ8", "Flat"])
def test_a_batch_is_its_rows(trained, threads, codes):
    memory = trained(codes=codes, probes=3)
    memory.threads = threads
    fill(memory, 5_000)
    queries = keys_of(200, seed=1)
    rows = [memory.search(query[None]) for query in queries]
    batch = memory.search(queries)
    for row, alone in enumerate(rows):
        assert np.array_equal(batch.items[row], alone.items[0])
        assert np.array_equal(batch.distances[row], alone.distances[0])


def recall(memory, exact, queries, k=100):
    found = memory.search(queries, k).items
    true = exact.search(queries, k).items
    return np.mean([len(set(f) & set(t)) / k for f, t in zip(found, true, strict=True)])


def test_it_finds_what_the_exact_memory_finds(trained):
    exact = ExactMemory(MemorySettings(kind="exact"), DIMENSION)
    fill(exact, 20_000)
    queries = keys_of(200, seed=1)

    def recall_of(**changes):
        memory = trained(**changes)
        fill(memory, 20_000)
        return recall(memory, exact, queries)

    assert recall_of(codes="Flat") == 1
    assert recall_of(codes="SQ8") > 0.95
    assert recall_of(codes="PQ8") > 0.8
    assert recall_of(codes="PQ4") > 0.5
    assert recall_of(codes="PQ4", rotate=True) > recall_of(codes="PQ4")
    assert recall_of(codes="SQ8", probes=4) > 0.5


def test_with_few_entries_it_finds_as_many_as_it_has(trained):
    memory = trained(probes=1)
    fill(memory, 60)
    assert (memory.search(keys_of(20, seed=1), 60).items >= 0).all()


def test_a_repeat_in_a_young_memory_is_at_distance_zero():
    memory = make_memory(MemorySettings(), DIMENSION)
    fill(memory, 500)
    answer = memory.search(keys_of(500))
    assert answer.items[:, 0].tolist() == list(range(500))
    assert not answer.distances[:, 0].any()


def test_untrained_it_learns_from_its_own_entries(trained):
    memory = make_memory(MemorySettings(**FEW), DIMENSION)
    exact = ExactMemory(MemorySettings(kind="exact"), DIMENSION)
    memory.train(keys_of(500))
    queries = keys_of(50, seed=1)
    for step in range(5):
        for each in (memory, exact):
            fill(each, 2_200, seed=step, first=2_200 * step)
        assert len(memory) == len(exact)
        if step == 3:
            assert same(memory.search(queries), exact.search(queries))
    assert memory.nbytes < exact.nbytes / 2
    assert recall(memory, exact, queries) > 0.5
    assert set(memory.state()) == set(trained().state())


def test_a_bound_below_what_training_needs_keeps_the_memory_exact():
    memory = make_memory(MemorySettings(**FEW, size=300), DIMENSION)
    for step in range(50):
        fill(memory, 250, seed=step, first=250 * step)
    assert len(memory) == 300
    assert memory.search(keys_of(250, seed=49)).distances[:, 0].max() == 0
    assert memory.search(keys_of(1, seed=48), 300).items.min() == 50 * 250 - 300


def test_training_comes_before_or_after_the_entries(trained):
    before, after = trained(), make_memory(MemorySettings(**FEW), DIMENSION)
    fill(before, 300)
    fill(after, 300)
    after.train(keys_of(12_000, seed=5))
    queries = keys_of(50, seed=1)
    assert same(before.search(queries), after.search(queries))


def test_training_happens_once(trained):
    memory, again = trained(), trained()
    again.train(keys_of(12_000, seed=6))
    before, after = memory.state()[InvertedFile.INDEX], again.state()[InvertedFile.INDEX]
    assert np.array_equal(before, after)


def test_training_is_silent(capfd):
    memory = make_memory(MemorySettings(**{**FEW, "clusters": 1_024}), DIMENSION)
    memory.train(keys_of(10_000))
    assert capfd.readouterr() == ("", "")


def test_a_search_changes_nothing(trained):
    memory = trained(size=700)
    fill(memory, 900)
    before = memory.state()
    memory.search(keys_of(50), 10)
    assert all(np.array_equal(before[name], array) for name, array in memory.state().items())


@pytest.mark.parametrize("rotate", [True, False])
def test_parts_need_not_divide_the_dimension(rotate):
    memory = make_memory(MemorySettings(**{**FEW, "rotate": rotate}), 10)
    memory.train(keys_of(10_000, dimension=10))
    keys = keys_of(3_000, seed=1, dimension=10)
    memory.add(keys, np.arange(3_000), np.zeros(3_000, dtype=np.int64))
    found = memory.search(keys[:100], 50).items
    assert (found == np.arange(100)[:, None]).any(1).mean() > 0.9


@pytest.mark.parametrize("codes", ["", "PQ", "XQ8", "PQ8,RFlat", "Flat,HNSW8"])
def test_codes_that_are_none_are_refused(codes):
    with pytest.raises(BadInputError, match="memory codes"):
        make_memory(MemorySettings(codes=codes), DIMENSION)


def test_clusters_without_entries_do_not_hide_the_newest_of_equals(trained):
    memory = trained()
    alike = np.repeat(keys_of(1), 300, axis=0)  # all in one cluster, 31 are empty
    memory.add(alike, np.arange(300), np.arange(300))
    far_away = -alike[:1]  # looks into empty clusters first
    for query in (alike[:1], far_away):
        assert memory.search(query, 5).items[0].tolist() == [299, 298, 297, 296, 295]
