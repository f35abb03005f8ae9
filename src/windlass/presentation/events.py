"""The keys of an event in JSON [M2]; see `jobs`."""

from __future__ import annotations

import msgspec

from windlass.presentation.text import Shape, iso, plain
from windlass.store.records import EventRecord


class EventShape(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened. Those of a job's timeline that no store keeps, since the job itself tells of
    them (enqueued, claimed, failed, ended), have no id."""

    id: str | None = None
    at: str
    kind: str
    text: str = ""
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
        text=event.text,
        job=None if event.job is None else str(event.job),
        queue=event.queue,
        task=event.task,
        worker=event.worker,
        attempt=event.attempt,
        ms=event.ms,
    )


def event_as_json(event: EventRecord) -> Shape:
    """An event as commands print it."""
    return plain(event_shape(event))
