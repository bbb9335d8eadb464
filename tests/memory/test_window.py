import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nextclick.memory.window import Window


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20)), max_size=30))
def test_it_is_the_plain_list(steps):
    window, expected, next_ = Window.empty(np.int64), [], 0
    for dropped, added in steps:
        rows = list(range(next_, next_ + added))
        next_ += added
        window.drop(min(dropped, len(expected)))
        window.append(np.array(rows, dtype=np.int64))
        expected = expected[dropped:] + rows
        assert window.values.tolist() == expected
        assert len(window) == len(expected)


def test_what_is_dropped_is_freed():
    window = Window.empty(np.float32, 100)
    for _ in range(100):
        window.drop(max(0, len(window) + 10 - 50))
        window.append(np.ones((10, 100), np.float32))
    assert len(window) == 50
    assert window.values.base.nbytes <= 4 * window.values.nbytes
