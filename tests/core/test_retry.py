"""How long something waits: retries [O2], deaths of workers [C8], throttles [O3], parked keys [O7]."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.retry import Backoff, DeathPolicy, cool_delay, parked_until

BASES = st.floats(0.001, 3600)
CAPS = st.floats(0.001, 86400)
JITTERS = st.floats(0, 1)
SPREADS = st.floats(0, 1, exclude_max=True)


def test_the_shipped_default() -> None:
    """[O2] Base 5 s, cap 30 min: 5, 10, 20, … 1800."""
    delays = [Backoff().delay(n) for n in range(1, 12)]
    assert delays == [5, 10, 20, 40, 80, 160, 320, 640, 1280, 1800, 1800]


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (Backoff(factor=4), [5, 20, 80, 320, 1280, 1800, 1800]),
        (Backoff(base=3, factor=1), [3, 3, 3, 3, 3, 3, 3]),
        (Backoff(base=1, factor=1.5, cap=4), [1, 1.5, 2.25, 3.375, 4, 4, 4]),
        (Backoff(waits=(60, 240, 7200)), [60, 240, 7200, 7200, 7200, 7200, 7200]),
        (Backoff(base=0, waits=(0, 1)), [0, 1, 1, 1, 1, 1, 1]),
    ],
)
def test_another_factor_and_waits_of_its_own(backoff: Backoff, delays: list[float]) -> None:
    """[O2] min(base·factor^(n−1), cap); the n-th of the waits, of which the last one repeats, uncapped."""
    assert [backoff.delay(n) for n in range(1, 8)] == delays


@given(st.lists(BASES, min_size=1, max_size=5), JITTERS, SPREADS, st.integers(1, 40))
def test_waits_are_spread_as_well(waits: list[float], jitter: float, spread: float, failures: int) -> None:
    """[O2] Jobs that failed together do not come back together."""
    backoff = Backoff(jitter=jitter, waits=tuple(waits))
    assert backoff.delay(failures, spread) == pytest.approx(
        backoff.delay(failures) * (1 + jitter * (2 * spread - 1)), abs=1e-9
    )


@given(st.floats(1, 1000), st.integers(1, 10**9))
def test_no_factor_overflows(factor: float, failures: int) -> None:
    """[O2]"""
    assert Backoff(cap=1e9, factor=factor).delay(failures) <= 1e9


@given(BASES, CAPS)
def test_the_first_delay_is_base(base: float, cap: float) -> None:
    """[O2] Or the cap, where that is smaller."""
    assert Backoff(base, cap).delay(1) == pytest.approx(min(base, cap))


@given(BASES, CAPS, st.integers(1, 100))
def test_it_never_falls_and_never_passes_the_cap(base: float, cap: float, failures: int) -> None:
    """[O2]"""
    backoff = Backoff(base, cap)
    assert backoff.delay(failures) <= backoff.delay(failures + 1) <= cap * (1 + 1e-9)


@given(BASES, CAPS, st.integers(1, 10**9))
def test_the_exponent_is_bounded(base: float, cap: float, failures: int) -> None:
    """[O2] No number of failures overflows."""
    assert math.isfinite(Backoff(base, cap).delay(failures))


@given(BASES, CAPS, JITTERS, SPREADS, st.integers(1, 40))
def test_jitter_stays_in_its_range(
    base: float, cap: float, jitter: float, spread: float, failures: int
) -> None:
    """[O2] ± jitter around the bare figure, never below zero."""
    bare = Backoff(base, cap, jitter).delay(failures)
    delay = Backoff(base, cap, jitter).delay(failures, spread)
    assert bare * (1 - jitter) * (1 - 1e-9) <= delay <= bare * (1 + jitter) * (1 + 1e-9)
    assert delay >= 0


@pytest.mark.parametrize("backoff", [Backoff(base=0), Backoff(base=-1)])
def test_off_is_at_once(backoff: Backoff) -> None:
    """[O2]"""
    assert backoff.delay(7) == 0.0


def test_no_failure_no_delay() -> None:
    assert Backoff().delay(0) == 0.0


def test_the_shipped_death_policy() -> None:
    """[C8] The first death is free, the second waits for base, the third is poison."""
    assert DeathPolicy().poison == 3
    assert DeathPolicy().delays() == [0.0, 5.0]


@given(st.integers(1, 50), BASES)
def test_a_delay_for_every_death_but_the_last(poison: int, base: float) -> None:
    """[C8]"""
    delays = DeathPolicy(poison, Backoff(base, 1e6)).delays()
    assert len(delays) == poison - 1
    assert delays[:1] in ([], [0.0])
    assert all(0 < earlier <= later for earlier, later in pairwise(delays[1:]))


# -- throttles [O3] ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("throttles", "delay"), [(0, 60), (1, 120), (4, 960), (5, 1800), (10**6, 1800)])
def test_twice_as_long_each_time_up_to_the_cap(throttles: int, delay: float) -> None:
    """[O3] The exponent is bounded."""
    assert cool_delay(throttles, base=60, cap=1800, backoff=True) == delay


@pytest.mark.parametrize("throttles", [0, 1, 50])
def test_flat_without_back_off(throttles: int) -> None:
    """[O3] And within the cap all the same."""
    assert cool_delay(throttles, base=60, cap=1800, backoff=False) == 60
    assert cool_delay(throttles, base=60, cap=20, backoff=False) == 20


@pytest.mark.parametrize(
    ("hint", "delay"),
    [(None, 60), (0, 60), (-5, 60), (59, 60), (61, 61), (1e12, 1800), (math.inf, 1800), (math.nan, 60)],
)
def test_a_hint_is_a_floor(hint: float | None, delay: float) -> None:
    """[O3] Bounded by the cap; what is no number of seconds is no hint."""
    assert cool_delay(0, base=60, cap=1800, backoff=True, hint=hint) == delay


# -- parked keys [O7] -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deaths", "minutes"), [(3, 30), (4, 60), (5, 120), (6, 240), (7, 360), (8, 360), (10**6, 360)]
)
def test_twice_as_long_each_time_up_to_six_hours(deaths: int, minutes: float) -> None:
    """[O7] From the last death on; the exponent is bounded."""
    assert parked_until(deaths, 1000.0) == 1000.0 + minutes * 60


@pytest.mark.parametrize("deaths", [0, 1, 2])
def test_a_few_deaths_park_nothing(deaths: int) -> None:
    """[O7]"""
    assert parked_until(deaths, 1000.0) is None


def test_the_threshold_is_a_setting() -> None:
    """[O7]"""
    assert parked_until(1, 0.0, after=1) == 1800
    assert parked_until(4, 0.0, after=5) is None
    assert parked_until(6, 0.0, after=5) == 3600
