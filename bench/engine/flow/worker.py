"""An app with a worker in this process, as `app.worker` gives it, coordinator included; its handlers do
nothing but note when they began."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Unpack

from bench.engine.figures import Taken
from bench.engine.jobs import QUEUE
from bench.engine.places import OpenStore
from windlass.app import Windlass
from windlass.errors import StoreError
from windlass.tasks.limits import FlowOptions

MANY: Final = "bench.many"
SINGLE: Final = "bench.single"
SLOTS: Final = 64


class Stage:
    """One app on one store. Times are of the monotonic clock."""

    def __init__(self, place: OpenStore, patience: float, **flow: Unpack[FlowOptions]) -> None:
        """`patience`: seconds after which a job that does not start is given up; `flow`: what the task of the
        many says about its flow."""
        self.app = Windlass()
        self.app.settings = place.settings
        self._patience = patience
        self._singles: dict[int, asyncio.Future[float]] = {}
        self._news = asyncio.Event()
        self.count = 0
        """Runs of the many that have begun."""
        self._first = self._last = 0.0

        @self.app.task(queue=QUEUE, name=MANY, **flow)
        async def many(n: int, key: str, text: str) -> None:
            self._last = time.monotonic()
            self._first = self._first or self._last
            self.count += 1
            self._news.set()

        @self.app.task(queue=QUEUE, name=SINGLE)
        async def single(n: int) -> None:
            waiting = self._singles.pop(n, None)
            if waiting is not None:
                waiting.set_result(time.monotonic())

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """The worker works while the block lasts."""
        try:
            async with self.app.worker({QUEUE: SLOTS}):
                yield
        finally:
            await self.app.aclose()

    async def counted(self, jobs: int, seconds: float) -> Taken:
        """Wait for so many runs, at most so long; how many there were, from the first to the last."""
        await self.begun(1)
        try:
            async with asyncio.timeout(seconds):
                await self._reached(jobs)
        except TimeoutError:
            pass  # what was done until then tells the rate as well
        return Taken(self.count, max(self._last - self._first, 1e-9))

    async def begun(self, jobs: int) -> None:
        """Wait until so many runs have begun. Raises StoreError."""
        try:
            async with asyncio.timeout(self._patience):
                await self._reached(jobs)
        except TimeoutError:
            raise StoreError(
                f"{self.count:,} of {jobs:,} jobs began within {self._patience:g} s; are they let through?"
            ) from None

    def expect(self, n: int) -> asyncio.Future[float]:
        """When the single job of this number begins, to be asked for before it is sent."""
        self._singles[n] = found = asyncio.get_running_loop().create_future()
        return found

    async def began(self, expected: asyncio.Future[float]) -> float:
        """Wait for a single job. Raises StoreError."""
        try:
            async with asyncio.timeout(self._patience):
                return await expected
        except TimeoutError:
            raise StoreError(f"a single job did not begin within {self._patience:g} s") from None

    async def _reached(self, jobs: int) -> None:
        while self.count < jobs:
            self._news.clear()
            await self._news.wait()
