"""A port with a store behind it: what a context needs of a worker, without one."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from windlass.running.emitting import Emitter, RunStream
from windlass.store.records import (
    Awaited,
    Checkpoint,
    ClaimedJob,
    KeptResult,
    NewJob,
    Outcome,
    PartOf,
    Plan,
    Step,
    TaskRecord,
    Wait,
    WorkerInfo,
)
from windlass.store.sqlite import SQLiteStore


class StorePort:
    """What an engine is to a context, with a store behind it and nothing else."""

    def __init__(self, store: SQLiteStore, worker: int) -> None:
        self.store = store
        self.worker = worker
        self.loop = asyncio.get_running_loop()
        self.loads = 0
        self.writes: list[Checkpoint] = []
        self.error: Exception | None = None
        self.gate: asyncio.Event | None = None

    async def results(self, jobs: Sequence[int]) -> dict[int, KeptResult]:
        return await self.store.results(jobs)

    async def group_jobs(self, group: int) -> tuple[int, ...]:
        return tuple(await self.store.group_jobs(group))

    async def load(self, job: ClaimedJob) -> Checkpoint | None:
        self.loads += 1
        return (await self.store.checkpoints([job.id])).get(job.id)

    async def save(self, job: ClaimedJob, checkpoint: Checkpoint, connection: Any = None) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        await self.store.checkpoint(self.worker, job, checkpoint)
        self.writes.append(checkpoint)

    def transaction(
        self, job: ClaimedJob, outcome: Callable[[], Outcome]
    ) -> AbstractAsyncContextManager[Any]:
        return self.store.transaction(self.worker, 1, outcome)

    def saving(
        self, job: ClaimedJob, checkpoint: Callable[[], Checkpoint]
    ) -> AbstractAsyncContextManager[Any]:
        return self.store.saving(self.worker, job, checkpoint)

    async def save_step(self, job: ClaimedJob, step: Step) -> Step:
        return await self.store.save_step(self.worker, job, step)

    def saving_step(self, job: ClaimedJob, step: Callable[[], Step]) -> AbstractAsyncContextManager[Any]:
        return self.store.saving_step(self.worker, job, step)

    async def steps(self, job: ClaimedJob) -> list[Step]:
        return await self.store.steps(job.id)

    async def wait_for_signal(self, job: ClaimedJob, wait: Wait) -> Awaited:
        return await self.store.wait_for_signal(self.worker, job, wait)

    async def spent(self, job: ClaimedJob, budget: str, tokens: int) -> None:
        await self.store.spent(self.worker, job, budget, "", before=1, tokens=tokens)

    def stream(self, job: ClaimedJob) -> RunStream:
        return Emitter(self.store, self.worker, self.loop, None, lambda job: None).stream(job)

    async def split(self, job: ClaimedJob, plan: Plan) -> None:
        await self.store.split(self.worker, 1, job, plan)

    def span(self, task: str, part: PartOf) -> str:
        return part.span

    async def settings(self, task: str, *, fresh: bool = False) -> TaskRecord:
        return TaskRecord(name=task)


@pytest.fixture
async def port() -> StorePort:
    store = SQLiteStore(":memory:")
    await store.register(WorkerInfo(id=77))
    return StorePort(store, 77)


async def claimed(port: StorePort, **fields: Any) -> ClaimedJob:
    await port.store.enqueue([NewJob(task="imports.load", payload="{}", **fields)])
    return await claimed_again(port)


async def claimed_again(port: StorePort) -> ClaimedJob:
    return (await port.store.claim(port.worker, ["default"], 1))[0].jobs[0]
