"""Queues, budgets, gates, watermarks, schedules and workers as JSON; see `jobs`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Self

import msgspec

from windlass.core.cron import Missed, Overlap
from windlass.core.flow.gates import reason
from windlass.presentation.cluster_state import ClusterState
from windlass.presentation.jobs import priority_name
from windlass.presentation.text import iso, parsed, shaped
from windlass.store.records import (
    GateRecord,
    QueueRecord,
    ScheduleRecord,
    Watermark,
    WorkerRecord,
)
from windlass.store.schedules import Origin, differences, origin


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
    pending_parts: int
    """Parts that their parents have not offered yet; `ready` counts them, too."""
    estimate: bool
    """Whether one of these counts is some seconds old; so it is only where it is above a thousand [M1]."""
    needs: dict[str, int]
    """Of `ready`, how many stand in lanes whose jobs need abilities, by these [K14]."""
    runnable: int
    """How many more slots would run now."""
    slots: int | None
    workers: int

    @classmethod
    def of(cls, state: ClusterState, name: str, **more: Any) -> Self:
        """A queue as the state has it; `more` is what a larger shape adds."""
        workers = state.view.serving.get(name, 0)
        slots, runnable = state.slots().get(name), state.runnable(name)
        given = {"slots": slots, "workers": workers, "runnable": runnable}
        return shaped(cls, state.queue(name), state.depth_of(name), **given, **more)


class GateShape(GateRecord, frozen=True, kw_only=True):
    """A gate that jobs wait at, and why."""

    reason: str

    @classmethod
    def of(cls, gate: GateRecord) -> Self:
        """A gate as JSON has it."""
        return shaped(cls, gate, oldest=round(gate.oldest, 3), reason=reason(gate.name))


class WatermarkShape(msgspec.Struct, frozen=True, kw_only=True):
    """How far an ordering key has come [F6]."""

    queue: str
    key: str
    position: int
    at: str | None
    waiting: int
    age: float

    @classmethod
    def of(cls, mark: Watermark) -> Self:
        """A watermark as JSON has it."""
        return shaped(cls, mark, age=round(mark.age, 3))


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
    origin: Origin
    """code; changed: declared by code and changed at run time; live: made at run time; left: no worker that
    runs declares it any more."""
    declared_at: str | None
    differences: dict[str, str]
    """Where it was changed at run time: what the code says, by field."""

    @classmethod
    def of(cls, schedule: ScheduleRecord, workers: Iterable[WorkerRecord], **more: Any) -> Self:
        """A schedule as JSON has it; `more` is what a larger shape adds."""
        about = {"origin": origin(schedule, workers), "differences": differences(schedule)}
        priority = priority_name(schedule.priority)
        return shaped(cls, schedule, payload=parsed(schedule.payload), priority=priority, **about, **more)


_ORIGINS: Final[dict[Origin, str]] = {
    "code": "",
    "changed": "changed at run time",
    "live": "made at run time",
    "left": "no longer in the code",
}


def origin_in_words(found: Origin) -> str:
    """Where a schedule comes from, where that is worth a word."""
    return _ORIGINS[found]


class WorkerShape(msgspec.Struct, frozen=True, kw_only=True):
    """A worker and the slots it was assigned."""

    id: str
    label: str
    host: str
    pid: int
    queues: list[str]
    abilities: list[str]
    alive: bool
    beat: int
    beat_at: str | None
    beat_age: float
    started_at: str | None
    lease: float
    slots: dict[str, int]
    stuck_since: str | None
    """Since when a queue's slots, here and elsewhere, all run the same jobs while others wait for one."""

    @classmethod
    def of(cls, worker: WorkerRecord, state: ClusterState, **more: Any) -> Self:
        """A worker as the state has it; `more` is what a larger shape adds."""
        slots = dict(state.view.slots.get(worker.id, {}))
        age = round(max(state.at - worker.beat_at, 0.0), 3)
        return shaped(
            cls,
            worker,
            queues=list(worker.queues),
            abilities=list(worker.abilities),
            slots=slots,
            beat_age=age,
            stuck_since=iso(state.stuck_since(worker)),
            **more,
        )
