"""The job that a schedule makes for a time [K4]. The stores written in Python share it; nothing is stored
here."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import msgspec

from windlass.store.flow import ScheduleRecord
from windlass.store.records import NewJob


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
