"""Rules of what a schedule becomes when it is declared or changed, and the job that it makes for a time [K4].
The SQLite store and the oracle of its tests share it; nothing is stored here. Where a schedule comes from is
said here for everybody who shows one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from windlass.store.records import NewJob, NewSchedule, ScheduleRecord, WorkerRecord

Origin = Literal["code", "changed", "live", "left"]
"""Where a schedule comes from: code; code, changed at run time; made at run time; code that is gone."""

SLACK: Final = 60.0
"""Seconds between a worker's declaring its schedules and its registering, at most."""


_OTHER: Final = {"payload": "other arguments", "options": "other options"}


def definition_of(schedule: NewSchedule) -> NewSchedule:
    """Return the definition of a schedule, without its state."""
    return NewSchedule(**_values(schedule))


def origin(schedule: ScheduleRecord, workers: Iterable[WorkerRecord]) -> Origin:
    """Where a schedule comes from. The code has left where every worker that lives has started since it was
    declared last, and none of them declared it."""
    if schedule.declared is None:
        return "live"
    since = min((worker.started_at for worker in workers if worker.alive), default=0.0)
    if since > (schedule.declared_at or 0.0) + SLACK:
        return "left"
    return "changed" if schedule.live else "code"


def differences(schedule: ScheduleRecord) -> dict[str, str]:
    """Return what code says otherwise, by field. Arguments may be sealed: of them only that they differ is
    said."""
    declared = schedule.declared
    if declared is None or not schedule.live:
        return {}
    found: dict[str, str] = {}
    for field in NewSchedule.__struct_fields__:
        value = getattr(declared, field)
        if value != getattr(schedule, field):
            found[field] = _OTHER.get(field) or (f"{value:g}" if isinstance(value, float) else str(value))
    return found


def seeded(
    known: ScheduleRecord | None, new: NewSchedule, now: float, next_at: float | None, error: str | None
) -> ScheduleRecord:
    """A schedule as code declares it now."""
    if known is None:
        return _made(new, next_at, error, declared=new, declared_at=now)
    kept = known if known.live else _defined(known, new, next_at, error)
    live = known.live and definition_of(known) != new
    return msgspec.structs.replace(kept, live=live, declared=new, declared_at=now)


def put(
    known: ScheduleRecord | None, schedule: NewSchedule, next_at: float | None, *, new: bool
) -> ScheduleRecord | None:
    """A schedule as it is made or changed at run time now; None: that cannot be."""
    if new is (known is not None):
        return None
    if known is None:
        return _made(schedule, next_at, None, live=True)
    live = known.declared != schedule
    return msgspec.structs.replace(_defined(known, schedule, next_at, None), live=live)


def _made(new: NewSchedule, next_at: float | None, error: str | None, **more: Any) -> ScheduleRecord:
    return ScheduleRecord(**_values(new), next_at=next_at, error=error, **more)


def _values(new: NewSchedule) -> dict[str, Any]:
    return {field: getattr(new, field) for field in NewSchedule.__struct_fields__}


def _defined(
    known: ScheduleRecord, new: NewSchedule, next_at: float | None, error: str | None
) -> ScheduleRecord:
    """One that exists, with another definition. What it has done stays, and when it is due, unless that has
    changed with its expression, or it never is: whoever declares it now may know its time zone."""
    seeded = msgspec.structs.replace(known, **_values(new))
    if known.next_at is None or (known.cron, known.tz) != (new.cron, new.tz):
        return msgspec.structs.replace(seeded, next_at=next_at, error=error)
    return seeded


def job_of(schedule: ScheduleRecord, time: float, behind: int | None = None) -> NewJob:
    """The job for this time. `behind` is its schedule's last one, which was told to stop: it comes after
    that, however that ends."""
    headers = {
        **schedule.options.headers,
        "windlass-schedule": schedule.name,
        "windlass-scheduled-for": datetime.fromtimestamp(time, UTC).isoformat(),
    }
    options = msgspec.structs.replace(schedule.options, headers=headers)
    if behind is not None:
        options = msgspec.structs.replace(options, after=(behind,), otherwise="run")
    return NewJob(
        task=schedule.task,
        payload=schedule.payload,
        queue=schedule.queue,
        priority=schedule.priority,
        delay=schedule.jitter * _share(schedule.name, time) if schedule.jitter > 0 else None,
        options=options,
        automatic=True,
    )


def _share(name: str, time: float) -> float:
    """A number from 0 to 1, always the same for a name and a time, and spread evenly over different ones."""
    digest = hashlib.sha256(f"{name}/{time!r}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
