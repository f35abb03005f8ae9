"""The keys of an event in JSON [M2]; see `windlass.words.job_shapes`."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.store.measures import EventRecord
from windlass.words.text import iso


class EventShape(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened. Those of a job's timeline that no store keeps, since the job itself tells of
    them (enqueued, claimed, failed, ended), have no id."""

    id: str | None = None
    at: str
    kind: str
    told: str = ""
    job: str | None = None
    queue: str = ""
    task: str = ""
    worker: str = ""
    attempt: int = 0
    ms: float | None = None


def event_shape(event: EventRecord) -> EventShape:
    """An event as JSON has it."""
    return EventShape(
        id=str(event.id),
        at=iso(event.at) or "",
        kind=event.kind,
        told=event.told,
        job=None if event.job is None else str(event.job),
        queue=event.queue,
        task=event.task,
        worker=event.worker,
        attempt=event.attempt,
        ms=event.ms,
    )


def event_as_json(event: EventRecord) -> dict[str, Any]:
    """An event as commands print it."""
    plain: dict[str, Any] = msgspec.to_builtins(event_shape(event))
    return plain
