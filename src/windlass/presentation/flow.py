"""Workers as JSON; see `jobs`."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from windlass.presentation.cluster_state import ClusterState
from windlass.presentation.text import iso, shaped
from windlass.store.records import WorkerRecord


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
