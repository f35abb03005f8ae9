"""Tokens that claims book before they are there: the bound holds by when they are [F1]."""

import math

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.flow.bucket import AHEAD, HELD_FOR, Bucket

NOW = 1_750_000_000.0
SLACK = 1e-3
"""Of rounding: a time of today has a last digit of some 0.2 µs, and a rate multiplies it."""
ACTIONS = ["book", "book", "book", "take", "ask", "lease", "give back", "drain", "set", "step"]
rates = st.sampled_from([0.0, 1.0, 10.0, 100.0, 1000.0])
passing = st.sampled_from([0.0, 0.001, 0.01, 0.05, 0.3]) | st.floats(0, 0.2)
steps = st.lists(st.tuples(st.sampled_from(ACTIONS), passing, st.integers(1, 12)), max_size=50)


@given(rates, st.sampled_from([1, 2, 10, 100]), steps)
def test_no_window_has_more_than_the_rate_and_a_burst(
    rate: float, burst: int, acts: list[tuple[str, float, int]]
) -> None:
    """[F1] Whatever else happens to the bucket meanwhile; a block counts when it is over at the latest."""
    bucket, lived, off = Bucket.full(rate, burst, NOW), 0.0, NOW
    granted: list[tuple[float, int]] = []
    booked: list[tuple[float, int]] = []
    for what, passes, n in acts:
        lived += passes
        now = off + lived
        match what:
            case "book" if (wait := bucket.soon(n, now)) < math.inf:
                assert wait <= AHEAD
                bucket = bucket.book(n, now)
                granted.append((lived + wait, n))
                booked.append((lived, n))
            case "take" if (left := bucket.take(n, now)) is not None:
                bucket = left
                granted.append((lived, n))
            case "ask":
                bucket = bucket.refused(n, now)
            case "lease":
                _, block, bucket = bucket.lease([], n, now)
                granted += [(lived + HELD_FOR, block)] if block else []
            case "give back" if booked and booked[-1][1]:
                at, size = booked.pop()
                bucket = bucket.give_back(size, now, lived - at)
                granted.remove(next(grant for grant in granted if grant[1] == size and grant[0] >= at))
            case "drain":
                bucket = bucket.drained(0.0, now)
            case "set":  # to what it is, as each deploy may
                bucket = bucket.changed(rate, burst, now)
            case "step":
                off -= n / 2
    granted.sort()
    for first, (since, _) in enumerate(granted):
        total = 0
        for until, n in granted[first:]:
            total += n
            assert total <= rate * (until - since) + burst + SLACK * (1 + rate)


def test_who_asks_by_hand_is_not_always_late() -> None:
    """[F1] Claims that book what comes leave nothing to those who ask for what is there."""
    bucket = Bucket.full(100.0, 1, NOW)
    while bucket.soon(1, NOW) < math.inf:
        bucket = bucket.book(1, NOW)
    assert bucket.take(1, NOW) is None
    wait = bucket.wait(1, NOW)
    bucket = bucket.refused(1, NOW)
    assert bucket.soon(1, NOW + 0.05) == math.inf
    assert bucket.take(1, NOW + wait + 1e-6) is not None


def test_a_booking_is_as_long_as_it_takes_to_grow() -> None:
    """[F1] In turn, and no longer ahead than `AHEAD`; not beyond the burst, a pause or a cap."""
    bucket = Bucket.full(100.0, 1, NOW)
    waits = []
    while (wait := bucket.soon(1, NOW)) < math.inf:
        waits.append(wait)
        bucket = bucket.book(1, NOW)
    assert len(waits) == 11
    assert all(abs(wait - place / 100) < 1e-6 for place, wait in enumerate(waits))
    assert bucket.soon(2, NOW + 1) == math.inf
    assert Bucket.full(100.0, 1, NOW).capped(1, "day", "UTC").book(1, NOW).soon(1, NOW) == math.inf
    assert bucket.drained(0.01, NOW).soon(1, NOW + 0.005) == math.inf
    assert bucket.drained(0.0, NOW).soon(1, NOW + 0.005) == math.inf, "what was booked is paid off first"


def test_what_was_booked_counts_where_a_budget_is_set_again() -> None:
    """[F1] Each deploy may do so: another booking would start beside those that were made."""
    bucket = Bucket.full(100.0, 1, NOW)
    while bucket.soon(1, NOW) < math.inf:
        bucket = bucket.book(1, NOW)
    for rate, wait in ((100.0, 0.11), (10.0, 0.2)):
        again = bucket.changed(rate, 1, NOW)
        assert again.soon(1, NOW + 0.005) == math.inf
        assert abs(again.wait(1, NOW) - wait) < 1e-6
