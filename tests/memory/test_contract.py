import numpy as np
import pytest

from nextclick.errors import BadInputError
from nextclick.memory import MemorySettings, make_memory


@pytest.fixture(params=["exact", "clustered"])
def memory(request):
    return make_memory(MemorySettings(kind=request.param, neighbours=2, size=3), 2)


def entries(n):
    return np.eye(2, dtype=np.float32)[np.arange(n) % 2], np.arange(n), np.arange(n)


def test_an_empty_memory_finds_nothing(memory):
    answer = memory.search(np.ones((2, 2), dtype=np.float32))
    assert answer.items.tolist() == answer.sessions.tolist() == [[-1, -1]] * 2
    assert np.isinf(answer.distances).all()
    assert len(memory) == memory.nbytes == 0


def test_nothing_can_be_added_and_nothing_asked(memory):
    memory.add(*entries(0))
    memory.add(*entries(1))
    assert len(memory.search(np.ones((0, 2), dtype=np.float32))) == 0


def test_of_a_batch_larger_than_the_bound_the_newest_stay(memory):
    memory.add(*entries(10))
    assert len(memory) == 3
    assert sorted(memory.search(np.ones((1, 2), dtype=np.float32), 5).items[0]) == [-1, -1, 7, 8, 9]


def test_the_newest_entry_is_of_age_zero(memory):
    memory.add(*entries(10))
    found = memory.search(np.ones((1, 2), dtype=np.float32), 4)
    ages = dict(zip(found.items[0].tolist(), found.ages[0].tolist(), strict=True))
    assert ages == {9: 0, 8: 1, 7: 2, -1: -1}


def test_directions_are_what_counts_when_keys_are_normalised(memory):
    memory.add(*entries(2))
    answer = memory.search(np.array([[9, 0], [0, 0]], dtype=np.float32), 1)
    assert answer.items[0].tolist() == [0]
    assert answer.distances[:, 0].tolist() == [0, 1]


def test_without_normalising_lengths_count():
    memory = make_memory(MemorySettings(normalise=False), 2)
    memory.add(np.array([[1, 0], [9, 0]], dtype=np.float32), np.arange(2), np.arange(2))
    assert memory.search(np.array([[7, 0]], dtype=np.float32), 1).distances.tolist() == [[4]]


@pytest.mark.parametrize(
    ("keys", "items", "sessions", "message"),
    [
        (np.ones((2, 2)), [1], [1, 1], "2 keys, 1 items and 2 sessions"),
        (np.ones((1, 3)), [1], [1], "dimension 2"),
        (np.ones(2), [1, 2], [1, 2], "dimension 2"),
        (np.ones((1, 2)), [-1], [1], "item numbers from -1"),
        (np.ones((1, 2)), [2**31], [1], "item numbers"),
        (np.ones((1, 2)), [1], [2**31], "session numbers"),
        (np.ones((1, 2)), [1], [-2], "session numbers"),
    ],
)
def test_what_are_no_entries_is_refused_and_nothing_changes(memory, keys, items, sessions, message):
    memory.add(*entries(2))
    with pytest.raises(BadInputError, match=message):
        memory.add(keys.astype(np.float32), np.array(items), np.array(sessions))
    assert len(memory) == 2


def test_what_is_no_query_is_refused(memory):
    with pytest.raises(BadInputError, match="dimension 2"):
        memory.search(np.ones((1, 3), dtype=np.float32))
    with pytest.raises(BadInputError, match="k is 0"):
        memory.search(np.ones((1, 2), dtype=np.float32), 0)
