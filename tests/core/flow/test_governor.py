"""The governor of a queue [F2]: what each look decides, and where that leads with upstreams of all kinds."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.flow.governor import ERRORS, HOLD, STEPS, Governor, Window, burst
from windlass.core.histogram import bucket

MIN_RATE, MAX_RATE = 1.0, 100.0
STEP = MAX_RATE / STEPS


def window(
    n: int = 100, *, failed: int = 0, throttled: int = 0, waiting: int = 50, ms: float = 20.0
) -> Window:
    """What happened: n runs that took so long each."""
    return Window(
        succeeded=n - failed, failed=failed, throttled=throttled, waiting=waiting, times={bucket(ms): n}
    )


def settled(rate: float = 50.0) -> Governor:
    """A governor that knows how long runs usually take."""
    return Governor(rate=rate, baseline=20.0)


def course(governor: Governor, *windows: Window) -> Governor:
    for each in windows:
        governor = governor.step(each, MIN_RATE, MAX_RATE)
    return governor


def test_f2_it_starts_with_one_step() -> None:
    """[F2]"""
    assert Governor.first(MIN_RATE, MAX_RATE).rate == STEP
    assert Governor.first(30.0, MAX_RATE).rate == 30


def test_f2_it_grows_by_a_step_while_jobs_wait_and_all_is_well() -> None:
    """[F2]"""
    grown = course(settled(50), window(), window())
    assert grown.rate == 50 + 2 * STEP
    assert "jobs wait" in grown.why


def test_f2_it_stays_where_nothing_waits() -> None:
    """[F2] Also without any runs at all."""
    assert course(settled(50), window(waiting=0)).rate == 50
    assert course(settled(50), Window()).rate == 50


def test_f2_a_few_errors_are_none() -> None:
    """[F2]"""
    assert course(settled(50), window(100, failed=4)).rate > 50
    assert course(settled(50), window(100, failed=5)).rate == 25


@pytest.mark.parametrize(
    ("trouble", "text"),
    [
        (window(100, failed=20), "20 of 100 runs failed"),
        (window(100, throttled=1), "throttled"),
        (window(100, ms=60), "95th percentile"),
    ],
)
@pytest.mark.parametrize("waiting", [0, 1, 10**9])
def test_f2_trouble_halves_it_whatever_the_depth(trouble: Window, text: str, waiting: int) -> None:
    """[F2]"""
    halved = settled(50).step(msgspec.structs.replace(trouble, waiting=waiting), MIN_RATE, MAX_RATE)
    assert halved.rate == 25
    assert halved.why.startswith("halved")
    assert text in halved.why


def test_f2_then_it_holds_and_only_then_grows_again() -> None:
    """[F2]"""
    governor = course(settled(50), window(throttled=1))
    for _ in range(HOLD):
        governor = course(governor, window())
        assert governor.rate == 25
        assert "held" in governor.why
    assert course(governor, window()).rate == 25 + STEP


def test_f2_trouble_in_the_hold_halves_it_again() -> None:
    """[F2]"""
    governor = course(settled(80), window(throttled=1), window(), window(failed=50))
    assert (governor.rate, governor.held) == (20, HOLD)


def test_f2_twice_as_slow_as_usual_is_too_slow() -> None:
    """[F2] And slightly less is not; nor is it where there were too few runs to tell."""
    assert course(settled(50), window(ms=35)).rate > 50
    assert course(settled(50), window(ms=60)).rate < 50
    assert course(settled(50), window(5, ms=600)).rate > 50


def test_f2_what_lasts_becomes_the_usual() -> None:
    """[F2] Work that is slower for good must not keep a queue at its lowest rate for ever."""
    governor = settled(50)
    for _ in range(60):
        governor = governor.step(window(ms=200), MIN_RATE, MAX_RATE)
    assert governor.baseline == pytest.approx(200, rel=0.15)
    assert governor.rate == MAX_RATE


def test_f2_what_fails_fast_says_nothing_about_run_times() -> None:
    """[F2] Else a recovered upstream would be taken for a slow one."""
    assert course(settled(50), *[window(failed=100, ms=0.5)] * 50).baseline == 20


def test_f2_bounds_changed_live_hold_from_the_next_look_on() -> None:
    """[F2] Whatever that look finds."""
    for each in (window(), window(waiting=0), window(throttled=1)):
        assert settled(5000).step(each, MIN_RATE, MAX_RATE).rate <= MAX_RATE
        assert settled(0.001).step(each, MIN_RATE, MAX_RATE).rate >= MIN_RATE


windows = st.builds(
    window,
    st.integers(0, 1000),
    throttled=st.integers(0, 2),
    waiting=st.integers(0, 10),
    ms=st.floats(0.1, 10_000),
)


@given(st.lists(windows, max_size=60), st.floats(0, 10), st.floats(10, 1000))
def test_f2_it_stays_within_its_bounds(course_: list[Window], least: float, most: float) -> None:
    """[F2]"""
    governor = Governor.first(least, most)
    for each in course_:
        before, governor = governor, governor.step(each, least, most)
        assert least <= governor.rate <= most
        assert governor.rate <= before.rate + most / STEPS + 1e-9
        assert governor.why


# -- upstreams ------------------------------------------------------------------------------------------


def throughput(depth: int, *, capacity: float = 1e9, fails: float = 0.0, looks: int = 120) -> float:
    """Jobs a second that succeed over the second half of a simulation, with so many jobs coming in each look.

    The upstream does `capacity` jobs a second well. What comes beyond that it turns away.
    """
    governor, waiting, seconds, done = Governor.first(MIN_RATE, MAX_RATE), 0.0, 5.0, 0.0
    for look in range(looks):
        waiting += depth
        runs = min(waiting, governor.rate * seconds)
        waiting -= runs
        good = min(runs, capacity * seconds) * (1 - fails)
        ms = 20.0 * max(1.0, runs / (capacity * seconds))
        governor = governor.step(
            Window(
                succeeded=round(good),
                failed=round(runs - good),
                waiting=round(waiting),
                times={bucket(ms): round(runs)},
            ),
            MIN_RATE,
            MAX_RATE,
        )
        done += good if look >= looks // 2 else 0.0
    return done / (seconds * looks / 2)


def test_f2_a_deeper_queue_and_a_healthy_upstream_give_more() -> None:
    """[F2]"""
    shallow, deeper, deepest = (throughput(depth) for depth in (10, 100, 10_000))
    assert shallow == pytest.approx(2, rel=0.1)
    assert deeper == pytest.approx(20, rel=0.1)
    assert deepest == pytest.approx(MAX_RATE, rel=0.05)


@pytest.mark.parametrize("depth", [1_000, 10_000, 1_000_000])
def test_f2_a_failing_upstream_gets_less_whatever_the_depth(depth: int) -> None:
    """[F2]"""
    assert throughput(depth, fails=0.5) <= 2 * MIN_RATE


def test_f2_it_finds_what_an_upstream_can_do() -> None:
    """[F2] Near its capacity, for the most part: more than half, and never much more than all of it."""
    for capacity in (10.0, 40.0, 80.0):
        found = throughput(10_000, capacity=capacity)
        assert 0.5 * capacity <= found <= capacity


def test_f2_it_recovers_when_the_upstream_does() -> None:
    """[F2] From the lowest rate to the highest in as many steps as there are, and the hold."""
    governor = course(settled(50), *[window(failed=50)] * 10)
    assert governor.rate == MIN_RATE
    governor = course(governor, *[window()] * (STEPS + HOLD))
    assert governor.rate == MAX_RATE
    assert ERRORS == 0.05


def test_f2_the_usual_run_time_is_learnt_little_by_little() -> None:
    """[F2] A tenth of the way with each look that saw enough runs; the first such look is believed."""
    seen = course(Governor(rate=50), window(ms=30)).baseline
    assert seen is not None
    assert seen == pytest.approx(30, rel=0.15)
    assert course(settled(), window(ms=30)).baseline == pytest.approx(20 + (seen - 20) * 0.1)
    assert course(settled(), window(19, ms=30)).baseline == 20
    assert course(settled(), window(20, ms=30)).baseline == course(settled(), window(ms=30)).baseline


@pytest.mark.parametrize(("rate", "most"), [(0.5, 1.0), (5.0, 1.0), (100.0, 20.0)])
def test_a_queue_is_ahead_of_its_rate_by_a_fifth_of_a_second_or_one_job(rate: float, most: float) -> None:
    assert burst(rate) == most
