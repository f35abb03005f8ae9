"""Schedules [K4]: what they do, and how they stand."""

from __future__ import annotations

import msgspec

from windlass.core.cron import Missed, Overlap
from windlass.core.states import Priority
from windlass.store.records.job import DEFAULT_OPTIONS, Options


class NewSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of a schedule, as code declares it or as it was made at run time."""

    name: str
    cron: str
    task: str
    tz: str = "UTC"
    payload: str = "{}"
    queue: str = "default"
    priority: int = Priority.NORMAL
    options: Options = DEFAULT_OPTIONS
    missed: Missed = "latest"
    overlap: Overlap = "skip"
    grace: float = 60.0
    """A fire that is later than this is missed."""
    jitter: float = 0.0
    """Its jobs are put off by up to so many seconds."""


class ScheduleRecord(NewSchedule, frozen=True, kw_only=True):
    """A schedule as it stands."""

    paused: bool = False
    next_at: float | None = None
    """When it is due; None where it never is, see `error`."""
    last_at: float | None = None
    """The time it fired for last."""
    last_job: int | None = None
    skipped: int = 0
    """Fires that were missed, or met a job of theirs that had not ended, since it was declared."""
    error: str | None = None
    """The fault of its expression or of its last fire."""
    live: bool = False
    """It was made or changed at run time, and is not what code declares."""
    declared: NewSchedule | None = None
    """The last declaration in code; None where there is none."""
    declared_at: float | None = None
    """When a worker whose code declares it has started last."""


class Due(msgspec.Struct, frozen=True):
    """The schedules that are due, and the store's clock."""

    now: float
    schedules: list[ScheduleRecord]
    next_at: float | None = None
    """When the next one is due after these; None: none ever is."""
