"""What a schedule becomes when it is declared again, and the job that it makes for a time [K4]. The SQLite
store and the oracle of its tests share it; nothing is stored here."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import msgspec

from windlass.store.records import NewJob, NewSchedule, ScheduleRecord


def seeded(
    known: ScheduleRecord | None, new: NewSchedule, next_at: float | None, error: str | None
) -> ScheduleRecord:
    """A schedule as declared now. What one that exists has done stays, and when it is due, unless that has
    changed with its expression, or it never is: whoever declares it now may know its time zone."""
    definition = {field: getattr(new, field) for field in NewSchedule.__struct_fields__}
    if known is None:
        return ScheduleRecord(**definition, next_at=next_at, error=error)
    seeded = msgspec.structs.replace(known, **definition)
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
