"""Claim and finish by a bare loop on the store, with and without what flow control adds: jobs
that are held, budgets that each claim draws from. Jobs are prepared before the clock starts.

Beside the loop somebody promotes as a coordinator does, on both sides of a comparison: what promotion costs
while many wait aside is a part of what they cost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from bench.engine.bare_worker import BareWorker
from bench.engine.figures import Taken
from bench.engine.flow.plan import FlowPlan
from bench.engine.jobs import TASK
from bench.engine.rounds import Progress
from windlass.cluster import duties
from windlass.cluster.coordinator import CHORE_GAP, PROMOTE_EVERY
from windlass.errors import StoreError
from windlass.store.fields import NewBudget
from windlass.store.protocol import NOTHING, Store
from windlass.store.records import Need, Needs, NewJob, Options

BUDGET: Final = "bench"
KEYED_BUDGET: Final = "bench_by_key"
PLENTY: Final = 10**9
"""Tokens a second, and at once: more than anybody can take."""
NEEDS: Final[Needs] = {TASK: [Need(BUDGET)]}
KEYED_NEEDS: Final[Needs] = {TASK: [Need(KEYED_BUDGET, 1, "key")]}
STUCK: Final = Options(concurrency_key="stuck")


def payloads(plan: FlowPlan) -> list[str]:
    """JSON texts of the planned size, one per job of a batch, with the keys in turn."""
    empty = '{"n": %06d, "key": "%03d", "text": "%s"}'
    filler = "x" * max(0, plan.payload_bytes - len(empty % (0, 0, "")))
    return [empty % (number + 100_000, number % plan.keys, filler) for number in range(plan.enqueue_batch)]


async def declare_plenty(store: Store) -> None:
    """Declare the budgets that the jobs of a claimer may draw from, with tokens that never run out."""
    await store.declare_budget(NewBudget(name=BUDGET, rate=PLENTY, burst=PLENTY))
    await store.declare_budget(NewBudget(name=KEYED_BUDGET, rate=PLENTY, burst=PLENTY, key="key"))


class Claimer:
    """One worker that claims and finishes the jobs of one queue."""

    def __init__(self, store: Store, plan: FlowPlan, queue: str, needs: Needs = NOTHING) -> None:
        self._store = store
        self._plan = plan
        self._worker = BareWorker(store, queue, plan.claim_batch, needs)
        self._jobs = [NewJob(task=TASK, payload=payload, queue=queue) for payload in payloads(plan)]

    async def begin(self) -> None:
        """Register the worker and run everything once, so that caches are warm."""
        await self._worker.register()
        for jobs in (self._jobs[:1], self._jobs):
            await self._store.enqueue(jobs)
            await self.drain()

    async def hold_at_key(self, jobs: int, progress: Progress) -> None:
        """Fill the queue with jobs of one concurrency key, and keep the only one that may run."""
        stuck = [msgspec.structs.replace(job, options=STUCK) for job in self._jobs]
        await hold(self._store, stuck, jobs + 1, progress)
        await duties.promote(self._store)
        claimed = [job for claim in await self._worker.claim() for job in claim.jobs]
        if len(claimed) != 1 or await self._worker.claim():
            raise StoreError(f"{len(claimed)} jobs of one key with a limit of 1 were given out, not 1")

    async def fill(self) -> None:
        """Put the planned jobs into the queue, and nothing else."""
        await self.drain()
        batch = self._plan.enqueue_batch
        for start in range(0, self._plan.jobs, batch):
            await self._store.enqueue(self._jobs[: min(batch, self._plan.jobs - start)])

    async def drain(self) -> None:
        """Finish whatever is left, outside of any measurement."""
        await self._worker.drain()

    async def claim_finish(self) -> Taken:
        """Claim a batch, finish it in one flush, and again, until nothing is left or the time is up."""
        done = 0
        async with promoting(self._store):
            began = time.perf_counter()
            until = began + self._plan.seconds
            while time.perf_counter() < until and (n := await self._worker.claim_and_finish()):
                done += n
            return Taken(done, time.perf_counter() - began)


async def hold(store: Store, jobs: list[NewJob], count: int, progress: Progress) -> Taken:
    """Enqueue so many jobs, these over and over, batch by batch; how long that took."""
    began = time.perf_counter()
    for start in range(0, count, len(jobs)):
        progress(f"{start:,} of {count:,} jobs wait aside")
        await store.enqueue(jobs[: count - start])
    return Taken(count, time.perf_counter() - began)


@asynccontextmanager
async def promoting(store: Store) -> AsyncIterator[None]:
    """Promote as a coordinator does, while the block lasts."""
    task = asyncio.create_task(_promote_for_ever(store))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()


async def _promote_for_ever(store: Store) -> None:
    while True:
        again = (await duties.promote(store)).next_in
        await store.wait_aside(PROMOTE_EVERY if again is None else min(PROMOTE_EVERY, max(again, CHORE_GAP)))
