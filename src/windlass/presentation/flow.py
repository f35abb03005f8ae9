"""Queues, budgets, gates, watermarks, schedules and workers as JSON; see `jobs`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.core.cron import Missed, Overlap
from windlass.core.gates import reason
from windlass.core.rates import rate_text
from windlass.presentation.jobs import id_text, priority_name
from windlass.presentation.text import Shape, iso, parsed, plain
from windlass.store.records import (
    BudgetRecord,
    Depth,
    GateRecord,
    QueueRecord,
    ScheduleRecord,
    Watermark,
    WorkerRecord,
)


class QueueShape(QueueRecord, frozen=True, kw_only=True):
    """A queue: its settings, how it stands, and who serves it."""

    ready: int
    running: int
    scheduled: int
    retrying: int
    dead: int
    oldest: float | None
    """Seconds for which the oldest ready job has waited."""
    offered: int
    slots: int | None
    workers: int


class BudgetShape(BudgetRecord, frozen=True, kw_only=True):
    """A budget: its settings, and how it stands. Rates are tokens a second."""

    rate_text: str


class GateShape(GateRecord, frozen=True, kw_only=True):
    """A gate that jobs wait at, and why."""

    reason: str


class WatermarkShape(msgspec.Struct, frozen=True, kw_only=True):
    """How far an ordering key has come [F6]."""

    queue: str
    key: str
    position: int
    at: str | None
    waiting: int
    age: float


class ScheduleShape(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule: what it does when, and how it stands."""

    name: str
    cron: str
    task: str
    tz: str
    payload: Any
    queue: str
    priority: str
    missed: Missed
    overlap: Overlap
    grace: float
    jitter: float
    paused: bool
    next_at: str | None
    last_at: str | None
    last_job: str | None
    skipped: int
    error: str | None


class WorkerShape(msgspec.Struct, frozen=True, kw_only=True):
    """A worker and the slots it was assigned."""

    id: str
    label: str
    host: str
    pid: int
    queues: list[str]
    alive: bool
    beat: int
    beat_at: str | None
    beat_age: float
    started_at: str | None
    lease: float
    slots: dict[str, int]


def queue_fields(queue: QueueRecord, depth: Depth, slots: int | None, workers: int) -> dict[str, Any]:
    """What a QueueShape, or one that says more, is made of."""
    return {
        **msgspec.structs.asdict(queue),
        **msgspec.structs.asdict(depth),
        "slots": slots,
        "workers": workers,
    }


def budget_fields(budget: BudgetRecord) -> dict[str, Any]:
    """What a BudgetShape, or one that says more, is made of."""
    return {
        **msgspec.structs.asdict(budget),
        "rate_text": rate_text(budget.rate),
        "tokens": round(budget.tokens, 3),
        "blocked": round(budget.blocked, 3),
    }


def gate_shape(gate: GateRecord) -> GateShape:
    """A gate as JSON has it."""
    shape = msgspec.structs.asdict(gate)
    return GateShape(**{**shape, "oldest": round(gate.oldest, 3), "reason": reason(gate.name)})


def watermark_shape(mark: Watermark) -> WatermarkShape:
    """A watermark as JSON has it."""
    shape = msgspec.structs.asdict(mark)
    return WatermarkShape(**{**shape, "at": iso(mark.at), "age": round(mark.age, 3)})


def schedule_fields(schedule: ScheduleRecord) -> dict[str, Any]:
    """What a ScheduleShape, or one that says more, is made of."""
    shape = msgspec.structs.asdict(schedule)
    del shape["options"]
    return {
        **shape,
        "payload": parsed(schedule.payload),
        "priority": priority_name(schedule.priority),
        "next_at": iso(schedule.next_at),
        "last_at": iso(schedule.last_at),
        "last_job": id_text(schedule.last_job),
    }


def worker_fields(worker: WorkerRecord, slots: Mapping[str, int], now: float) -> dict[str, Any]:
    """What a WorkerShape, or one that says more, is made of."""
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


def queue_as_json(queue: QueueRecord, depth: Depth, slots: int | None, workers: int) -> Shape:
    """A queue: how it stands, who serves it, and its settings."""
    return plain(QueueShape(**queue_fields(queue, depth, slots, workers)))


def budget_as_json(budget: BudgetRecord) -> Shape:
    """A budget: its settings, and how it stands. Rates are tokens a second."""
    return plain(BudgetShape(**budget_fields(budget)))


def gate_as_json(gate: GateRecord) -> Shape:
    """A gate that jobs wait at, and why."""
    return plain(gate_shape(gate))


def watermark_as_json(mark: Watermark) -> Shape:
    """How far an ordering key has come."""
    return plain(watermark_shape(mark))


def schedule_as_json(schedule: ScheduleRecord) -> Shape:
    """A schedule: what it does when, and how it stands."""
    return plain(ScheduleShape(**schedule_fields(schedule)))


def worker_as_json(worker: WorkerRecord, slots: Mapping[str, int], now: float) -> Shape:
    """A worker and the slots it was assigned."""
    return plain(WorkerShape(**worker_fields(worker, slots, now)))
