"""When a schedule fires: cron expressions in a time zone, and what to do about fires that were missed [K4].

A fixed time that a change of clocks skips fires right after the gap; one that it repeats fires the first time
only. Expressions with a star for minute or hour go by real time. Times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Literal
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

Missed = Literal["skip", "latest", "all"]
Overlap = Literal["skip", "queue", "cancel"]
MOST_MISSED: Final = 1000
"""With "all", the latest so many fires are made up for; those before are skipped."""


class BadSchedule(ValueError):
    """An expression that is none, or a time zone that is not known here."""


class Firing(msgspec.Struct, frozen=True):
    """What a due schedule does: the times it fires for, how many it skips, and when it is due next."""

    times: tuple[float, ...]
    skipped: int
    next_at: float


def check(cron: str, tz: str) -> None:
    """Raise BadSchedule for what can never fire."""
    next_fire(cron, tz, 0.0)


def next_fire(cron: str, tz: str, after: float) -> float:
    """The first time after this one."""
    return next(upcoming(cron, tz, after))


def upcoming(cron: str, tz: str, after: float) -> Iterator[float]:
    """All the times after this one."""
    yield from _walk(cron, tz, after, reverse=False)


def fire(cron: str, tz: str, due_at: float, now: float, missed: Missed, grace: float) -> Firing:
    """What a schedule does that was due at `due_at`, and it is `now`. A fire is missed once it is `grace`
    seconds late."""
    last = next_fire(cron, tz, now)
    due: list[float] = []
    for time in _walk(cron, tz, last, reverse=True):
        if time < due_at:
            break
        if time > now:
            continue
        if len(due) == MOST_MISSED:
            break
        due.insert(0, time)
    if not due:
        due.append(due_at)  # the expression has changed since: what was due still is
    if missed == "skip":
        times = [time for time in due if now - time <= grace]
    else:
        times = due[-1:] if missed == "latest" else due
    return Firing(tuple(times), len(due) - len(times), last)


def _walk(cron: str, tz: str, start: float, *, reverse: bool) -> Iterator[float]:
    """The times before or after one, never the same twice."""
    zone = _zone(tz)
    last = start
    try:
        for moment in CronSim(cron, datetime.fromtimestamp(start, UTC).astimezone(zone), reverse=reverse):
            # An ambiguous local time may come out on the other side of where the walk stands.
            time = moment.timestamp()
            if time < last if reverse else time > last:
                last = time
                yield time
    except CronSimError as error:
        raise BadSchedule(
            f"{cron!r} is no cron expression ({error}); write minute, hour, day of month, month and day "
            "of week, as in '0 9 * * MON-FRI'"
        ) from None


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise BadSchedule(
            f"there is no time zone {name!r} here; write an IANA name such as Europe/Paris, and install "
            "tzdata where the system has none"
        ) from None
