"""From records to what the service answers with. Values in, values out; nothing is asked here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from windlass.core.states import State
from windlass.presentation.jobs import Labels, job_fields
from windlass.presentation.waiting import state_in_words
from windlass.store.records import JobRecord, QueueRecord, WorkerRecord
from windlass.web.service.shapes import ListedJob

LISTED: Final = 4_000
"""So many characters of a payload, a result or a checkpoint are worth showing in a listing."""


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


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= LISTED else "null"
