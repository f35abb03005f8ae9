"""Imports by real workers, watched from outside: the clock is the store's own, from the enqueue to the end of
the parent, so that no look at it is too late."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from windlass.bench import chunks_jobs
from windlass.bench.chunks_dump import Dump
from windlass.bench.chunks_jobs import BLOCK, CHUNK
from windlass.bench.chunks_plan import ChunkPlan
from windlass.bench.chunks_report import Pass
from windlass.bench.crew import SETTLE, START_TIME, Crew, crew
from windlass.bench.jobs import QUEUE
from windlass.core.states import State
from windlass.errors import StoreError
from windlass.store.protocol import Store
from windlass.store.records import NewJob, Options

LOOK_EVERY: Final = 0.05
SLOTS: Final = 2
"""Of each process."""
BLOCKS: Final = 40
"""Of batches, with checkpoints and without in turn."""

Beside = Callable[[], Awaitable[Pass]]


@dataclass
class Beheld:
    """What was seen of imports by one crew: each of them, what was done before and after, and the peak memory
    of each process, in bytes."""

    passes: list[Pass] = field(default_factory=list)
    beside: list[Pass] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)


class Imports:
    """What a crew of workers does with the file, on one store. `environment` tells the workers of it."""

    def __init__(
        self, store: Store, environment: Mapping[str, str], plan: ChunkPlan, dump: Dump, small: Dump
    ) -> None:
        """`small` is imported once by each process before anything is measured."""
        self._store = store
        self._environment = {
            **environment,
            "WINDLASS_IMPORTS": chunks_jobs.__name__,
            CHUNK: str(plan.chunk),
            BLOCK: str(max(1, dump.records // plan.batch // BLOCKS)),
        }
        self._plan = plan
        self._dump = dump
        self._small = small

    async def run(self, task: str, processes: int, beside: Beside, times: int = 2) -> Beheld:
        """Import the file so many times by one crew, with something else done before and after each."""
        found = Beheld()
        async with self._crew(processes) as hands:
            await self._all(task, self._small, processes)
            found.beside.append(await beside())
            for _ in range(times):
                cpu = hands.cpu()
                [seconds] = await self._all(task, self._dump, 1)
                found.passes.append(Pass(seconds, hands.cpu() - cpu))
                found.beside.append(await beside())
        found.memory += self._notes(hands, processes)
        return found

    async def overheads(self, task: str) -> list[float]:
        """What checkpoints take, in percent, as a task finds out that has them in turns."""
        async with self._crew(1):
            await self._all(task, self._small, 1)
            job = await self._enqueue(task, self._dump, 1)
            await self._one(job[0], self._dump)
            found = await self._store.job(job[0])
        return msgspec.json.decode((found and found.result) or "[]", type=list[float])

    @staticmethod
    def _notes(hands: Crew, processes: int) -> list[float]:
        if len(hands.notes) != processes:
            raise StoreError(f"{len(hands.notes)} of {processes} processes told their memory; did one die?")
        return hands.notes

    @asynccontextmanager
    async def _crew(self, processes: int) -> AsyncIterator[Crew]:
        """A crew in which each process works on two parts at a time: while the checkpoint of one is on its
        way to the disk, the other is parsed."""
        async with crew(self._store, self._environment, processes) as hands:
            await self._store.set_queue(QUEUE, {"max_workers": SLOTS * processes})
            workers = [worker.id for worker in await self._store.workers() if worker.pid in hands.pids]
            until = time.monotonic() + START_TIME
            while any(
                slots.get(QUEUE) != SLOTS for slots in (await self._store.steering(workers)).slots.values()
            ):
                if time.monotonic() > until:
                    raise StoreError("the workers did not get two slots each; is another one on this queue?")
                await asyncio.sleep(LOOK_EVERY)
            await asyncio.sleep(SETTLE)
            yield hands

    async def _all(self, task: str, dump: Dump, times: int) -> list[float]:
        """Import a file so many times at once: the seconds of each."""
        return [await self._one(job, dump) for job in await self._enqueue(task, dump, times)]

    async def _enqueue(self, task: str, dump: Dump, times: int) -> list[int]:
        job = NewJob(task=task, payload=_payload(dump.path), queue=QUEUE, options=Options(chunked=True))
        return [receipt.id for receipt in await self._store.enqueue([job] * times)]

    async def _one(self, job: int, dump: Dump) -> float:
        found = await self._store.wait_finished(job, self._plan.patience)
        parent = await self._store.parent(job)
        if found.state is not State.SUCCEEDED or parent is None or found.finished_at is None:
            raise StoreError(f"the import {found.task} is {found.state}: {found.reason or found.errors}")
        if parent.records != dump.records:
            raise StoreError(f"{found.task} read {parent.records:,} records, the file has {dump.records:,}")
        return found.finished_at - found.enqueued_at


def _payload(path: Path) -> str:
    return msgspec.json.encode({"path": str(path)}).decode()
