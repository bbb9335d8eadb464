"""Which tests to look at apart: next items that are new, and next items by how often they occur."""

from __future__ import annotations

import numpy as np

from nextclick.clicks import ClickLog, Ints


def training_frequencies(targets: Ints, training: ClickLog) -> Ints:
    """Return how often each of these items was clicked in the training part.

    An item that occurs nowhere in it has 0 and is called new, also if it has been learned since.

    Examples
    --------
    >>> training = ClickLog.of([(0, 2, 1.0), (0, 1, 2.0), (1, 2, 3.0)])
    >>> training_frequencies(np.array([0, 1, 2, 9]), training).tolist()
    [0, 1, 2, 0]
    """
    n_items = int(max(training.n_items, targets.max(initial=-1) + 1))
    return np.bincount(training.items, minlength=n_items)[targets]


def frequency_buckets(frequencies: Ints, n_buckets: int = 5) -> Ints:
    """Share tests out to buckets, rarest first, each with about the same number of tests.

    Tests of equal frequency are never parted: that is why the sizes are equal only about, and why
    a bucket can remain empty where one frequency prevails.

    Parameters
    ----------
    frequencies
        How often the next item of each test occurs in the training part.
    n_buckets
        How many buckets to make.

    Returns
    -------
    Ints
        The bucket of each test, from 0 (rarest) to `n_buckets` - 1.

    Examples
    --------
    >>> frequency_buckets(np.array([9, 0, 0, 3, 3, 7]), 3).tolist()
    [2, 0, 0, 1, 1, 2]
    """
    _, of_test, sizes = np.unique(frequencies, return_inverse=True, return_counts=True)
    middles = (np.cumsum(sizes) - sizes / 2) / max(len(frequencies), 1)
    buckets: Ints = np.floor(middles * n_buckets).astype(np.int64)[of_test]
    return buckets
