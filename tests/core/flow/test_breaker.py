"""The circuit breaker of a budget [F7]: closed, open, half-open."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.flow.breaker import MAX_DOUBLINGS, Breaker

CLOSED = Breaker(threshold=3, pause=10.0)
NOW = 1000.0


def opened(at: float = NOW) -> Breaker:
    return CLOSED.after_calls(0, 3, at)


def test_f7_closed_until_so_many_fail_in_a_row() -> None:
    """[F7]"""
    twice = CLOSED.after_calls(0, 1, NOW).after_calls(0, 1, NOW)
    assert twice.state(NOW) == "closed"
    assert twice.allows(NOW) is None
    assert twice.after_calls(0, 1, NOW).state(NOW) == "open"
    assert opened().state(NOW) == "open"


def test_f7_a_success_in_between_counts_from_the_start() -> None:
    """[F7]"""
    assert CLOSED.after_calls(0, 2, NOW).after_calls(1, 0, NOW).after_calls(0, 2, NOW).state(NOW) == "closed"


def test_f7_told_of_both_at_once_the_failures_count() -> None:
    """[F7] Those told of with it are in a row; those from before are not."""
    assert CLOSED.after_calls(0, 2, NOW).after_calls(5, 2, NOW).failures == 2
    assert CLOSED.after_calls(5, 3, NOW).state(NOW) == "open"


def test_f7_open_grants_nothing_and_hears_nothing() -> None:
    """[F7] What is told now is of runs from before."""
    breaker = opened()
    assert breaker.allows(NOW + 9.9) == 0
    assert breaker.after_calls(5, 0, NOW + 5) == breaker
    assert breaker.after_calls(0, 5, NOW + 5) == breaker


def test_f7_half_open_lets_one_probe_through() -> None:
    """[F7]"""
    breaker = opened()
    assert breaker.state(NOW + 10) == "half-open"
    assert breaker.allows(NOW + 10) == 1
    probing = breaker.granted(NOW + 10)
    assert probing.state(NOW + 10) == "half-open"
    assert probing.allows(NOW + 11) == 0


def test_f7_a_probe_that_goes_well_closes_it() -> None:
    """[F7]"""
    closed = opened().granted(NOW + 10).after_calls(1, 0, NOW + 11)
    assert closed.state(NOW + 11) == "closed"
    assert closed == CLOSED


def test_f7_a_probe_that_fails_opens_it_for_twice_as_long() -> None:
    """[F7] Up to sixteen times."""
    breaker, now, pauses = opened(), NOW, []
    for _ in range(8):
        pauses.append(breaker.until - now)
        now = breaker.until
        assert breaker.state(now - 0.1) == "open"
        breaker = breaker.granted(now).after_calls(0, 1, now)
        assert breaker.state(now) == "open"
    assert pauses == [10, 20, 40, 80, 160, 160, 160, 160]
    assert pauses[-1] == 10 * 2**MAX_DOUBLINGS


def test_f7_a_probe_that_dies_with_its_worker_is_followed_by_another() -> None:
    """[F7]"""
    probing = opened().granted(NOW + 10)
    assert probing.allows(NOW + 19.9) == 0
    assert probing.allows(NOW + 20) == 1
    assert probing.granted(NOW + 20).allows(NOW + 25) == 0


def test_f7_without_a_threshold_there_is_none() -> None:
    """[F7] Also where it was switched off while open."""
    off = Breaker()
    assert off.after_calls(0, 100, NOW) == off
    assert off.allows(NOW) is None
    was_open = Breaker(threshold=0, failures=3, openings=1, until=NOW + 10)
    assert was_open.state(NOW) == "closed"
    assert was_open.allows(NOW) is None


def test_f7_grants_do_not_matter_while_it_is_closed() -> None:
    """[F7]"""
    assert CLOSED.granted(NOW) == CLOSED
    assert CLOSED.after_calls(0, 0, NOW) == CLOSED


@given(
    st.integers(1, 4),
    st.lists(
        st.one_of(
            st.tuples(st.just("calls"), st.integers(0, 3), st.integers(0, 3)),
            st.tuples(st.just("take"), st.just(0), st.just(0)),
            st.tuples(st.just("wait"), st.integers(0, 50), st.just(0)),
        ),
        max_size=40,
    ),
)
def test_f7_no_step_but_those_of_the_diagram(threshold: int, steps: list[tuple[str, int, int]]) -> None:
    """[F7] And while it is not closed, no two grants are less than a pause apart, but after a report."""
    breaker, now, probed = Breaker(threshold=threshold, pause=10.0), NOW, -1e9
    allowed = {
        ("closed", "closed"), ("closed", "open"), ("open", "open"), ("half-open", "half-open"),
        ("half-open", "closed"), ("half-open", "open"),
    }  # fmt: skip
    for what, a, b in steps:
        before = breaker.state(now)
        if what == "wait":
            now += a
            assert (before, breaker.state(now)) in allowed | {("open", "half-open")}
        elif what == "calls":
            breaker = breaker.after_calls(a, b, now)
            assert (before, breaker.state(now)) in allowed
            probed = -1e9
        elif breaker.allows(now) != 0:
            breaker = breaker.granted(now)
            assert breaker.state(now) == before
            if before != "closed":
                assert now - probed >= 10.0
                probed = now


@pytest.mark.parametrize("failures", [1, 10**9])
def test_f7_it_opens_again_by_late_reports_too(failures: int) -> None:
    """[F7] Better open once too often: half-open, it does not know whose failure it was."""
    assert opened().after_calls(0, failures, NOW + 10).state(NOW + 10) == "open"


def test_f7_a_pause_that_the_clock_made_longer_is_over() -> None:
    """[F7] [fault 31] The clock went back by an hour; the breaker stayed open for an hour and its pause."""
    opened = Breaker(threshold=1, pause=30.0).after_calls(0, 1, 10_000.0)
    assert (opened.state(10_000.0), opened.left(10_000.0)) == ("open", 30.0)
    assert (opened.state(9_999.5), opened.allows(9_999.5)) == ("open", 0.0)
    assert (opened.state(6_400.0), opened.allows(6_400.0), opened.left(6_400.0)) == ("half-open", 1.0, 0.0)
    probing = opened.granted(6_400.0)
    assert (probing.allows(6_400.0), probing.left(6_400.0)) == (0.0, 30.0)
