"""Schedules as JSON; see `jobs`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Self

import msgspec

from windlass.core.cron import Missed, Overlap
from windlass.presentation.jobs import priority_name
from windlass.presentation.text import parsed, shaped
from windlass.store.records import ScheduleRecord, WorkerRecord
from windlass.store.schedules import Origin, differences, origin


class ScheduleShape(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule: what it does when, and how it stands."""

    name: str
    cron: str
    task: str
    tz: str
    payload: Any
    queue: str
    priority: str
    missed: Missed
    overlap: Overlap
    grace: float
    jitter: float
    paused: bool
    next_at: str | None
    last_at: str | None
    last_job: str | None
    skipped: int
    error: str | None
    origin: Origin
    """code; changed: declared by code and changed at run time; live: made at run time; left: no worker that
    runs declares it any more."""
    declared_at: str | None
    differences: dict[str, str]
    """Where it was changed at run time: what the code says, by field."""

    @classmethod
    def of(cls, schedule: ScheduleRecord, workers: Iterable[WorkerRecord], **more: Any) -> Self:
        """A schedule as JSON has it; `more` is what a larger shape adds."""
        about = {"origin": origin(schedule, workers), "differences": differences(schedule)}
        priority = priority_name(schedule.priority)
        return shaped(cls, schedule, payload=parsed(schedule.payload), priority=priority, **about, **more)


_ORIGINS: Final[dict[Origin, str]] = {
    "code": "",
    "changed": "changed at run time",
    "live": "made at run time",
    "left": "no longer in the code",
}


def origin_in_words(found: Origin) -> str:
    """Where a schedule comes from, where that is worth a word."""
    return _ORIGINS[found]
