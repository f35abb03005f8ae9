"""From records to what the service answers with. Values in, values out; nothing is asked here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from windlass.core.states import State
from windlass.operations.queues import QueueView
from windlass.presentation.cluster_state import ClusterState
from windlass.presentation.jobs import Labels, job_fields
from windlass.presentation.text import iso, shaped
from windlass.presentation.waiting import state_in_words, worker_in_words
from windlass.store.records import (
    Finding,
    Health,
    JobRecord,
    QueueRecord,
    Vitals,
    WorkerRecord,
)
from windlass.web.service.shapes import (
    BusyShape,
    FindingShape,
    ListedJob,
    Operations,
    SegmentShape,
    VitalsShape,
    WorkerView,
)

LISTED: Final = 4_000
"""So many characters of a payload, a result or a checkpoint are worth showing in a listing."""


def worst_first(queue: QueueView) -> tuple[Any, ...]:
    """The order in which an overview lists queues: those that hold jobs up, then those with the longest
    wait."""
    stands = queue.ready > 0 and (not queue.workers or bool(queue.state_text))
    refuses = queue.pressure == "full"
    return (not stands, not refuses, -(queue.oldest or 0.0), -queue.ready, -queue.running, queue.name)


def listed_job(job: JobRecord, labels: Labels) -> ListedJob:
    """A job as a listing has it: never large."""
    kept = {name: _short(getattr(job, name)) for name in ("payload", "result")}
    checkpoint = job.checkpoint
    if checkpoint is not None and len(checkpoint.data) > LISTED:
        checkpoint = msgspec.structs.replace(checkpoint, data="null")
    cut = any(kept[name] != getattr(job, name) for name in kept) or checkpoint is not job.checkpoint
    errors = tuple(
        msgspec.structs.replace(error, traceback="", message=error.message[:LISTED])
        for error in job.errors[-1:]
    )
    short = msgspec.structs.replace(job, errors=errors, checkpoint=checkpoint, **kept)
    return ListedJob(**job_fields(short, labels), state_text=state_in_words(job), cut=cut)


def running_since(job: JobRecord, workers: Iterable[WorkerRecord]) -> float | None:
    """When the present run of a job began: as its worker says, else when it was claimed."""
    if job.state not in (State.RUNNING, State.SPLITTING):
        return None
    busy = (each for worker in workers if worker.vitals is not None for each in worker.vitals.jobs)
    return next((each.since for each in busy if each.job == job.id), job.claimed_at)


def time_limit(job: JobRecord, queue: QueueRecord, timeout: float | None) -> float:
    """Seconds that a run of a job may take; `timeout` is its task's, where its code is known here [C6]."""
    return queue.time_limit(job.options.timeout if job.options.timeout is not None else timeout)


def worker_view(worker: WorkerRecord, state: ClusterState) -> WorkerView:
    """A worker, and how it is doing."""
    vitals = None if worker.vitals is None else _vitals(worker.vitals, worker.vitals_at, state.at)
    return WorkerView.of(
        worker, state, state_text=worker_in_words(worker, state.at, state.stuck_since(worker)), vitals=vitals
    )


def _vitals(vitals: Vitals, at: float | None, now: float) -> VitalsShape:
    return shaped(
        VitalsShape,
        vitals,
        at=iso(at),
        age=None if at is None else round(max(now - at, 0.0), 3),
        cpu=round(vitals.cpu, 3),
        lag=round(vitals.lag, 4),
        jobs=[BusyShape(str(busy.job), busy.task, busy.queue, iso(busy.since) or "") for busy in vitals.jobs],
    )


def finding_shape(finding: Finding, since: float | None = None) -> FindingShape:
    """A finding as JSON has it."""
    return shaped(FindingShape, finding, since=iso(since))


def operations(health: Health, now: float, **more: Any) -> Operations:
    """How the store is doing; `more` is what its health does not tell."""
    return shaped(
        Operations,
        health,
        at=iso(now),
        tables=list(health.tables),
        segments=[shaped(SegmentShape, each) for each in health.segments],
        cache_hits=_share(health.cache_hits, health.cache_misses),
        leads=health.coordinator_until is not None and health.coordinator_until > now,
        **more,
    )


def _share(hits: int | None, misses: int | None) -> float | None:
    return hits / (hits + misses) if hits is not None and misses is not None and hits + misses else None


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= LISTED else "null"
