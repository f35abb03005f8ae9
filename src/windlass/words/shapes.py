"""Records as JSON: the keys that scripts may rely on. Ids are strings, times ISO 8601 in UTC."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec

from windlass.core.gates import reason
from windlass.core.progress import Look, progress
from windlass.core.rates import rate_text
from windlass.core.states import Priority
from windlass.store.flow import BudgetRecord, GateRecord, ScheduleRecord, Watermark
from windlass.store.records import (
    Depth,
    Failure,
    JobRecord,
    ParentRecord,
    PartOf,
    PartRecord,
    QueueRecord,
    WorkerRecord,
)
from windlass.words.text import iso, parsed

Shape = dict[str, Any]


def job_as_json(job: JobRecord) -> Shape:
    """A job with everything the store knows about it."""
    options = job.options
    return {
        "id": str(job.id),
        "task": job.task,
        "queue": job.queue,
        "priority": priority_name(job.priority),
        "state": str(job.state),
        "reason": job.reason,
        "attempt": job.attempt,
        "max_attempts": options.max_attempts,
        "deaths": job.deaths,
        "payload": parsed(job.payload),
        "result": parsed(job.result),
        "errors": [failure_as_json(error) for error in job.errors],
        "checkpoint": _checkpoint(job),
        "enqueued_at": iso(job.enqueued_at),
        "run_at": iso(job.run_at),
        "claimed_at": iso(job.claimed_at),
        "finished_at": iso(job.finished_at),
        "worker": _id(job.worker),
        "claim": _id(job.claim),
        "cancel_requested": job.cancel_requested,
        "timeout": options.timeout,
        "unique_key": options.unique_key,
        "fair_key": options.fair_key,
        "ordering_key": options.ordering_key,
        "concurrency_key": options.concurrency_key,
        "tags": list(options.tags),
        "headers": options.headers,
        "trace": options.trace,
        "replay_of": _id(options.replay_of),
        "chunked": options.chunked,
        "part": _part_of(options.part),
        "after": [str(id) for id in options.after],
        "otherwise": options.otherwise if options.after else None,
    }


def failure_as_json(error: Failure) -> Shape:
    """One failed attempt."""
    return {**msgspec.structs.asdict(error), "at": iso(error.at)}


def queue_as_json(queue: QueueRecord, depth: Depth, slots: int | None, workers: int) -> Shape:
    """A queue: how it stands, who serves it, and its settings."""
    return {
        **msgspec.structs.asdict(queue),
        **msgspec.structs.asdict(depth),
        "slots": slots,
        "workers": workers,
    }


def budget_as_json(budget: BudgetRecord) -> Shape:
    """A budget: its settings, and how it stands. Rates are tokens a second."""
    return {
        **msgspec.structs.asdict(budget),
        "rate_text": rate_text(budget.rate),
        "tokens": round(budget.tokens, 3),
        "blocked": round(budget.blocked, 3),
    }


def gate_as_json(gate: GateRecord) -> Shape:
    """A gate that jobs wait at, and why."""
    return {**msgspec.structs.asdict(gate), "oldest": round(gate.oldest, 3), "reason": reason(gate.name)}


def watermark_as_json(mark: Watermark) -> Shape:
    """How far an ordering key has come."""
    return {**msgspec.structs.asdict(mark), "at": iso(mark.at), "age": round(mark.age, 3)}


def schedule_as_json(schedule: ScheduleRecord) -> Shape:
    """A schedule: what it does when, and how it stands."""
    shape = msgspec.structs.asdict(schedule)
    del shape["options"]
    return {
        **shape,
        "payload": parsed(schedule.payload),
        "priority": priority_name(schedule.priority),
        "next_at": iso(schedule.next_at),
        "last_at": iso(schedule.last_at),
        "last_job": _id(schedule.last_job),
    }


def worker_as_json(worker: WorkerRecord, slots: Mapping[str, int], now: float) -> Shape:
    """A worker and the slots it was assigned."""
    return {
        "id": str(worker.id),
        "label": worker.label,
        "host": worker.host,
        "pid": worker.pid,
        "queues": list(worker.queues),
        "alive": worker.alive,
        "beat": worker.beat,
        "beat_at": iso(worker.beat_at),
        "beat_age": round(max(now - worker.beat_at, 0.0), 3),
        "started_at": iso(worker.started_at),
        "lease": worker.lease,
        "slots": dict(slots),
    }


def parent_as_json(parent: ParentRecord, *looks: Look) -> Shape:
    """A parent and how far it is, from looks at it, the latest last."""
    told = progress(looks)
    return {
        **msgspec.structs.asdict(parent),
        "id": str(parent.id),
        "state": str(parent.state),
        "final": _id(parent.final),
        "created_at": iso(parent.created_at),
        "finished_at": iso(parent.finished_at),
        "progress": {
            "fraction": round(told.fraction, 6),
            "percent": told.percent,
            "unit": told.unit,
            "per_second": _rounded(told.rate),
            "records_per_second": _rounded(told.records_rate),
            "seconds_left": _rounded(told.left),
        },
    }


def part_as_json(part: PartRecord) -> Shape:
    """A part of a parent [P4]."""
    return {
        **msgspec.structs.asdict(part),
        "parent": str(part.parent),
        "span": parsed(part.span),
        "state": str(part.state),
        "job": _id(part.job),
        "created_at": iso(part.created_at),
    }


def listing_as_json(jobs: Sequence[JobRecord], cursor: str | None) -> Shape:
    """A page of jobs; `cursor` is what --cursor takes for the next one."""
    return {"jobs": [job_as_json(job) for job in jobs], "cursor": None if cursor is None else wrap(cursor)}


def wrap(cursor: str) -> str:
    """A store's cursor as one word that no shell takes apart."""
    return base64.urlsafe_b64encode(cursor.encode()).decode().rstrip("=")


def unwrap(word: str) -> str:
    """The store's cursor again."""
    try:
        return base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise no_cursor(word) from None


def no_cursor(word: str) -> click.BadParameter:
    """What to say about a cursor that no listing gave."""
    return click.BadParameter(f"{word!r} is not a cursor; take it from a listing", param_hint="--cursor")


def priority_name(priority: int) -> str:
    """urgent, high, normal or low."""
    return Priority(priority).name.lower()


def _id(number: int | None) -> str | None:
    return None if number is None else str(number)


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 3)


def _part_of(part: PartOf | None) -> Shape | None:
    if part is None:
        return None
    return {
        "parent": str(part.parent),
        "index": part.index,
        "total": part.total,
        "span": parsed(part.span),
        "size": part.size,
        "created_at": iso(part.created_at),
    }


def _checkpoint(job: JobRecord) -> Shape | None:
    if job.checkpoint is None:
        return None
    return {
        "data": parsed(job.checkpoint.data),
        "done": job.checkpoint.done,
        "total": job.checkpoint.total,
        "at": iso(job.checkpoint.at),
    }
