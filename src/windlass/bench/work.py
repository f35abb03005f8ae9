"""What is done to a crew of workers: drain a backlog, keep up with a producer, pick up single jobs, stand
idle.

The benchmark watches from outside, as an operator would: it asks the store how many jobs are left. So a rate
is from the moment the queue opens to the moment nothing is left, start-up of the processes not included.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final

from windlass.bench.crew import Crew, crew
from windlass.bench.figures import Taken
from windlass.bench.jobs import QUEUE
from windlass.bench.plan import WorkPlan
from windlass.bench.scenarios import payloads, thirds
from windlass.store.protocol import Store
from windlass.store.records import NewJob

LOOK_EVERY: Final = 0.02
PACE: Final = 200
"""Jobs a second where pick-up is measured."""

WARM_UP: Final = PACE // 2


class Work:
    """The scenarios, on one store. `environment` is what the worker processes are told about it."""

    def __init__(self, store: Store, environment: Mapping[str, str], plan: WorkPlan) -> None:
        self._store = store
        self._environment = environment
        self._plan = plan
        self._payloads = payloads(plan)
        self.cpu = 0.0
        """CPU seconds that the worker processes used in the last scenario."""

    async def drain(self, task: str = "bench.on_loop", processes: int = 1) -> Taken:
        """So many jobs wait in a closed queue; then it opens."""
        await self._store.set_queue(QUEUE, {"paused": True})
        jobs = self._plan.jobs
        for start in range(0, jobs, len(self._payloads)):
            await self._store.enqueue(self._jobs(task)[: jobs - start])
        async with self._crew(processes) as hands:
            before = hands.cpu()
            await self._store.set_queue(QUEUE, {"paused": False})
            began = time.perf_counter()
            while await self._looked() == jobs:
                began = time.perf_counter()  # the workers hear of it within a second or so
            while await self._looked():
                pass
            seconds = time.perf_counter() - began
            self.cpu = hands.cpu() - before
        return Taken(jobs, seconds)

    async def sustain(self) -> Taken:
        """A producer that stays a little ahead of one child; the rate is that of finished jobs, per third."""
        seconds, jobs = self._plan.seconds, self._jobs("bench.on_loop")
        enqueued = 0
        progress = [(0.0, 0)]
        async with self._crew(1) as hands:
            before = hands.cpu()
            began = time.perf_counter()
            while (now := time.perf_counter() - began) < seconds:
                left = await self._left()
                progress.append((now, enqueued - left))
                if left < self._plan.window:
                    enqueued += len(await self._store.enqueue(jobs))
                else:
                    await asyncio.sleep(0.002)
            while left := await self._left():
                progress.append((time.perf_counter() - began, enqueued - left))
                await asyncio.sleep(LOOK_EVERY)
            took = time.perf_counter() - began
            self.cpu = hands.cpu() - before
        progress.append((took, enqueued))
        return Taken(enqueued, took, thirds(progress, seconds))

    async def pick_up(self) -> tuple[list[float], list[float]]:
        """Single jobs at an even pace to an idle worker: seconds from the call to the handler's first line,
        and, for comparison, to the answer that the job is durable. The first half second is left out: a new
        connection plans its statements, which takes tens of milliseconds once."""
        loop = asyncio.get_running_loop()
        sending: set[asyncio.Task[None]] = set()
        answers: list[float] = []

        async def send(job: NewJob) -> None:
            sent = time.monotonic()
            await self._store.enqueue([job])
            answers.append(time.monotonic() - sent)

        async with self._crew(1) as hands:
            began = loop.time()
            for number in range(WARM_UP + int(PACE * self._plan.seconds)):
                await asyncio.sleep(max(0.0, began + number / PACE - loop.time()))
                job = NewJob(task="bench.picked_up", payload=f'{{"sent": {time.monotonic()!r}}}', queue=QUEUE)
                task = asyncio.ensure_future(send(job))
                sending.add(task)
                task.add_done_callback(sending.discard)
            await asyncio.gather(*sending)
            while await self._looked():
                pass
        return sorted(hands.notes[WARM_UP:]), sorted(answers[WARM_UP:])

    def _crew(self, processes: int) -> AbstractAsyncContextManager[Crew]:
        return crew(self._store, self._environment, processes)

    def idle(self) -> AbstractAsyncContextManager[Crew]:
        """One child with nothing to do."""
        return self._crew(1)

    def _jobs(self, task: str) -> list[NewJob]:
        return [NewJob(task=task, payload=payload, queue=QUEUE) for payload in self._payloads]

    async def _looked(self) -> int:
        """How many jobs are left; asked for at a pace that does not disturb."""
        await asyncio.sleep(LOOK_EVERY)
        return await self._left()

    async def _left(self) -> int:
        depth = (await self._store.depth([QUEUE])).get(QUEUE)
        return 0 if depth is None else depth.ready + depth.running
