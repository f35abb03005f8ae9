"""Workers: which there are, and how each is doing."""

from __future__ import annotations

from typing import Final, Self

import msgspec

from windlass.operations.operation import Ops, Subject
from windlass.presentation.cluster_state import ClusterState
from windlass.presentation.text import iso, shaped
from windlass.presentation.waiting import worker_in_words
from windlass.store.records import Vitals, WorkerRecord

workers: Final = Subject("workers")


class BusyView(msgspec.Struct, frozen=True):
    """A job that a worker is running."""

    job: str
    task: str
    queue: str
    since: str


class VitalsView(msgspec.Struct, frozen=True, kw_only=True):
    """The vitals that a worker process reports."""

    at: str | None
    age: float | None
    cpu: float
    """Share of one core: 1 is all of it."""
    memory: int
    running: int
    slots: int
    lag: float
    jobs: list[BusyView]

    @classmethod
    def of(cls, vitals: Vitals, at: float | None, now: float) -> Self:
        """Return the view of what was reported at some time."""
        return shaped(
            cls,
            vitals,
            at=iso(at),
            age=None if at is None else round(max(now - at, 0.0), 3),
            cpu=round(vitals.cpu, 3),
            lag=round(vitals.lag, 4),
            jobs=[
                BusyView(str(each.job), each.task, each.queue, iso(each.since) or "") for each in vitals.jobs
            ],
        )


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A worker, the slots it was assigned, and its state as text."""

    id: str
    label: str
    host: str
    pid: int
    queues: list[str]
    abilities: list[str]
    alive: bool
    heartbeat: int
    heartbeat_at: str | None
    heartbeat_age: float
    started_at: str
    lease: float
    slots: dict[str, int]
    stuck_since: str | None
    """Since when a queue's slots, here and elsewhere, all run the same jobs while others wait for one."""
    state_text: str
    vitals: VitalsView | None

    @classmethod
    def of(cls, worker: WorkerRecord, state: ClusterState) -> Self:
        """Return a worker as the state has it."""
        vitals, stuck = worker.vitals, state.stuck_since(worker)
        return shaped(
            cls,
            worker,
            queues=list(worker.queues),
            abilities=list(worker.abilities),
            slots=dict(state.view.slots.get(worker.id, {})),
            heartbeat_age=round(max(state.at - worker.heartbeat_at, 0.0), 3),
            stuck_since=iso(stuck),
            state_text=worker_in_words(worker, state.at, stuck),
            vitals=None if vitals is None else VitalsView.of(vitals, worker.vitals_at, state.at),
        )


class Workers(msgspec.Struct, frozen=True):
    """Workers that are alive or still hold jobs."""

    workers: list[WorkerView]


@workers.get("/workers")
async def list_workers(ops: Ops) -> Workers:
    """List workers that are alive or still hold jobs: host, queues, slots, last heartbeat, vitals"""
    state = await ops.state()
    return Workers([WorkerView.of(worker, state) for worker in state.workers])
