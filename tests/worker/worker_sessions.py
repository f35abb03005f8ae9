"""A worker session on its own, without engine and member: the tests say what it is told, and when."""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.worker.line import Line
from windlass import Context, Retry, Windlass
from windlass.core.retry import Backoff, DeathPolicy
from windlass.store.records import NewJob, QueueRecord, WorkerInfo
from windlass.worker.engine.assignment import Assignment
from windlass.worker.engine.worker_session import WorkerSession
from windlass.worker.handlers.run import Why
from windlass.worker.handlers.runner import Runner


class Calm:
    """Policies of queues that nobody has set."""

    def __init__(self, poison: int = 3) -> None:
        self.poison = poison
        self.lease = 0.3

    def backoff(self, queue: str) -> Backoff:
        return Backoff()

    async def throttle(self, queue: str, hint: float | None) -> float:
        return 60.0


@asynccontextmanager
async def on_session(
    app: Windlass, line: Line, slots: int = 4, *, queue: str = "default", poison: int = 3, **settings: Any
) -> AsyncIterator[WorkerSession]:
    """A registered worker that claims and writes while the block lasts; then it hands everything back."""
    await line.open()
    worker = secrets.randbelow(2**62) + 1
    await line.register(WorkerInfo(id=worker, queues=(queue,)))
    runner = Runner(app.tasks, Calm(poison), hooks=app.hooks)
    assignment = Assignment({queue: slots}, {queue: QueueRecord(name=queue, **settings)})
    session = WorkerSession(line.as_store, worker, runner, assignment)
    tasks = [asyncio.create_task(session.claimer.run()), asyncio.create_task(session.log.run())]
    try:
        yield session
    finally:
        tasks[0].cancel()
        await asyncio.wait({tasks[0]})
        await session.stop(Why.SHUTDOWN)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await session.log.flush()
        await line.retire(worker)
        await runner.close()


async def crashed_job(line: Line, task: str, *, queue: str = "default", deaths: int = 1) -> int:
    """A job that has seen workers die: enqueued, claimed, and rescued, as often as that takes. It must be
    the only job of its queue."""
    await line.open()
    (receipt,) = await line.enqueue([NewJob(task=task, payload="[]", queue=queue)])
    for _ in range(deaths):
        worker = secrets.randbelow(2**62) + 1
        await line.register(WorkerInfo(id=worker, queues=(queue,)))
        await line.claim(worker, [queue], 1)
        await line.rescue(worker, 0, DeathPolicy(backoff=Backoff(0.0)))
    return int(receipt.id)


class Handlers:
    """Tasks whose runs a test can see and hold."""

    def __init__(self, app: Windlass) -> None:
        self.runs: Counter[int] = Counter()
        self.proceed = asyncio.Event()
        self.running: set[int] = set()

        @app.task(name="waits", retry=Retry(3, base=0))
        async def waits(ctx: Context) -> None:
            self.runs[ctx.id] += 1
            self.running.add(ctx.id)
            try:
                await self.proceed.wait()
            finally:
                self.running.discard(ctx.id)

        @app.task(name="quick")
        async def quick(ctx: Context) -> None:
            self.runs[ctx.id] += 1

        self.waits, self.quick = waits, quick


@pytest.fixture
async def handlers(wired: Windlass) -> Handlers:
    return Handlers(wired)
