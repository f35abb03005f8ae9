"""A producer of jobs that do nothing for the worker behind the pages: as many a second as are asked for, or
as many as the worker can run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from bench.engine.figures import Taken
from bench.engine.jobs import QUEUE, TASK
from bench.engine.plan import Plan
from bench.engine.store.scenarios import payloads
from windlass.store.protocol import Store
from windlass.store.records import NewJob

TICK: Final = 0.05
WARM_UP: Final = 0.2
"""Of the time that is measured, before it is."""
CHUNK: Final = 1000
"""Jobs in one call of a producer that stays ahead."""


class Producer:
    """A producer for the queue that a worker serves; see `bench.engine.worker`."""

    def __init__(self, store: Store, plan: Plan) -> None:
        self._store = store
        self._plan = plan
        made = payloads(plan)[:CHUNK]
        self._jobs = [NewJob(task=TASK, payload=payload, queue=QUEUE) for payload in made]
        self._enqueued = 0

    @asynccontextmanager
    async def trickling(self, pace: int) -> AsyncIterator[None]:
        """So many jobs a second run while the block lasts."""
        async with self._producing(self._trickle(pace)):
            yield

    async def saturated(self) -> Taken:
        """Jobs finished while a producer stays a little ahead of the worker."""
        seconds = self._plan.seconds
        async with self._producing(self._stay_ahead()):
            await asyncio.sleep(seconds * WARM_UP)
            first, began = await self._finished(), time.perf_counter()
            await asyncio.sleep(seconds)
            last, ended = await self._finished(), time.perf_counter()
        await self.idle()
        return Taken(last - first, ended - began)

    async def idle(self) -> None:
        """Wait until nothing is left to run."""
        while await self._left():  # noqa: ASYNC110 - it is the workers that finish them
            await asyncio.sleep(TICK)

    @asynccontextmanager
    async def _producing(self, producing: asyncio.Task[None]) -> AsyncIterator[None]:
        try:
            yield
        finally:
            producing.cancel()
            await asyncio.wait([producing])
        if not producing.cancelled():
            producing.result()

    def _trickle(self, pace: int) -> asyncio.Task[None]:
        async def trickle() -> None:
            began = time.monotonic()
            sent = 0
            while True:
                due = int((time.monotonic() - began) * pace) - sent
                if due:
                    jobs = self._jobs[: min(due, len(self._jobs))]
                    sent += len(await self._store.enqueue(jobs))
                await asyncio.sleep(TICK)

        return asyncio.create_task(trickle())

    def _stay_ahead(self) -> asyncio.Task[None]:
        async def stay_ahead() -> None:
            while True:
                if await self._left() < self._plan.window:
                    self._enqueued += len(await self._store.enqueue(self._jobs))
                else:
                    await asyncio.sleep(0.002)

        return asyncio.create_task(stay_ahead())

    async def _finished(self) -> int:
        """How many of those that were enqueued to stay ahead have finished."""
        before = self._enqueued
        return max(before - await self._left(), 0)

    async def _left(self) -> int:
        depth = (await self._store.depth([QUEUE])).get(QUEUE)
        return 0 if depth is None else depth.ready + depth.running
