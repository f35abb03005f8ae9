"""The token bucket of a budget [F1]."""

import math
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.flow.bucket import LOOK_AGAIN, MIN_WAIT, Bucket

NOW = 1_750_000_000.0
SLACK = 1e-3
"""Of rounding: a time of today has a last digit of some 0.2 µs."""

steps = st.lists(
    st.tuples(st.sampled_from(["take", "give back", "drain"]), st.floats(-30, 30), st.integers(1, 12)),
    max_size=60,
)


class Ledger:
    """A bucket, and what it has granted: by the time that has passed, which a clock that is set back does not
    take away."""

    def __init__(self, rate: float, burst: int) -> None:
        self.rate, self.burst = rate, burst
        self.bucket = Bucket.full(rate, burst, NOW)
        self.lived = 0.0
        self.granted: list[tuple[float, float]] = []
        self.out: list[int] = []

    def do(self, what: str, now: float, n: int) -> None:
        if what == "drain":
            self.bucket = self.bucket.drained(n / 4, now)
        elif what == "give back" and self.out:
            self.bucket = self.bucket.give_back(back := self.out.pop(), now)
            self.granted.append((self.lived, -back))
        elif what == "take" and (left := self.bucket.take(n, now)) is not None:
            self.bucket = left
            self.granted.append((self.lived, n))
            self.out.append(n)

    def check(self) -> None:
        """In any window: what was granted, less what came back in it."""
        sums = [0.0, *accumulate(n for _, n in self.granted)]
        for first, (start, _) in enumerate(self.granted):
            for last, (end, _) in enumerate(self.granted[first:], first):
                allowed = self.rate * (end - start) + self.burst
                assert sums[last + 1] - sums[first] <= allowed + SLACK


@given(st.floats(0, 20), st.integers(1, 12), steps)
def test_f1_no_window_sees_more_than_rate_and_burst(
    rate: float, burst: int, done: list[tuple[str, float, int]]
) -> None:
    """[F1] Whatever is taken, given back and drained, and whichever way the clock goes."""
    ledger, now = Ledger(rate, burst), NOW
    for what, passed, n in done:
        now += passed
        ledger.lived += max(passed, 0.0)
        ledger.do(what, now, n)
        assert -SLACK <= ledger.bucket.available(now) <= burst
    ledger.check()


@given(st.lists(st.floats(0, 3), min_size=1, max_size=200))
def test_f1_ten_a_second(waits: list[float]) -> None:
    """[F1] Somebody who takes all there is whenever he looks gets no more, and no less but a last one."""
    bucket, now, taken = Bucket.full(10, 10, NOW), NOW, 0
    for passed in waits:
        now += passed
        for _ in range(100):
            if (left := bucket.take(1, now)) is None:
                break
            bucket, taken = left, taken + 1
    assert taken <= 10 * (now - NOW) + 10 + SLACK
    assert taken >= min(10, 10 * sum(min(passed, 1) for passed in waits[1:])) - SLACK
    assert bucket.available(now) < 1


@given(st.floats(0.01, 100), st.integers(1, 50), st.integers(1, 50), st.floats(0, 60), st.floats(0, 60))
def test_f1_whoever_waits_as_long_as_told_gets_it(
    rate: float, burst: int, n: int, pause: float, passed: float
) -> None:
    """[F1]"""
    bucket = Bucket.full(rate, burst, NOW).drained(pause, NOW)
    wait = bucket.wait(n, NOW + passed)
    assert wait >= MIN_WAIT
    if n > burst:
        assert wait == math.inf
        return
    assert bucket.take(n, NOW + passed + wait + SLACK * max(1.0, 1.0 / rate)) is not None
    if wait > 2 * SLACK:
        assert bucket.take(n, NOW + passed + wait - 2 * SLACK) is None or 2 * SLACK * rate < 1e-6


def test_f1_a_clock_that_goes_back_grants_nothing_for_that() -> None:
    """[F1] [fault 31] What it had is still there, and it grows from then on. It waited for the clock to
    catch up: an hour without a token."""
    bucket = Bucket.full(10, 10, NOW).take(4, NOW)
    assert bucket is not None
    back = NOW - 3600
    assert bucket.available(back) == 6
    empty = bucket.take(6, back)
    assert empty is not None
    assert empty.wait(1, back) == pytest.approx(0.1)
    assert (empty.available(back), empty.available(back + 0.5)) == (0, 5)
    little = Bucket(10, 10, 0, NOW)
    assert (little.available(NOW - 0.5), little.available(NOW), little.available(NOW + 0.5)) == (0, 0, 5)


def test_f1_a_pause_lasts_as_long_as_it_was_meant_to() -> None:
    """[F1] [fault 31] Though the clock goes back: what was left of it is left."""
    drained = Bucket.full(10, 10, NOW).drained(30, NOW)
    back = NOW - 3600
    assert drained.wait(1, back) == pytest.approx(30.1)
    assert (drained.available(back + 29), drained.refilled(back).available(back + 31)) == (0, 10)


def test_f1_all_or_nothing() -> None:
    """[F1]"""
    bucket = Bucket.full(1, 5, NOW).take(3, NOW)
    assert bucket is not None
    assert bucket.take(3, NOW) is None
    assert bucket.take(3, NOW + 1) is not None
    assert bucket.wait(3, NOW) == pytest.approx(1)
    assert bucket.wait(2, NOW) == MIN_WAIT


def test_f1_drain() -> None:
    """[F1] Nothing until the pause is over, and then no burst but what grows from there."""
    drained = Bucket.full(10, 10, NOW).drained(30, NOW)
    assert drained.available(NOW + 29) == 0
    assert drained.take(1, NOW + 29) is None
    assert drained.available(NOW + 30) == 0
    assert drained.available(NOW + 30.5) == 5
    assert drained.wait(5, NOW) == pytest.approx(30.5)


def test_f1_a_second_drain_never_shortens_the_first() -> None:
    """[F1] Nor does one without a pause open what is shut."""
    drained = Bucket.full(10, 10, NOW).drained(30, NOW)
    for pause in (0, 5, 25):
        assert drained.drained(pause, NOW + 5).paused_until == NOW + 30
    assert drained.drained(60, NOW + 5).paused_until == NOW + 65
    assert Bucket.full(10, 10, NOW).drained(0, NOW).available(NOW + 0.3) == pytest.approx(3)


def test_f1_given_back_is_never_more_than_it_holds() -> None:
    """[F1]"""
    full = Bucket.full(1, 5, NOW)
    assert full.give_back(3, NOW).available(NOW) == 5
    taken = full.take(4, NOW)
    assert taken is not None
    assert taken.give_back(2, NOW).available(NOW) == 3


def test_f1_a_live_change_counts_what_has_grown_by_the_old_rate() -> None:
    """[F1]"""
    empty = Bucket.full(10, 100, NOW).drained(0, NOW)
    faster = empty.changed(100, 100, NOW + 1)
    assert [faster.available(NOW + s) for s in (1, 1.5)] == [10, 60]
    smaller = faster.changed(100, 5, NOW + 1.5)
    assert smaller.available(NOW + 1.5) == smaller.available(NOW + 60) == 5


@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0, 20), st.integers(1, 20)), min_size=1, max_size=30))
def test_f1_no_live_change_gives_more_than_the_rates_in_force(
    changes: list[tuple[float, float, int]],
) -> None:
    """[F1] [fault 21] By the ledger: each stretch by its own rate, and the largest burst once."""
    bucket, now, granted, allowed = Bucket.full(5, 5, NOW), NOW, 0, 5.0
    for passed, rate, burst in changes:
        allowed += bucket.rate * passed
        now += passed
        while (left := bucket.take(1, now)) is not None:
            bucket, granted = left, granted + 1
        bucket = bucket.changed(rate, burst, now)
    assert granted <= allowed + SLACK


def test_f1_a_rate_of_nothing() -> None:
    """[F1] What it holds can be taken, once."""
    bucket = Bucket.full(0, 1, NOW).take(1, NOW)
    assert bucket is not None
    assert bucket.wait(1, NOW + 1e6) == math.inf
    assert bucket.take(1, NOW + 1e9) is None


def test_f1_waits_add_up() -> None:
    """[F1] Taking one by one, each as soon as told, keeps to the rate."""
    bucket, now = Bucket.full(4, 2, NOW), NOW
    at: list[float] = []
    while len(at) < 20:
        if (left := bucket.take(1, now)) is None:
            now += bucket.wait(1, now)
            continue
        bucket = left
        at.append(now)
    assert all(b - a == pytest.approx(0.25, abs=0.01) for a, b in pairwise(at[2:]))


def test_f1_tokens_promised_to_others_are_waited_for() -> None:
    """[F1]"""
    full = Bucket.full(2, 10, NOW)
    assert full.wait(4, NOW, promised=6) == MIN_WAIT
    empty = full.take(10, NOW)
    assert empty is not None
    assert empty.wait(2, NOW, promised=3) == pytest.approx(2.5)


def test_f1_more_promised_than_it_holds_is_worth_another_look() -> None:
    """[F1] When half of it has grown anew, and neither at once nor before a pause ends."""
    assert Bucket.full(2, 10, NOW).wait(5, NOW, promised=8) == 2.5
    assert Bucket.full(2, 10, NOW).drained(7, NOW).wait(5, NOW, promised=8) == 7
    assert Bucket.full(1000, 10, NOW).wait(5, NOW, promised=8) == LOOK_AGAIN
    assert Bucket.full(0, 10, NOW).wait(5, NOW, promised=8) == math.inf


@pytest.mark.parametrize(("age", "left"), [(0, 10), (2, 6), (3.5, 3), (100, 2), (-5, 10)])
def test_f1_what_has_grown_meanwhile_is_not_given_back(age: float, left: float) -> None:
    """[F1] Eight of ten were taken so many seconds ago, and two grow in a second."""
    assert Bucket(2, 10, 2, NOW).give_back(8, NOW, age).tokens == left


def test_f1_a_pause_ends_when_it_says() -> None:
    """[F1]"""
    paused = Bucket(2, 10, 5, NOW, paused_until=NOW)
    assert (paused.available(NOW - 1), paused.available(NOW)) == (0, 5)
    assert paused.take(5, NOW - 1) is None
    assert paused.take(5, NOW) is not None
    assert (paused.give_back(1, NOW - 1).tokens, paused.give_back(1, NOW).tokens) == (5, 6)


# -- settling -----------------------------------------------------------------------------------------------


@given(
    st.floats(0.01, 20),  # so that no debt is as large as one may be: see below
    st.integers(1, 12),
    st.lists(
        st.tuples(st.sampled_from(["take", "kill", "more", "less"]), st.floats(0, 30), st.integers(1, 12)),
        max_size=60,
    ),
)
def test_f1_what_is_settled_keeps_the_rate_but_for_the_debt(
    rate: float, burst: int, done: list[tuple[str, float, int]]
) -> None:
    """[F1] In any window: what was taken, as runs have settled it, less the debt at its end. One that is
    killed settles nothing, and leaves what it took."""
    bucket, now = Bucket.full(rate, burst, NOW), NOW
    entries: list[tuple[float, float, float]] = []
    running: list[tuple[int, float]] = []
    for what, passed, n in done:
        now += passed
        counted = 0.0
        if what == "take" and (left := bucket.take(n, now)) is not None:
            bucket, counted = left, n
            running.append((n, now))
        elif what == "kill" and running:
            running.pop()
        elif what in ("more", "less") and running:
            took, at = running.pop(0)
            counted = n if what == "more" else -min(n, took)
            bucket = bucket.settled(counted, now, now - at)
        entries.append((now, counted, max(0.0, -bucket.refilled(now).tokens)))
    sums = [0.0, *accumulate(n for _, n, _ in entries)]
    for first, (start, _, _) in enumerate(entries):
        for last, (end, _, debt) in enumerate(entries[first:], first):
            assert sums[last + 1] - sums[first] <= rate * (end - start) + burst + debt + SLACK


@pytest.mark.parametrize(("rate", "lowest"), [(2.0, -172_800.0), (0.0, -10.0)])
def test_f1_a_debt_is_a_days_growth_at_most_or_the_burst(rate: float, lowest: float) -> None:
    """[F1] One wrong number would stop a budget for ever. Saying it again makes it no worse."""
    bucket = Bucket.full(rate, 10, NOW).settled(9e18, NOW)
    assert (bucket.tokens, bucket.settled(9e18, NOW).tokens) == (lowest, lowest)
    assert bucket.settled(-4, NOW).tokens == lowest + 4


def test_f1_another_rate_forgives_a_debt() -> None:
    """[F1] Not what was cut off while blocks are out: they are still being handed out."""
    assert Bucket.full(2.0, 10, NOW).settled(1000, NOW).changed(2.0, 10, NOW).tokens == 0
    served, block, leased = Bucket.full(100.0, 100, NOW).lease([1], 1000, NOW)
    assert (served, block) == ([True], 47)
    assert leased.changed(100.0, 10, NOW).tokens < 0


def test_f1_a_debt_is_paid_off_first() -> None:
    """[F1]"""
    bucket = Bucket.full(2.0, 10, NOW).settled(30, NOW)
    assert (bucket.tokens, bucket.available(NOW + 9)) == (-20, 0.0)
    assert bucket.wait(1, NOW) == pytest.approx(10.5)
    assert bucket.take(1, NOW + 10.4) is None
    assert bucket.take(1, NOW + 10.6) is not None
    assert bucket.lease([1], 5, NOW)[:2] == ([False], 0)
