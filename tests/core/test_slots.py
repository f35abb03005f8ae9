"""Slots of a queue over the workers that serve it: totals are kept, whoever joins or leaves [K1]. How far
ahead a worker claims: a little where jobs are short, nothing where they are long."""

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.slots import (
    AHEAD,
    LONG,
    MAX_AHEAD,
    MAX_FLUSH_CLAIMED,
    MAX_RUN,
    MAX_SLOTS,
    RUN,
    Prefetch,
    fair_share,
    share,
    split,
)

totals = st.integers(0, 5 * MAX_SLOTS)


def test_k1_ten_over_three() -> None:
    """[K1]"""
    assert split(10, [7, 8, 9]) == {7: 4, 8: 3, 9: 3}
    assert split(2, [7, 8, 9]) == {7: 1, 8: 1, 9: 0}
    assert split(0, [7]) == {7: 0}
    assert split(-5, [7]) == {7: 0}
    assert split(10, []) == {}


def test_k1_no_process_gets_more_than_it_can_use() -> None:
    """[K1]"""
    assert split(3 * MAX_SLOTS, [7, 8]) == {7: MAX_SLOTS, 8: MAX_SLOTS}
    assert share(3 * MAX_SLOTS, None, 1) == MAX_SLOTS
    assert share(3 * MAX_SLOTS, 2 * MAX_SLOTS, 1) == MAX_SLOTS


@given(totals, st.lists(st.integers(1, 10**6), unique=True, max_size=40))
def test_k1_the_parts_are_even_and_make_the_whole(total: int, workers: list[int]) -> None:
    """[K1]"""
    slots = split(total, workers)
    assert list(slots) == workers
    if workers:
        assert max(slots.values()) - min(slots.values()) <= 1
        assert sum(slots.values()) == min(
            total, sum(slots.values()) if max(slots.values()) == MAX_SLOTS else total
        )
        assert sorted(slots.values(), reverse=True) == list(slots.values())


@given(totals, st.integers(1, 40))
def test_k1_a_fair_share_is_never_the_full_total_beside_others(total: int, serving: int) -> None:
    """[K1] Rounded up, so that all of them together can always do all of it; by less than one each."""
    mine = share(total, None, serving)
    assert mine <= MAX_SLOTS
    assert mine * serving < total + serving
    if mine < MAX_SLOTS:
        assert mine * serving >= total
    if serving > 1 and total > 1:
        assert mine < total


@given(totals, st.integers(0, 100), st.integers(0, 40))
def test_k1_an_assignment_counts_for_more_than_a_share(total: int, assigned: int, serving: int) -> None:
    """[K1] Also an assignment of none; but one that was made before others came is no more than a share."""
    assert share(total, assigned, serving) == min(assigned, share(total, None, serving))


def test_k1_nonsense_gives_nothing() -> None:
    """[K1] Negative numbers are none, and nobody known to serve the queue means: only this one does."""
    assert share(-3, None, 2) == 0
    assert share(5, -1, 2) == 0
    assert share(5, None, 0) == 5


# -- claiming ahead ---------------------------------------------------------------------------------

times = st.floats(0, 3600, allow_nan=False)


def after(*seconds: float) -> Prefetch:
    prefetch = Prefetch()
    for run in seconds:
        prefetch.note(run)
    return prefetch


def test_nothing_is_claimed_ahead_of_what_is_not_known() -> None:
    assert Prefetch().ahead(16) == 0


def test_short_jobs_are_claimed_ahead() -> None:
    short = after(*[0.001] * 100)
    assert 0.9 < short.ahead(8) / (8 * AHEAD / 0.001) < 1.1
    assert short.ahead(0) == 0
    assert after(*[0.0] * 1000).ahead(16) == MAX_AHEAD


def test_one_long_job_is_enough_to_be_careful() -> None:
    """Better too careful than stuck: what waits behind a long job is kept from other workers."""
    prefetch = after(*[0.0001] * 200)
    assert prefetch.ahead(8) > 0
    prefetch.note(LONG)
    assert prefetch.ahead(8) == 0
    for _ in range(100):
        prefetch.note(0.0001)
    assert prefetch.ahead(8) > 0


@given(st.lists(times, max_size=50), st.integers(0, 64))
def test_the_answer_is_always_bounded(seconds: list[float], slots: int) -> None:
    prefetch = after(*seconds)
    assert 0 <= prefetch.ahead(slots) <= MAX_AHEAD
    if seconds and seconds[-1] >= LONG:
        assert prefetch.ahead(slots) == 0


@given(st.lists(times, max_size=50), st.integers(0, 10_000))
def test_runs_of_keys_are_bounded(seconds: list[float], firsts: int) -> None:
    """By their number, by the time that the last of a run waits, and all that come together."""
    prefetch = after(*seconds)
    behind = prefetch.behind(firsts)
    assert 0 <= behind < MAX_RUN
    assert behind * prefetch.seconds <= RUN * 1.001
    assert behind == 0 or firsts * (behind + 1) <= MAX_FLUSH_CLAIMED
    if seconds and seconds[-1] >= LONG:
        assert behind == 0


@given(st.integers(0, 10_000), st.integers(0, 50))
def test_k10_shares_leave_something_for_the_others(waiting: int, workers: int) -> None:
    """[K10] One at least; workers who come one after the other find theirs, and all together take all."""
    left = waiting
    for _ in range(workers):
        taken = min(left, fair_share(left, workers))
        assert taken <= -(-waiting // workers) or taken == 1
        left -= taken
    assert fair_share(waiting, workers) >= 1
    assert fair_share(4, 3) == 2
