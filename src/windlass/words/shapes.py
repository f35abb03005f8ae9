"""Records as JSON, the way commands print them: the keys that scripts may rely on. What they are stands in
`job_shapes`, `parent_shapes` and `flow_shapes`, which the API answers with as well."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from windlass.core.progress import Look
from windlass.store.flow import BudgetRecord, GateRecord, ScheduleRecord, Watermark
from windlass.store.records import (
    Depth,
    Failure,
    JobRecord,
    ParentRecord,
    PartRecord,
    QueueRecord,
    WorkerRecord,
)
from windlass.words import flow_shapes as flow
from windlass.words.job_shapes import FailureShape, JobsShape, job_shape
from windlass.words.parent_shapes import parent_shape, part_shape

Shape = dict[str, Any]


def job_as_json(job: JobRecord) -> Shape:
    """A job with everything the store knows about it."""
    return _plain(job_shape(job))


def failure_as_json(error: Failure) -> Shape:
    """One failed attempt."""
    return _plain(FailureShape.of(error))


def queue_as_json(queue: QueueRecord, depth: Depth, slots: int | None, workers: int) -> Shape:
    """A queue: how it stands, who serves it, and its settings."""
    return _plain(flow.QueueShape(**flow.queue_fields(queue, depth, slots, workers)))


def budget_as_json(budget: BudgetRecord) -> Shape:
    """A budget: its settings, and how it stands. Rates are tokens a second."""
    return _plain(flow.BudgetShape(**flow.budget_fields(budget)))


def gate_as_json(gate: GateRecord) -> Shape:
    """A gate that jobs wait at, and why."""
    return _plain(flow.gate_shape(gate))


def watermark_as_json(mark: Watermark) -> Shape:
    """How far an ordering key has come."""
    return _plain(flow.watermark_shape(mark))


def schedule_as_json(schedule: ScheduleRecord) -> Shape:
    """A schedule: what it does when, and how it stands."""
    return _plain(flow.ScheduleShape(**flow.schedule_fields(schedule)))


def worker_as_json(worker: WorkerRecord, slots: Mapping[str, int], now: float) -> Shape:
    """A worker and the slots it was assigned."""
    return _plain(flow.WorkerShape(**flow.worker_fields(worker, slots, now)))


def parent_as_json(parent: ParentRecord, *looks: Look) -> Shape:
    """A parent and how far it is, from looks at it, the latest last."""
    return _plain(parent_shape(parent, *looks))


def part_as_json(part: PartRecord) -> Shape:
    """A part of a parent [P4]."""
    return _plain(part_shape(part))


def listing_as_json(jobs: Sequence[JobRecord], cursor: str | None) -> Shape:
    """A page of jobs; `cursor` is what --cursor takes for the next one."""
    return _plain(JobsShape([job_shape(job) for job in jobs], None if cursor is None else wrap(cursor)))


def wrap(cursor: str) -> str:
    """A store's cursor as one word that no shell takes apart."""
    return base64.urlsafe_b64encode(cursor.encode()).decode().rstrip("=")


def unwrap(word: str) -> str:
    """The store's cursor again. Raises ValueError for a word that no listing gave."""
    return base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_", validate=True).decode()


def _plain(shape: msgspec.Struct) -> Shape:
    plain: Shape = msgspec.to_builtins(shape)
    return plain
