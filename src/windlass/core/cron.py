"""When a schedule fires: cron expressions in a time zone, spans of time, and what to do about fires that were
missed [K4].

An expression has five fields, or six with seconds first; `@daily` and the like are short for one. A fixed
time that a change of clocks skips fires right after the gap; one that it repeats fires the first time only.
Expressions with a star for minute or hour go by real time. `@every 10s` fires at the multiples of its span,
counted from 1970 in UTC: nothing has to be remembered, and nothing drifts. Times are seconds since the epoch.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from itertools import count, takewhile
from typing import Final, Literal
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from windlass.core.durations import Duration, duration_text, seconds

Missed = Literal["skip", "latest", "all"]
Overlap = Literal["skip", "queue", "cancel"]
MAX_MISSED: Final = 1000
"""Fires that "all" makes up for, the latest ones; those before are skipped."""

_DAY: Final = 86400
_FIRST_LOOK: Final = 3600.0
_FIELDS: Final = (5, 6)
_LONGEST: Final = 366 * _DAY
_EVERY: Final = re.compile(r"@every\s+(\S.*)")
_WORDS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
_ADVICE: Final = (
    "write minute, hour, day of month, month and day of week, as in '0 9 * * MON-FRI', with seconds before "
    "them where they matter, or '@daily', or '@every 10s'"
)


class BadSchedule(ValueError):
    """An expression that is none, or a time zone that is not known here."""


class Firing(msgspec.Struct, frozen=True):
    """The fires of a due schedule: the times it fires for, how many it skips, and when it is due next."""

    times: tuple[float, ...]
    skipped: int
    next_at: float


def check(cron: str, tz: str) -> None:
    """Raise BadSchedule for what can never fire."""
    next_fire(cron, tz, 0.0)


def every(span: Duration) -> str:
    """The expression of a schedule that fires once in each such span. Raises BadSchedule."""
    try:
        given = seconds(span)
    except ValueError as error:
        raise BadSchedule(f"every: {error}") from None
    _whole(given, f"every={span!r}")
    return f"@every {duration_text(given)}"


def next_fire(cron: str, tz: str, after: float) -> float:
    """The first time after this one."""
    return next(upcoming(cron, tz, after))


def upcoming(cron: str, tz: str, after: float) -> Iterator[float]:
    """All the times after this one, each once and in order."""
    place = zone(tz)
    expression = cron.strip().lower()
    if found := _EVERY.fullmatch(expression):
        yield from _multiples(_span(cron, found[1]), after)
    expression = _WORDS.get(expression, expression)
    try:
        fields = expression.split()
        if len(fields) not in _FIELDS:
            raise CronSimError("Wrong number of fields")
        by_the_wall = not any(field.startswith("*") for field in fields[-5:-3])
        # Whole seconds: a date rounds its last digits, and might so step over a time that is yet to come.
        walk = _by_the_wall if by_the_wall else _by_real_time
        yield from walk(expression, place, math.floor(after))
    except CronSimError as error:
        raise BadSchedule(f"{cron!r} is not a cron expression ({error}); {_ADVICE}") from None
    raise BadSchedule(f"{cron!r} names no day that ever comes; {_ADVICE}")


def times_due(cron: str, tz: str, due_at: float, now: float, missed: Missed, grace: float) -> Firing:
    """Decide which times of a schedule fire that was due at `due_at`; it is `now`. A fire is missed once it
    is `grace` seconds late."""
    due = _due(cron, tz, due_at, now) or [due_at]  # the expression has changed since: what was due still is
    if missed == "skip":
        times = [time for time in due if now - time <= grace]
    else:
        times = due[-1:] if missed == "latest" else due
    return Firing(tuple(times), len(due) - len(times), next_fire(cron, tz, now))


def _due(cron: str, tz: str, due_at: float, now: float) -> list[float]:
    """The latest times from `due_at` to `now`. It looks back further and further: after an outage of years
    there may be millions before those that count."""
    back = _FIRST_LOOK
    while True:
        start = max(due_at, now - back)
        times = takewhile(lambda time: time <= now, upcoming(cron, tz, start - 1))
        latest = deque((time for time in times if time >= start), maxlen=MAX_MISSED)
        if start == due_at or len(latest) == MAX_MISSED:
            return list(latest)
        back *= 2


def _span(cron: str, text: str) -> int:
    try:
        return _whole(seconds(text), f"{cron!r}")
    except BadSchedule:
        raise
    except ValueError as error:
        raise BadSchedule(f"{cron!r} is not a schedule: {error}") from None


def _whole(span: float, what: str) -> int:
    if not 1 <= span <= _LONGEST or span != int(span):
        raise BadSchedule(
            f"{what} cannot be kept: a schedule fires every 1s to 366d, in whole seconds, as in '@every 10s'"
        )
    return int(span)


def _multiples(span: int, after: float) -> Iterator[float]:
    return (float(number * span) for number in count(math.floor(after / span) + 1))


def _by_the_wall(cron: str, tz: ZoneInfo, after: float) -> Iterator[float]:
    """Times that are fixed on the wall clock."""
    for wall in CronSim(cron, datetime.fromtimestamp(after, tz).replace(tzinfo=None)):
        # Those of a gap are all the moment it ends. From within a repeated hour the walk begins with times
        # that have been already.
        if (time := _moment(wall, tz)) > after:
            after = time
            yield time


def _moment(wall: datetime, tz: ZoneInfo) -> float:
    """When the wall clock first shows this; where it never does, the end of the gap."""
    time = wall.replace(tzinfo=tz).timestamp()
    if datetime.fromtimestamp(time, tz).replace(tzinfo=None) == wall:
        return time
    change = _change(tz, wall.replace(tzinfo=tz, fold=1).timestamp(), time)
    return time if change is None else change


def _by_real_time(cron: str, tz: ZoneInfo, after: float) -> Iterator[float]:
    """Times that follow one another as they are on the wall clock. Between two changes of clocks that is real
    time and an offset; so the walk begins anew at each change, whatever its length."""
    begin, offset = after, _offset(tz, after)
    while True:
        for wall in CronSim(cron, datetime.fromtimestamp(begin + offset, UTC)):
            time = wall.timestamp() - offset
            if (change := _change(tz, after, time)) is not None:
                # The moment of the change itself may be a time, and a walk gives only what comes after.
                begin, after, offset = change - 1, change, _offset(tz, change)
                break
            after = time
            yield time
        else:
            return


def _change(tz: ZoneInfo, low: float, high: float) -> float | None:
    """When the clocks first change after `low`, up to `high`; None: they do not."""
    offset = _offset(tz, low)
    for end in (*range(int(low) + _DAY, int(high), _DAY), int(high)):
        if _offset(tz, end) == offset:
            low = end
            continue
        first, last = int(low), end
        while last - first > 1:
            middle = (first + last) // 2
            first, last = (middle, last) if _offset(tz, middle) == offset else (first, middle)
        return float(last)
    return None


def _offset(tz: ZoneInfo, time: float) -> float:
    offset = datetime.fromtimestamp(time, tz).utcoffset()
    return offset.total_seconds() if offset is not None else 0.0


@lru_cache(maxsize=256)
def zone(name: str) -> ZoneInfo:
    """The time zone of this name. Raises BadSchedule."""
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise BadSchedule(
            f"there is no time zone {name!r} here; write an IANA name such as Europe/Paris, and install "
            "tzdata where the system has none"
        ) from None
