"""The order of the clicks within a session: time; or another one, to study what it gives away."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from nextclick.clicks import Ints

SessionOrder: TypeAlias = Literal["time", "file", "item-hash"]

WARNINGS = {
    "file": (
        "the clicks of each session are in the order of the file, not of time. Where a file groups "
        "them by item, as DIGINETICA's does, the order tells what comes next: results on this data "
        "are not to be compared with any others"
    ),
    "item-hash": (
        "the clicks of each session are in a fixed pseudo-random order of the items, not of time. "
        "The order tells what comes next: results on this data are not to be compared with any "
        "others"
    ),
}


class SessionOrderWarning(UserWarning):
    """The clicks of each session are in another order than time."""


def reorder_sessions(sessions: Ints, items: Ints, keys: Ints) -> Ints:
    """Return the items so that each session's are in the order of their keys.

    A session's clicks keep their places in the log, and so their times; only which item is clicked
    at which of them changes.

    Examples
    --------
    >>> sessions, items = np.array([0, 1, 0, 0]), np.array([10, 11, 12, 13])
    >>> reorder_sessions(sessions, items, keys=np.array([3, 9, 1, 2])).tolist()
    [12, 11, 13, 10]
    """
    reordered = np.empty_like(items)
    reordered[np.argsort(sessions, kind="stable")] = items[np.lexsort((keys, sessions))]
    return reordered


def hash_ranks(ids: Sequence[str]) -> Ints:
    """Return each item's place in a pseudo-random order that depends on nothing but its id."""
    digests = [hashlib.blake2b(id_.encode(), digest_size=16).digest() for id_ in ids]
    ranks = np.empty(len(ids), dtype=np.int64)
    ranks[sorted(range(len(ids)), key=digests.__getitem__)] = np.arange(len(ids))
    return ranks
