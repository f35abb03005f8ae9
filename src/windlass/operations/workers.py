"""Workers: which there are, how each is doing, and how they did."""

from __future__ import annotations

from typing import Final, Self

import msgspec

from windlass.operations.gauges import Latency, Shown, history
from windlass.operations.measures import Last
from windlass.operations.operation import Ops, Subject, Text
from windlass.operations.refusals import Invalid
from windlass.presentation.cluster_state import ClusterState
from windlass.presentation.text import iso, rounded, shaped
from windlass.presentation.waiting import worker_in_words
from windlass.store.measures import label_text
from windlass.store.records import Vitals, WorkerRecord

_MACHINE: Final = ("machine_cpu", "machine_memory", "machine_total")
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


class WorkerPoint(Latency, frozen=True, kw_only=True):
    """Gauges of one worker in a minute or longer, or those of several together; null where
    nothing was reported."""

    at: str
    workers: float | None
    """How many they were."""
    cpu: float | None
    """Cores in use, on average."""
    cpu_most: float | None
    """The busiest worker at its highest; likewise below."""
    memory: float | None
    """Bytes in use."""
    memory_most: float | None
    lag: float | None
    """Seconds by which an event loop was late: the average of its worst moments."""
    lag_most: float | None
    running: float | None
    """Slots in use."""
    slots: float | None
    machine_cpu: float | None
    """The share of all cores of its machine or container, whoever uses them; likewise below."""
    machine_memory: float | None
    machine_total: float | None


class WorkerHistory(msgspec.Struct, frozen=True):
    """Gauges of workers, in order of time."""

    points: list[WorkerPoint]


@workers.get("/workers")
async def list_workers(ops: Ops) -> Workers:
    """List workers that are alive or still hold jobs: host, queues, slots, last heartbeat, vitals"""
    state = await ops.state()
    return Workers([WorkerView.of(worker, state) for worker in state.workers])


@workers.get("/workers/history")
async def list_worker_history(
    ops: Ops, worker: Text = "", host: Text = "", last: Last = 3600.0
) -> WorkerHistory:
    """Get CPU, memory, loop lag, slots and store latency of workers over time

    Of a worker by its label, of a host, or of all workers. One that is gone has its history, too."""
    if worker and host:
        raise Invalid("name a worker or a host, not both", "host")
    found = await history(ops, last, "host" if host else "worker", label_text(host or worker))
    return WorkerHistory([_point(each, alone=bool(worker)) for each in found])


def _point(each: Shown, alone: bool) -> WorkerPoint:
    of = each.mean if alone else each.together
    return WorkerPoint(
        at=iso(each.at) or "",
        workers=rounded(each.workers()),
        **{name: rounded(of(name)) for name in ("cpu", "memory", "running", "slots")},
        **{name: rounded(each.mean(name)) for name in ("lag", *_MACHINE)},
        **{f"{name}_most": rounded(each.most(name)) for name in ("cpu", "memory", "lag")},
        **each.latency(),
    )
