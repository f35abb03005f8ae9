"""From records to what the service answers with. Values in, values out; nothing is asked here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from windlass.core import cron
from windlass.core.states import State
from windlass.presentation.cluster_state import ClusterState
from windlass.presentation.flow import budget_fields, queue_fields, schedule_fields, worker_fields
from windlass.presentation.jobs import job_fields
from windlass.presentation.text import iso
from windlass.presentation.waiting import (
    budget_in_words,
    load_in_words,
    queue_in_words,
    state_in_words,
    worker_in_words,
)
from windlass.store.records import (
    BudgetRecord,
    Depth,
    Finding,
    Health,
    JobRecord,
    QueueRecord,
    ScheduleRecord,
    Vitals,
    WorkerRecord,
)
from windlass.web.service.shapes import (
    BudgetView,
    BusyShape,
    FindingShape,
    ListedJob,
    QueueView,
    ScheduleView,
    SegmentShape,
    VitalsShape,
    WorkerView,
)

LISTED: Final = 4_000
"""So many characters of a payload, a result or a checkpoint are worth showing in a listing."""
UPCOMING: Final = 3


def queue_view(
    state: ClusterState, name: str, per_minute: Mapping[str, float], held: Mapping[str, str]
) -> QueueView:
    """A queue as the state has it; `held` says what the jobs of those that stand still wait for."""
    record = state.view.queues.get(name, QueueRecord(name=name))
    depth = state.depth.get(name, Depth())
    slots = state.slots().get(name)
    return QueueView(
        **queue_fields(record, depth, slots, state.view.serving.get(name, 0)),
        state_text=queue_in_words(record) or held.get(name, ""),
        load_text=load_in_words(record),
        per_minute=per_minute.get(name),
    )


def standing(state: ClusterState) -> list[str]:
    """Queues that are served and give out jobs, that have some, and of which none runs; the longest wait
    first."""
    found = [
        name
        for name, depth in state.depth.items()
        if depth.ready
        and not depth.running
        and state.view.serving.get(name, 0)
        and not queue_in_words(state.view.queues.get(name, QueueRecord(name=name)))
    ]
    return sorted(found, key=lambda name: -(state.depth[name].oldest or 0.0))


def worst_first(queue: QueueView) -> tuple[Any, ...]:
    """The order in which an overview lists queues: those that hold jobs up, then those with the longest
    wait."""
    stands = queue.ready > 0 and (not queue.workers or bool(queue.state_text))
    refuses = queue.pressure == "full"
    return (not stands, not refuses, -(queue.oldest or 0.0), -queue.ready, -queue.running, queue.name)


def listed_job(job: JobRecord) -> ListedJob:
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
    return ListedJob(**job_fields(short), state_text=state_in_words(job), cut=cut)


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
    fields = worker_fields(worker, state.view.slots.get(worker.id, {}), state.at)
    vitals = worker.vitals
    return WorkerView(
        **fields,
        state_text=worker_in_words(worker, state.at),
        vitals=None if vitals is None else _vitals(vitals, worker.vitals_at, state.at),
    )


def _vitals(vitals: Vitals, at: float | None, now: float) -> VitalsShape:
    return VitalsShape(
        at=iso(at),
        age=None if at is None else round(max(now - at, 0.0), 3),
        cpu=round(vitals.cpu, 3),
        memory=vitals.memory,
        running=vitals.running,
        slots=vitals.slots,
        lag=round(vitals.lag, 4),
        jobs=[BusyShape(str(busy.job), busy.task, busy.queue, iso(busy.since) or "") for busy in vitals.jobs],
    )


def budget_view(budget: BudgetRecord) -> BudgetView:
    """A budget, and what keeps it from granting."""
    return BudgetView(**budget_fields(budget), state_text=budget_in_words(budget))


def schedule_view(schedule: ScheduleRecord, now: float) -> ScheduleView:
    """A schedule, and when it fires next."""
    state = "; ".join(filter(None, ("paused" if schedule.paused else "", schedule.error or "")))
    return ScheduleView(**schedule_fields(schedule), state_text=state, upcoming=_upcoming(schedule, now))


def _upcoming(schedule: ScheduleRecord, now: float) -> list[str]:
    if schedule.paused or schedule.next_at is None:
        return []
    try:
        times = islice(cron.upcoming(schedule.cron, schedule.tz, now), UPCOMING)
        return [iso(time) or "" for time in times]
    except cron.BadSchedule:  # `error` says what is wrong with it
        return []


def finding_shape(finding: Finding, since: float | None = None) -> FindingShape:
    """A finding as JSON has it."""
    return FindingShape(
        name=finding.name, level=finding.level, text=finding.text, advice=finding.advice, since=iso(since)
    )


def health_fields(health: Health, now: float) -> dict[str, Any]:
    """What Operations tells of the store's health."""
    return {
        **msgspec.structs.asdict(health),
        "tables": list(health.tables),
        "segments": [
            SegmentShape(no=each.no, bytes=each.bytes, state=each.state, opened_at=iso(each.opened_at))
            for each in health.segments
        ],
        "blocked_since": iso(health.blocked_since),
        "coordinator_until": iso(health.coordinator_until),
        "leads": health.coordinator_until is not None and health.coordinator_until > now,
    }


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= LISTED else "null"
