"""Outcomes as a flush has them, for tests of what is counted."""

from typing import Any

from windlass.core.states import Kind
from windlass.store.records import DEFAULT_OPTIONS, ClaimedJob, Failure, Options, Outcome

BOUNCED = Failure("ValueError", "it bounced\x1b[2J\nback")


def claimed(
    id: int = 1, *, task: str = "send", queue: str = "mail", attempt: int = 1, **more: Any
) -> ClaimedJob:
    """A job of a claim."""
    fields: dict[str, Any] = {
        "lane": 1,
        "claim": 1,
        "seq": id,
        "payload": "{}",
        "priority": 2,
        "deaths": 0,
        "options": DEFAULT_OPTIONS,
        "enqueued_at": 0.0,
        **more,
    }
    return ClaimedJob(id=id, task=task, queue=queue, attempt=attempt, **fields)


def ended(kind: Kind = Kind.SUCCEEDED, id: int = 1, ms: float | None = 5.0, **job: Any) -> Outcome:
    """How a run of it ended."""
    error = BOUNCED if kind in (Kind.RETRY, Kind.DEAD) else None
    return Outcome(job=claimed(id, **job), kind=kind, delay=10.0, error=error, run_ms=ms)


LAST: dict[str, Any] = {"attempt": 3, "options": Options(max_attempts=3)}
