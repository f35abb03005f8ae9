"""The timeline of a job, made from its events and its record [M2].

A plain success makes no event, since the record knows when the job was enqueued, claimed and finished. Where
both know of something, the event is used: it knows the worker and how long the run took."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from windlass.core.states import FINISHED
from windlass.presentation.events import EventShape
from windlass.presentation.text import iso, one_line, span
from windlass.signals import FOR_EVER
from windlass.store.records import EventRecord, JobRecord

_FAILED: Final = frozenset({"retry", "dead"})
_RAN: Final = frozenset({"retry", "snooze", "throttled", "unknown"})
"""After these a job is due when what they wait for is over."""


def timeline(job: JobRecord, events: Iterable[EventRecord], worker: str | None) -> list[EventShape]:
    """Return what happened to the job, the earliest first."""
    shown = list(events)
    moments = [(event.at, 1, EventShape.of(event)) for event in shown]
    seen: set[tuple[str, int]] = {(event.kind, event.attempt) for event in shown}
    moments += [(at, 0, shape) for at, shape in _derived(job, seen, worker)]
    moments.sort(key=lambda moment: moment[:2])
    return [shape for _, _, shape in moments]


def _derived(
    job: JobRecord, seen: set[tuple[str, int]], worker: str | None
) -> Iterator[tuple[float, EventShape]]:
    """Yield what the record tells."""
    put_off = job.run_at - job.enqueued_at if job.run_at is not None and not job.errors else 0.0
    begun = job.attempt > 1 or any(
        kind in _RAN for kind, _ in seen
    )  # else it may be due when its wait is over
    message = f"to run after {span(put_off)}" if 0 < put_off < FOR_EVER and not begun else ""
    yield _moment(job, job.enqueued_at, "enqueued", message)
    for error in job.errors:
        if not any((kind, error.attempt) in seen for kind in _FAILED):
            message = one_line(f"{error.type}: {error.message}", 500)
            yield _moment(job, error.at, "failed", message, attempt=error.attempt)
    if job.claimed_at is not None:
        yield _moment(job, job.claimed_at, "claimed", worker=worker or "", attempt=job.attempt)
    if job.finished_at is not None and job.state in FINISHED and (str(job.state), job.attempt) not in seen:
        began = job.claimed_at
        ran = None if began is None else round(max(job.finished_at - began, 0.0) * 1000, 3)
        message = one_line(job.reason or "", 500)
        yield _moment(job, job.finished_at, str(job.state), message, attempt=job.attempt, ms=ran)


def _moment(job: JobRecord, at: float, kind: str, text: str = "", **more: Any) -> tuple[float, EventShape]:
    about = {"job": str(job.id), "queue": job.queue, "task": job.task, **more}
    return at, EventShape(at=iso(at) or "", kind=kind, text=text, **about)
