"""The life of a worker: register, heartbeat, retire, and the rescue of what a dead one held."""

from __future__ import annotations

from collections import Counter

from tests.model.oracle.base import Base, atomic
from tests.model.oracle.job import Job
from tests.model.oracle.tables import Worker
from windlass.core.retry import DeathPolicy
from windlass.core.routing import Published, choose_published
from windlass.core.states import Kind, State
from windlass.store.records import Heartbeat, Rescued, WorkerInfo, WorkerRecord


class Workers(Base):
    """Who is alive, and what becomes of the jobs of those who are not."""

    @atomic
    async def register(self, worker: WorkerInfo) -> None:
        if worker.id in self._tables.workers:
            raise ValueError(f"worker id {worker.id} was used before; draw a new one")
        now = self._clock()
        self._tables.workers[worker.id] = Worker(worker, started_at=now, heartbeat_at=now)

    @atomic
    async def retire(self, worker: int) -> int:
        known = self._tables.workers.get(worker)
        if known is None or not known.alive:
            return 0
        known.alive = False
        held = list(known.running)
        for job in held:
            self._tables.put_back(job, self._clock())
        return len(held)

    @atomic
    async def heartbeat(self, worker: int) -> Heartbeat:
        mine = self._tables.alive(worker)
        mine.heartbeat += 1
        mine.heartbeat_at = self._clock()
        return Heartbeat(frozenset(job.id for job in mine.running if job.cancel_requested))

    @atomic
    async def published_queue(self, task: str) -> str | None:
        alive = [worker for worker in self._tables.workers.values() if worker.alive]
        return choose_published(
            Published(queue, queue in worker.info.queues, worker.started_at)
            for worker in alive
            if (queue := worker.info.tasks.get(task)) is not None
        )

    @atomic
    async def published_tasks(self) -> list[str]:
        alive = [worker for worker in self._tables.workers.values() if worker.alive]
        return sorted({task for worker in alive for task in worker.info.tasks})

    @atomic
    async def workers(self) -> list[WorkerRecord]:
        reporters = self._tables.measured.reporters
        return [
            WorkerRecord(
                id=worker.info.id,
                label=worker.info.label,
                host=worker.info.host,
                pid=worker.info.pid,
                queues=worker.info.queues,
                alive=worker.alive,
                heartbeat=worker.heartbeat,
                started_at=worker.started_at,
                heartbeat_at=worker.heartbeat_at,
                lease=worker.info.lease,
                abilities=tuple(sorted(worker.info.abilities)),
                vitals=found.vitals if found is not None else None,
                vitals_at=found.vitals_at if found is not None else None,
            )
            for worker in self._tables.workers.values()
            if worker.alive
            for found in (reporters.get(worker.info.id),)
        ]

    @atomic
    async def rescue(self, worker: int, heartbeat: int, policy: DeathPolicy) -> Rescued | None:
        known = self._tables.workers.get(worker)
        if known is None or (known.alive and known.heartbeat != heartbeat):
            return None
        known.alive = False
        now = self._clock()
        # Of a run of a key only the first can have begun.
        firsts = {job.run or -job.id: job for job in reversed(known.running)}
        began = {job.id for job in firsts.values()}
        held = list(known.running)
        return Rescued(**Counter(self._rescue(job, policy, now, began=job.id in began) for job in held))

    def _rescue(self, job: Job, policy: DeathPolicy, now: float, *, began: bool) -> str:
        if job.cancel_requested or not began:
            self._tables.put_back(job, now)
            return "cancelled" if job.cancel_requested else "offered"
        job.deaths += 1
        delay = policy.delay(job.deaths)
        if delay is None:
            self._tables.end(job, State.DEAD, now, reason="poison")
            return "dead"
        self._tables.put_back(job, now, delay, Kind.LOST)
        return "deferred" if delay > 0 else "offered"
