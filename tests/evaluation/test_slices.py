"""Buckets: about equal, in order of frequency, and never parting equal frequencies."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nextclick.clicks import ClickLog
from nextclick.evaluation.slices import frequency_buckets, training_frequencies


def test_many_different_frequencies_make_equal_buckets():
    frequencies = np.random.default_rng(0).permutation(1000)
    buckets = frequency_buckets(frequencies)
    assert np.bincount(buckets).tolist() == [200] * 5
    assert frequencies[buckets == 0].max() < frequencies[buckets == 1].min()


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(1, 7))
def test_buckets_follow_frequency(frequencies, n_buckets):
    buckets = frequency_buckets(np.array(frequencies), n_buckets)
    assert 0 <= buckets.min() <= buckets.max() < n_buckets
    for a, bucket_a in zip(frequencies, buckets, strict=True):
        for b, bucket_b in zip(frequencies, buckets, strict=True):
            assert (bucket_a <= bucket_b) if a <= b else (bucket_a >= bucket_b)


def test_no_tests_have_no_buckets():
    assert len(frequency_buckets(np.empty(0, np.int64))) == 0


def test_frequencies_count_training_clicks_only():
    training = ClickLog.of([(0, 1, 0.0), (0, 1, 1.0), (1, 3, 2.0)])
    assert training_frequencies(np.array([0, 1, 3, 50]), training).tolist() == [0, 2, 1, 0]
    assert len(training_frequencies(np.empty(0, np.int64), training)) == 0
