"""What is done to a store: enqueue in bulk and one by one, claim and finish, both at once, a life in steps.

Only the store protocol is used, as a producer and a worker use it: a success carries its run time, claims
come in batches and each batch is finished by one flush. Jobs are prepared before the clock starts.
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import Final

from bench.engine.bare_worker import BareWorker
from bench.engine.figures import Taken
from bench.engine.jobs import QUEUE, TASK
from bench.engine.plan import Plan
from windlass.store.protocol import Store
from windlass.store.records import Claim, NewJob

_IDLE_WAIT: Final = 0.05


def payloads(plan: Plan) -> list[str]:
    """JSON texts of the planned size, one per job of a batch, no two alike."""
    empty = '{"n": "%06d", "text": "%s"}'
    filler = "x" * max(0, plan.payload_bytes - len(empty % (0, "")))
    return [empty % (number, filler) for number in range(plan.enqueue_batch)]


def thirds(progress: list[tuple[float, int]], seconds: float) -> tuple[float, ...]:
    """Jobs per second in each third of a run, from (time, jobs finished so far), which starts with (0, 0).

    A batch that ends beyond a border counts on both sides of it, by its share of the time."""

    def finished_at(moment: float) -> float:
        place = bisect.bisect_left(progress, (moment, 0))
        if place == len(progress):
            return progress[-1][1]
        (t0, n0), (t1, n1) = progress[max(place - 1, 0)], progress[place]
        return n1 if t1 <= t0 else n0 + (n1 - n0) * (moment - t0) / (t1 - t0)

    counts = [finished_at(seconds * border / 3) for border in range(4)]
    return tuple((after - before) * 3 / seconds for before, after in itertools.pairwise(counts))


class Subject:
    """A store under test, with one worker registered in it."""

    def __init__(self, store: Store, plan: Plan) -> None:
        self.store = store
        self._plan = plan
        self._worker = BareWorker(store, QUEUE, plan.claim_batch)
        self._jobs = [NewJob(task=TASK, payload=payload, queue=QUEUE) for payload in payloads(plan)]

    async def begin(self) -> None:
        """Register the worker, declare the lane, and run everything once, so that caches are warm."""
        await self._worker.register()
        for jobs in (self._jobs[:1], self._jobs):
            await self.store.enqueue(jobs)
        await self.drain()

    async def end(self) -> None:
        """Retire the worker."""
        await self._worker.retire()

    async def bulk_enqueue(self) -> Taken:
        """Enqueue in batches."""
        batch = self._plan.enqueue_batch
        return await self._counted(self._plan.jobs, lambda left: self._enqueue(min(left, batch)))

    async def single_enqueue(self) -> Taken:
        """Enqueue one job at a time, each durable before the next."""
        return await self._counted(self._plan.singles, lambda left: self._enqueue(1))

    async def claim_finish(self) -> Taken:
        """Claim a batch, finish it in one flush, and again, until nothing is left."""
        return await self._counted(None, lambda left: self._worker.claim_and_finish())

    async def drain(self) -> None:
        """Finish whatever is left, outside of any measurement."""
        await self._worker.drain()

    async def both_at_once(self) -> Taken:
        """One producer and one worker for so many seconds; the rate is that of finished jobs, per third."""
        plan, seconds = self._plan, self._plan.seconds
        room = asyncio.Event()
        enqueued = finished = 0
        progress = [(0.0, 0)]
        began = time.perf_counter()

        async def produce() -> None:
            nonlocal enqueued
            while time.perf_counter() - began < seconds:
                room.clear()
                if enqueued - finished >= plan.window:
                    await room.wait()
                else:
                    enqueued += await self._enqueue(plan.enqueue_batch)

        producer = asyncio.create_task(produce())
        try:
            while not producer.done() or finished < enqueued:
                done = await self._worker.claim_and_finish()
                finished += done
                progress.append((time.perf_counter() - began, finished))
                room.set()
                if not done:
                    await self.store.wait([QUEUE], _IDLE_WAIT)
        finally:
            producer.cancel()
            await asyncio.wait([producer])
        if not producer.cancelled():
            producer.result()
        return Taken(finished, time.perf_counter() - began, thirds(progress, seconds))

    # -- the life of a job in steps, for what each step costs -------------------------------------------

    async def enqueue_all(self) -> int:
        """The first step: enqueue."""
        return (await self.bulk_enqueue()).jobs

    async def claim_all(self) -> list[Claim]:
        """The second: claim everything, in batches, and finish nothing yet."""
        held: list[Claim] = []
        while claims := await self._worker.claim():
            held += claims
        return held

    async def finish_all(self, held: list[Claim]) -> int:
        """The third: finish claim by claim, one flush each."""
        return sum([await self._worker.finish([claim]) for claim in held])

    # -- one batch --------------------------------------------------------------------------------------

    async def _enqueue(self, n: int) -> int:
        return len(await self.store.enqueue(self._jobs[:n] if n < len(self._jobs) else self._jobs))

    async def _counted(self, jobs: int | None, step: Callable[[int], Awaitable[int]]) -> Taken:
        """Repeat a step until so many jobs are done, it does nothing more, or the time is up."""
        done, goal = 0, jobs if jobs is not None else 2**62
        began = time.perf_counter()
        until = began + self._plan.seconds
        while done < goal and time.perf_counter() < until and (n := await step(goal - done)):
            done += n
        return Taken(done, time.perf_counter() - began)
