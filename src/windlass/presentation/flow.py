"""Queues, gates, watermarks and workers as JSON; see `jobs`."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from windlass.core.flow.gates import reason
from windlass.presentation.cluster_state import ClusterState
from windlass.presentation.text import iso, shaped
from windlass.store.records import (
    GateRecord,
    QueueRecord,
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
