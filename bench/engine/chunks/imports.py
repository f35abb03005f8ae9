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

from bench.engine.chunks import jobs
from bench.engine.chunks.dump import Dump
from bench.engine.chunks.jobs import BLOCK, CHUNK
from bench.engine.chunks.plan import ChunkPlan
from bench.engine.chunks.report import Pass
from bench.engine.jobs import QUEUE
from bench.engine.worker import SETTLE, START_TIME, Worker, worker
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
class Seen:
    """What was seen of imports by one worker: each of them, what was done before and after, and the peak
    memory of each process, in bytes."""

    passes: list[Pass] = field(default_factory=list)
    beside: list[Pass] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)


class Imports:
    """What a worker with its processes does with the file, on one store. `environment` leads it there."""

    def __init__(
        self, store: Store, environment: Mapping[str, str], plan: ChunkPlan, dump: Dump, small: Dump
    ) -> None:
        """`small` is imported once by each process before anything is measured."""
        self._store = store
        self._environment = {
            **environment,
            "WINDLASS_IMPORTS": jobs.__name__,
            CHUNK: str(plan.chunk),
            BLOCK: str(max(1, dump.records // plan.batch // BLOCKS)),
        }
        self._plan = plan
        self._dump = dump
        self._small = small

    async def run(self, task: str, processes: int, beside: Beside, times: int = 2) -> Seen:
        """Import the file so many times by one worker, with something else done before and after each."""
        found = Seen()
        async with self._working(processes) as working:
            await self._all(task, self._small, processes)
            found.beside.append(await beside())
            for _ in range(times):
                cpu = working.cpu()
                [seconds] = await self._all(task, self._dump, 1)
                found.passes.append(Pass(seconds, working.cpu() - cpu))
                found.beside.append(await beside())
            found.memory += working.peak_memory()
        return found

    async def overheads(self, task: str) -> list[float]:
        """What checkpoints take, in percent, as a task finds out that has them in turns."""
        async with self._working(1):
            await self._all(task, self._small, 1)
            job = await self._enqueue(task, self._dump, 1)
            await self._one(job[0], self._dump)
            found = await self._store.job(job[0])
        return msgspec.json.decode((found and found.result) or "[]", type=list[float])

    @asynccontextmanager
    async def _working(self, processes: int) -> AsyncIterator[Worker]:
        """Workers of which each process works on two parts at a time: while the checkpoint of one is on its
        way to the disk, the other is parsed."""
        async with worker(self._store, self._environment, processes) as working:
            await self._store.set_queue(QUEUE, {"max_workers": SLOTS * processes})
            workers = [each.id for each in await self._store.workers() if each.pid in working.pids]
            until = time.monotonic() + START_TIME
            while any(
                slots.get(QUEUE) != SLOTS
                for slots in (await self._store.cluster_view(workers)).slots.values()
            ):
                if time.monotonic() > until:
                    raise StoreError("the workers did not get two slots each; is another one on this queue?")
                await asyncio.sleep(LOOK_EVERY)
            await asyncio.sleep(SETTLE)
            yield working

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
