"""The keys of an event in JSON [M2]; see `jobs`."""

from __future__ import annotations

from typing import Self

import msgspec

from windlass.presentation.text import shaped
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

    @classmethod
    def of(cls, event: EventRecord) -> Self:
        """An event as JSON has it."""
        return shaped(cls, event)
