"""Every kind of work that a store does, on a store that holds every kind of job: what its statements cost is
compared between databases that differ in nothing but what the planner believes."""

import itertools
from collections.abc import Sequence
from typing import Any

from tests.conformance.kit import failure, job
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind, State
from windlass.store.postgres import PostgresStore
from windlass.store.records import (
    Checkpoint,
    Claim,
    ClaimedJob,
    JobFilter,
    NewJob,
    Outcome,
    PartPlan,
    Plan,
    Report,
    WorkerInfo,
)

WORKER = 7
FEW = 20
"""Jobs that one call deals with."""


class World:
    """A store with a worker of its own."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self._flushes = itertools.count(1)
        self._names = itertools.count()

    async def begin(self) -> None:
        """The worker comes."""
        await self.store.register(WorkerInfo(id=WORKER, label="w", host="here"))
        await self.store.set_task("limited", {"concurrency": 1000})
        await self.store.set_queue("deep", {"max_depth": 1_000_000})

    async def fill(self, n: int) -> None:
        """About n jobs of every kind, in every state."""
        for kind in (Kind.DEAD, Kind.RETRY, Kind.SUCCEEDED):
            await self._add(n, queue="ends")
            while jobs := await self.claim("ends", 500):
                await self.end(jobs, kind)
        await self._add(n, queue="ready")
        await self._add(n, queue="deep")
        await self._add(n, queue="ready", delay=3600.0)
        await self._add(n, queue="keyed", unique="u", delay=3600.0)
        await self._add(n, queue="keyed", once="i")
        await self._add(n, queue="gated", ordering_key="o")
        await self._add(n, queue="gated", concurrency_key="c")
        await self._add(n, queue="fair", fair_key="f")
        await self._add(n, queue="limited", task="limited")
        (later,) = await self._add(1, queue="ready", delay=3600.0)
        await self._add(n, queue="after", after=(later,))
        await self._add(1, queue="parents", chunked=True)
        for each in await self.claim("parents", 1):
            parts = [PartPlan(f"[{index}]", 1) for index in range(n)]
            await self.store.split(WORKER, next(self._flushes), each, Plan(parts=parts))
        await self.store.promote()

    async def work(self) -> None:
        """Each call of a worker, a coordinator and an operator, with a few jobs."""
        store = self.store
        ready = await self._add(FEW, queue="ready")
        await self._add(FEW, queue="soon", delay=0.001)
        await self._add(FEW, queue="keyed", unique="w", delay=60.0)
        await self._add(FEW, queue="keyed", once="w")
        await self._add(FEW, queue="fair", fair_key="w")
        await store.lead(WORKER, 60.0)
        for _ in range(2):
            await store.promote()
        await store.heartbeat(WORKER)
        await store.cluster_view([WORKER])
        for kind, queue in zip(
            (Kind.SUCCEEDED, Kind.RETRY, Kind.DEAD), ("ready", "gated", "fair"), strict=True
        ):
            await self.end(await self.claim(queue, FEW), kind)
        for each in await self.claim("parents", 2):
            await store.checkpoint(WORKER, each, Checkpoint("{}", 1, 2))
        await store.unfinished(WORKER)
        await self.look(ready)
        dead = await store.jobs(JobFilter(state=State.DEAD), FEW)
        await store.retry([record.id for record in dead.jobs[: FEW // 2]])
        await store.delete([record.id for record in dead.jobs[FEW // 2 :]])
        for state in (State.READY, State.SCHEDULED, State.RETRYING):
            page = await store.jobs(JobFilter(state=state), FEW)
            await store.cancel([record.id for record in page.jobs])
        await store.cancel(ready[:1])
        await store.report(WORKER, next(self._names) + 1, Report())
        await store.rollup()
        await store.expire()
        await store.rescue(WORKER + 1, 0, DeathPolicy())

    async def look(self, ids: Sequence[int]) -> None:
        """What pages and commands ask."""
        store = self.store
        for where in (
            JobFilter(), JobFilter(queue="ends"), JobFilter(task="t"), JobFilter(text="x"),
            JobFilter(error="ValueError"), *(JobFilter(state=state) for state in State),
        ):  # fmt: skip
            page = await store.jobs(where, FEW)
            if page.cursor is not None:
                await store.jobs(where, FEW, page.cursor)
        for id in (*ids[:2], *[record.id for record in (await store.jobs(JobFilter(), 5)).jobs]):
            await store.job(id)
        await store.checkpoints(list(ids))
        await store.causes()
        await store.depth()
        await store.task_depths(1000)
        await store.queues()
        await store.workers()
        await store.gates()
        await store.watermarks("gated")
        await store.events()
        await store.events(queue="ends")
        await store.measured(60, 0.0, 1e9)
        await store.totals()
        await store.ended()
        await store.count_ends(FEW)
        await store.recount()
        await store.health()
        await store.diagnose()
        for parent in await store.parents():
            await store.parts(parent.id, limit=FEW)

    async def claim(self, queue: str, n: int) -> list[ClaimedJob]:
        """Jobs of a queue."""
        claims: list[Claim] = await self.store.claim(WORKER, [queue], n)
        return [each for claim in claims for each in claim.jobs]

    async def end(self, jobs: Sequence[ClaimedJob], kind: Kind) -> None:
        """All of them alike."""
        error = None if kind is Kind.SUCCEEDED else failure()
        delay = 3600.0 if kind is Kind.RETRY else 0.0
        outcomes = [Outcome(job=each, kind=kind, error=error, delay=delay) for each in jobs]
        await self.store.finish(WORKER, next(self._flushes), outcomes)

    async def _add(
        self, n: int, *, unique: str | None = None, once: str | None = None, **fields: Any
    ) -> list[int]:
        """So many jobs; keys are told apart by a number, gates and turns are 10 in all."""
        jobs: list[NewJob] = []
        for place in range(n):
            own = {**fields, "task": fields.get("task", "t")}
            for name in ("ordering_key", "concurrency_key", "fair_key"):
                if name in own:
                    own[name] = f"{own[name]}{place % 10}"
            if unique is not None:
                own["unique_key"] = f"{unique}{next(self._names)}"
            if once is not None:
                own["idempotency_key"] = f"{once}{next(self._names)}"
            jobs.append(job(**own))
        return [receipt.id for receipt in await self.store.enqueue(jobs)]
