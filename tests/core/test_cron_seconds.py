"""Schedules by the second, and the words that stand for an expression [K4]."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.cron import BadSchedule, check, every, next_fire, times_due, upcoming

PARIS = "Europe/Paris"
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC).timestamp()


def moment(text: str, tz: str = PARIS) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(tz)).timestamp()


def first(cron: str, after: float, n: int, tz: str = "UTC") -> list[float]:
    return list(islice(upcoming(cron, tz, after), n))


# -- a field for seconds ------------------------------------------------------------------------------------


def test_k4_six_fields_begin_with_seconds() -> None:
    """[K4]"""
    assert first("*/20 * * * * *", NOON + 0.5, 4) == [NOON + 20, NOON + 40, NOON + 60, NOON + 80]
    assert first("15 30 9 * * MON-FRI", moment("2026-05-01 09:30:15"), 2, PARIS) == [
        moment("2026-05-04 09:30:15"),
        moment("2026-05-05 09:30:15"),
    ]


@given(st.floats(NOON, NOON + 40 * 86400), st.sampled_from(["UTC", PARIS]))
def test_k4_every_second_is_every_second(after: float, tz: str) -> None:
    """[K4]"""
    times = first("* * * * * *", after, 100, tz)
    assert after < times[0] <= after + 1
    assert all(later - time == 1 for time, later in pairwise(times))


def test_k4_a_fixed_second_in_a_gap_fires_once_right_after_it() -> None:
    """[K4] And one that comes twice the first time only, as with five fields."""
    gap, end = moment("2026-03-29 01:59:59"), moment("2026-03-29 03:00")
    assert first("*/10 30 2 * * *", gap, 2, PARIS) == [end, moment("2026-03-30 02:30")]
    before = moment("2026-10-25 02:30:50")
    assert next_fire("50,55 30 2 * * *", PARIS, before) == before + 5
    assert next_fire("50,55 30 2 * * *", PARIS, before + 5) == moment("2026-10-26 02:30:50")
    assert next_fire("5 * * * * *", PARIS, before) == moment("2026-10-25 02:31:05")  # by real time


# -- every so often -----------------------------------------------------------------------------------------


def test_k4_a_span_fires_at_its_multiples() -> None:
    """[K4] Counted from 1970: whoever asks, and whenever, gets the same times."""
    assert first("@every 10s", NOON + 3.25, 3) == [NOON + 10, NOON + 20, NOON + 30]
    assert first("@every 10s", NOON, 1) == [NOON + 10]
    assert first("@every 7s", 0.0, 3) == [7.0, 14.0, 21.0]
    assert first("@every 1d", NOON, 1, PARIS) == [NOON + 12 * 3600]


@given(st.integers(1, 366 * 86400), st.floats(0, 4e9))
def test_k4_no_span_drifts(span: int, after: float) -> None:
    """[K4] Whatever the lateness of the one that asks: the next time is a multiple, and no multiple is left
    out."""
    time = next_fire(f"@every {span}s", "UTC", after)
    assert time % span == 0
    assert 0 < time - after <= span
    firing = times_due(f"@every {span}s", "UTC", time, time + span * 0.75, "all", 0.0)
    assert (firing.times, firing.next_at) == ((time,), time + span)


def test_k4_what_was_missed_of_a_span_is_made_up_for() -> None:
    """[K4]"""
    firing = times_due("@every 10s", "UTC", NOON, NOON + 35.5, "all", 0.0)
    assert firing.times == (NOON, NOON + 10, NOON + 20, NOON + 30)
    assert firing.next_at == NOON + 40
    assert times_due("@every 10s", "UTC", NOON, NOON + 35.5, "skip", 6.0).times == (NOON + 30,)


@pytest.mark.parametrize(
    ("span", "text"), [("10s", "@every 10s"), (90, "@every 90s"), (timedelta(hours=2), "@every 2h")]
)
def test_k4_a_span_is_written_in_one_way(span: float | str | timedelta, text: str) -> None:
    """[K4]"""
    assert every(span) == text
    check(text, "UTC")


@pytest.mark.parametrize("span", [0, "0.5s", "1.5s", "soon", timedelta(days=367), float("nan")])
def test_k4_a_span_that_cannot_be_kept(span: float | str | timedelta) -> None:
    """[K4]"""
    with pytest.raises(BadSchedule, match="every"):
        every(span)


@pytest.mark.parametrize("cron", ["@every", "@every soon", "@every 0s", "@every 1ms", "@every 9999999d"])
def test_k4_an_expression_of_a_span_that_is_none(cron: str) -> None:
    """[K4]"""
    with pytest.raises(BadSchedule, match=f"'{cron}'"):
        check(cron, "UTC")


# -- words --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "cron"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@weekly", "0 0 * * SUN"),
        ("@monthly", "0 0 1 * *"),
        ("@Yearly", "0 0 1 1 *"),
    ],
)
def test_k4_words_stand_for_expressions(word: str, cron: str) -> None:
    """[K4]"""
    assert first(word, NOON, 5, PARIS) == first(cron, NOON, 5, PARIS)
