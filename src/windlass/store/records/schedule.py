"""Schedules [K4]: as code declares them, and as they stand."""

from __future__ import annotations

import msgspec

from windlass.core.cron import Missed, Overlap
from windlass.core.states import Priority
from windlass.store.records.job import DEFAULT_OPTIONS, Options


class NewSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as code declares it."""

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
    """What is wrong with its expression or its last fire."""


class Due(msgspec.Struct, frozen=True):
    """The schedules that are due, and the store's clock."""

    now: float
    schedules: list[ScheduleRecord]
