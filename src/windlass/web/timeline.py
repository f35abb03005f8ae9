"""The life of a job as events in order of time: what its record tells, and what was told besides [M2].

A plain success makes no event, since the record knows when the job was enqueued, claimed and finished. Where
both know of something, the event is taken: it knows the worker and how long the run took.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from windlass.core.states import FINISHED
from windlass.store.measures import EventRecord
from windlass.store.records import JobRecord
from windlass.words.event_shapes import EventShape, event_shape
from windlass.words.text import iso, one_line, span

_FAILED: Final = frozenset({"retry", "dead"})


def timeline(job: JobRecord, events: Iterable[EventRecord], worker: str | None) -> list[EventShape]:
    """What happened to the job, the earliest first."""
    told = list(events)
    moments = [(event.at, 1, event_shape(event)) for event in told]
    seen: set[tuple[str, int]] = {(event.kind, event.attempt) for event in told}
    moments += [(at, 0, shape) for at, shape in _derived(job, seen, worker)]
    moments.sort(key=lambda moment: moment[:2])
    return [shape for _, _, shape in moments]


def _derived(
    job: JobRecord, seen: set[tuple[str, int]], worker: str | None
) -> Iterator[tuple[float, EventShape]]:
    """What the record tells."""
    put_off = job.run_at - job.enqueued_at if job.run_at is not None and not job.errors else 0.0
    told = f"to run after {span(put_off)}" if put_off > 0 and job.attempt == 1 else ""
    yield _moment(job, job.enqueued_at, "enqueued", told)
    for error in job.errors:
        if not any((kind, error.attempt) in seen for kind in _FAILED):
            told = one_line(f"{error.type}: {error.message}", 500)
            yield _moment(job, error.at, "failed", told, attempt=error.attempt)
    if job.claimed_at is not None:
        yield _moment(job, job.claimed_at, "claimed", worker=worker or "", attempt=job.attempt)
    if job.finished_at is not None and job.state in FINISHED and (str(job.state), job.attempt) not in seen:
        ran = None if job.claimed_at is None else max(job.finished_at - job.claimed_at, 0.0) * 1000
        told = one_line(job.reason or "", 500)
        yield _moment(job, job.finished_at, str(job.state), told, attempt=job.attempt, ms=ran)


def _moment(
    job: JobRecord,
    at: float,
    kind: str,
    told: str = "",
    *,
    worker: str = "",
    attempt: int = 0,
    ms: float | None = None,
) -> tuple[float, EventShape]:
    return at, EventShape(
        at=iso(at) or "",
        kind=kind,
        told=told,
        job=str(job.id),
        queue=job.queue,
        task=job.task,
        worker=worker,
        attempt=attempt,
        ms=None if ms is None else round(ms, 3),
    )
