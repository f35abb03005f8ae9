"""Run times as counts per bucket, and their percentiles."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.histogram import bounds, bucket, buckets, percentile

times = st.lists(st.floats(0.01, 1e8), min_size=1, max_size=200)


@given(times, st.sampled_from([0.5, 0.9, 0.95, 0.99, 1.0]))
def test_a_percentile_is_right_to_within_six_hundredths(runs: list[float], share: float) -> None:
    exact = sorted(runs)[math.ceil(share * len(runs)) - 1]
    found = percentile(Counter(map(bucket, runs)), share)
    assert found == pytest.approx(exact, rel=0.06)


@given(times, times)
def test_counts_can_be_added_up(a: list[float], b: list[float]) -> None:
    both = Counter(map(bucket, a)) + Counter(map(bucket, b))
    assert percentile(both, 0.95) == percentile(Counter(map(bucket, a + b)), 0.95)


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_what_takes_longer_is_never_in_a_lower_bucket(a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert bucket(low) <= bucket(high)


def test_of_nothing_there_is_none() -> None:
    assert percentile({}, 0.95) is None
    assert percentile({3: 0}, 0.95) is None


@pytest.mark.parametrize("ms", [0.0, -1.0, 0.001])
def test_a_time_too_short_to_measure(ms: float) -> None:
    assert bucket(ms) == bucket(0.01)


def test_an_hour_and_a_hundredth_of_a_millisecond_are_two_hundred_buckets_apart() -> None:
    assert bucket(3_600_000) - bucket(0.01) < 256


@given(st.lists(st.floats(-1e3, 1e9) | st.floats(0, 3), max_size=200))
def test_many_at_once_are_in_the_same_buckets_as_one_by_one(times: list[float]) -> None:
    assert buckets(times) == Counter(map(bucket, times))


@given(st.floats(0.01, 1e9))
def test_a_bucket_begins_where_the_one_before_it_ends(ms: float) -> None:
    low, high = bounds(bucket(ms))
    assert low <= ms < high
    assert high == bounds(bucket(ms) + 1)[0]
    assert bucket(low) == bucket(ms) == bucket(high) - 1
