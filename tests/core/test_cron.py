"""Schedules over a whole year in four time zones [K4], against a calculation that shares nothing with them.

The calculation walks every minute of the year in UTC, looks at the wall clock there, and matches the fields
with a parser of its own. Wall times that a change of clocks skips or repeats follow the rules that
`windlass.core.cron` writes down.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.core.cron import MAX_MISSED, BadSchedule, Missed, check, next_fire, times_due, upcoming

START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
END = datetime(2027, 1, 1, tzinfo=UTC).timestamp()
PARIS = "Europe/Paris"
ZONES = (PARIS, "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")
EXPRESSIONS = (
    "30 2 * * *",  # skipped in Paris and New York
    "15 2 * * *",  # skipped in all three that change
    "0,10,50 2 * * *",  # several in one gap
    "0 2,3 * * *",  # where the gap ends, too
    "45 1 * * *",  # repeated in New York and on Lord Howe
    "*/20 2 * * *",  # by real time
    "*/15 5 * * *",
    "7 */2 * * *",
    "0 * * * *",
    "*/15 * * * *",
    "0 9 * * MON-FRI",
    "30 2 * * 0",
    "30 1-3 * 3,4,10,11 *",
    "0 0 L * *",
    "10 6-18/4 1,15 * *",
    "30 8 13 * FRI",  # either will do
    "0 12 */2 * FRI",  # both have to
)


# -- the other calculation ------------------------------------------------------------------------------

DAY = 24 * 60
DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


class Wall:
    """A zone's wall clock over the year, in minutes: what it shows when, what it repeats, what it skips."""

    def __init__(self, tz: str) -> None:
        zone = ZoneInfo(tz)
        self.shown: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """By the minute of the day: the day, and when."""
        self.repeated: set[int] = set()
        self.skipped: list[tuple[int, int, int]] = []
        """The minute of the day, the day, and when the gap ends."""
        latest = None
        for at in range(int(START), int(END), 60):
            offset = datetime.fromtimestamp(at, zone).utcoffset()
            assert offset is not None
            wall = at // 60 + offset.days * DAY + offset.seconds // 60
            self.shown[wall % DAY].append((wall // DAY, at))
            if latest is not None and wall <= latest:
                self.repeated.add(at)
                continue
            self.skipped += [(gap % DAY, gap // DAY, at) for gap in range((latest or wall) + 1, wall)]
            latest = wall

    def fires(self, cron: str) -> list[int]:
        """Every time of the year at which this expression should fire."""
        minute, hour, *days = cron.split()
        clocks = {h * 60 + m for h in field(hour, 0, 23) for m in field(minute, 0, 59)}
        fits = cache(lambda day: matches(date(1970, 1, 1) + timedelta(days=day), *days))
        found = {at for clock in clocks for day, at in self.shown[clock] if fits(day)}
        if not minute.startswith("*") and not hour.startswith("*"):
            found -= self.repeated
            found |= {at for clock, day, at in self.skipped if clock in clocks and fits(day)}
        return sorted(found)


def matches(day: date, of_month: str, month: str, of_week: str) -> bool:
    if day.month not in field(month, 1, 12):
        return False
    last = (day + timedelta(days=1)).month != day.month
    by_month = last if of_month == "L" else day.day in field(of_month, 1, 31)
    by_week = day.isoweekday() % 7 in field(of_week, 0, 6)
    if of_month.startswith("*") or of_week.startswith("*"):
        return by_month and by_week
    return by_month or by_week


@cache
def field(text: str, least: int, most: int) -> frozenset[int]:
    found: set[int] = set()
    for term in text.split(","):
        span, _, step = term.partition("/")
        first, _, last = span.partition("-")
        low = least if first == "*" else number(first)
        high = most if first == "*" else number(last or first)
        found |= set(range(low, high + 1, int(step or 1)))
    return frozenset(found)


def number(text: str) -> int:
    return DAYS.index(text) if text in DAYS else int(text)


@pytest.fixture(scope="module", params=ZONES)
def zone(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@cache
def wall(tz: str) -> Wall:
    return Wall(tz)


@cache
def expected(tz: str, cron: str) -> tuple[float, ...]:
    return tuple(wall(tz).fires(cron))


def moment(tz: str, text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(tz)).timestamp()


def times_from(cron: str, tz: str, after: float, until: float) -> Iterator[float]:
    return takewhile(lambda at: at < until, upcoming(cron, tz, after))


# -- the year -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tz", "minutes"), [*zip(ZONES, (60, 60, 30, 0), strict=True)])
def test_the_other_calculation_knows_the_year(tz: str, minutes: int) -> None:
    """The gaps and the repeated times that the tests below are about are really there."""
    assert len(wall(tz).skipped) == len(wall(tz).repeated) == minutes
    assert len(expected(tz, "45 1 * * *")) == len(expected(tz, "15 2 * * *")) == 365


@pytest.mark.parametrize("cron", EXPRESSIONS)
def test_k4_every_fire_of_the_year(zone: str, cron: str) -> None:
    """[K4] All of them, each once, in order."""
    found = list(times_from(cron, zone, START - 1, END))
    assert found == list(expected(zone, cron))
    assert all(a < b for a, b in pairwise(found))


@pytest.mark.parametrize("cron", EXPRESSIONS)
def test_k4_from_wherever_one_starts_around_a_change(zone: str, cron: str) -> None:
    """[K4] Before, in and after each gap and each repeated hour: the next fire is the next of the year."""
    year = expected(zone, cron)
    changes = {at for *_, at in wall(zone).skipped} | {min(wall(zone).repeated, default=int(START) + 86400)}
    for change in changes:
        for after in range(change - 4 * 3600, change + 4 * 3600, 420):
            assert next_fire(cron, zone, after + 0.25) == year[bisect_right(year, after + 0.25)]


@settings(max_examples=150)
@given(st.sampled_from(ZONES), st.sampled_from(EXPRESSIONS), st.floats(START, END - 40 * 86400))
def test_k4_from_wherever_one_starts(tz: str, cron: str, after: float) -> None:
    """[K4]"""
    year = expected(tz, cron)
    assert next_fire(cron, tz, after) == year[bisect_right(year, after)]


# -- what was missed ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missed", "grace", "hours"),
    [
        ("all", 0, [12, 13, 14]),
        ("latest", 0, [14]),
        ("skip", 30, [14]),
        ("skip", 29, []),
        ("skip", 3630, [13, 14]),
    ],
)
def test_k4_three_hours_missed(missed: Missed, grace: float, hours: list[int]) -> None:
    """[K4] Half a minute after the third of them; what is late by no more than the grace is not missed."""
    due = {hour: moment("UTC", f"2026-05-01 {hour}:00") for hour in (12, 13, 14, 15)}
    firing = times_due("0 * * * *", "UTC", due[12], due[14] + 30, missed, grace)
    assert firing.times == tuple(due[hour] for hour in hours)
    assert (firing.skipped, firing.next_at) == (3 - len(hours), due[15])


def test_k4_a_fire_is_due_at_its_very_second() -> None:
    """[K4]"""
    noon = moment("UTC", "2026-05-01 12:00")
    firing = times_due("0 * * * *", "UTC", noon - 3600, noon, "all", 0)
    assert (firing.times, firing.next_at) == ((noon - 3600, noon), noon + 3600)


@settings(max_examples=150)
@given(
    st.sampled_from(ZONES),
    st.sampled_from(EXPRESSIONS),
    st.floats(0, 0.9),
    st.floats(0, 40 * 86400),
    st.floats(0, 86400),
)
def test_k4_missed_fires(tz: str, cron: str, place: float, late: float, grace: float) -> None:
    """[K4] Whatever the policy: nothing but what was due, nothing left out, nothing twice."""
    year = expected(tz, cron)
    due_at = year[int(place * len(year))]
    now = min(due_at + late, END - 40 * 86400)
    now = max(now, due_at)
    due = [at for at in year if due_at <= at <= now][-MAX_MISSED:]
    following = year[bisect_right(year, now)] if now < year[-1] else None

    every = times_due(cron, tz, due_at, now, "all", grace)
    assert list(every.times) == due
    latest = times_due(cron, tz, due_at, now, "latest", grace)
    assert list(latest.times) == due[-1:]
    skip = times_due(cron, tz, due_at, now, "skip", grace)
    assert list(skip.times) == [at for at in due if now - at <= grace]
    for firing in (every, latest, skip):
        assert len(firing.times) + firing.skipped == len(due)
        assert firing.next_at > now
        assert following is None or firing.next_at == following


def test_k4_a_year_of_looks_fires_each_time_once() -> None:
    """[K4] A coordinator that looks now and then, with outages between, fires the year once with `all`."""
    for tz, cron in (("Australia/Lord_Howe", "45 1,2 * * *"), (PARIS, "*/30 2 * * *")):
        fired: list[float] = []
        due_at, looks = next_fire(cron, tz, START - 1), 0
        while due_at < END:
            now = due_at + (looks * 7919) % (3 * 86400)
            firing = times_due(cron, tz, due_at, now, "all", 60.0)
            fired += firing.times
            due_at, looks = firing.next_at, looks + 1
        assert [at for at in fired if at < END] == list(expected(tz, cron))


def test_k4_a_change_of_clocks_fires_once() -> None:
    """[K4] A day's report in the gap, and in the hour that comes twice."""
    gap, after = moment(PARIS, "2026-03-29 01:59"), moment(PARIS, "2026-03-29 03:00")
    assert next_fire("30 2 * * *", PARIS, gap) == after
    assert next_fire("30 2 * * *", PARIS, after) == moment(PARIS, "2026-03-30 02:30")
    first = moment(PARIS, "2026-10-25 02:30")
    assert next_fire("30 2 * * *", PARIS, first - 60) == first
    assert next_fire("30 2 * * *", PARIS, first) == moment(PARIS, "2026-10-26 02:30")


def test_k4_after_a_long_outage_the_latest_are_made_up_for() -> None:
    """[K4] No more than so many, and quickly, however long it was."""
    now = START + 10 * 365 * 86400 + 30
    firing = times_due("* * * * *", PARIS, START, now, "all", 60.0)
    assert len(firing.times) == MAX_MISSED
    assert firing.times[-1] == now - 30
    assert firing.times[0] == now - 30 - 60 * (MAX_MISSED - 1)
    assert firing.next_at == now + 30


def test_k4_what_was_due_before_the_expression_changed_still_is() -> None:
    """[K4]"""
    due_at = moment("UTC", "2026-05-01 12:00")
    firing = times_due("0 6 * * *", "UTC", due_at, due_at + 5, "latest", 60.0)
    assert firing.times == (due_at,)
    assert firing.next_at == moment("UTC", "2026-05-02 06:00")


# -- what is none ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cron",
    ["", "* * * *", "60 * * * *", "0 0 31 2 *", "0 0 30 2 *", "@fortnightly", "0 0 * * 1#6", "0 0 5-1 * *"],
)
def test_k4_an_expression_that_is_none(cron: str) -> None:
    """[K4] Also one that makes sense and can never fire."""
    with pytest.raises(BadSchedule, match="0 9"):
        check(cron, "UTC")


@pytest.mark.parametrize("tz", ["Europe/Pairs", "", "../etc/passwd", "UTC\0", "/etc/localtime"])
def test_k4_a_zone_that_is_none(tz: str) -> None:
    """[K4]"""
    with pytest.raises(BadSchedule, match="Europe/Paris"):
        check("0 0 * * *", tz)


def test_k4_a_leap_day_is_worth_waiting_for() -> None:
    """[K4]"""
    assert next_fire("0 0 29 2 *", "UTC", START) == moment("UTC", "2028-02-29 00:00")


@given(st.text("0123456789*/,-L#WMONJA ", max_size=20))
def test_k4_any_text_is_a_schedule_or_refused(cron: str) -> None:
    """[K4] A bad expression is recorded and the others go on: it must not end in any other error."""
    try:
        check(cron, PARIS)
    except BadSchedule:
        return
    assert next_fire(cron, PARIS, START) > START
