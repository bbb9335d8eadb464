"""Past contexts against a plain list of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nextclick.clicks import CONTEXT_LENGTH, Contexts
from nextclick.memory.contexts import PastContexts

context = st.lists(st.integers(0, 10**6), max_size=25)
steps = st.lists(st.tuples(st.lists(context, max_size=6), st.integers(0, 12)), max_size=8)


@given(steps)
def test_it_is_a_list_that_forgets_in_front(steps: list[tuple[list[list[int]], int]]) -> None:
    past, plain = PastContexts(), []
    for added, kept in steps:
        past.add(Contexts.of(added))
        past.keep(kept)
        plain = [*plain, *(context[-CONTEXT_LENGTH:] for context in added)]
        plain = plain[max(0, len(plain) - kept) :]
        restored = PastContexts()
        restored.restore(past.state())
        ages = np.arange(-1, len(plain) + 2)
        wanted = [[], *plain[::-1], [], []]
        for each in (past, restored):
            assert len(each) == len(plain)
            assert [found.tolist() for found in each.aged(ages)] == wanted
