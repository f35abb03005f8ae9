"""What the chaos tests hold in their hands: stores, a worker with its flush numbers, and bounded waits.

Nothing here writes rows: every state is reached through the store's own operations, or by breaking something
from outside.
"""

import asyncio
import contextlib
import itertools
import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest

from tests.postgres_guard import alive
from tests.stopwatch import Stopwatch
from windlass.core.states import Kind
from windlass.store.postgres import PostgresStore
from windlass.store.records import Claim, ClaimedJob, Depth, Finished, NewJob, Outcome, Receipt, WorkerInfo
from windlass.worker.processes import fork_server_program

QUIET = 0.02
"""Seconds between two looks of a bounded wait."""
SOAK_SECONDS = float(os.environ.get("WINDLASS_SOAK_SECONDS", "600"))
"""How long a soak that has no figure of its own lasts."""


def worker_children(supervisor: int) -> list[int]:
    """The process ids of the children of a `windlass worker` that live, without the fork server they come
    from."""
    with contextlib.suppress(psutil.NoSuchProcess):
        children = [child.pid for child in psutil.Process(supervisor).children() if alive(child.pid)]
        return sorted(pid for pid in children if process_name(pid) != fork_server_program.NAME)
    return []


def fork_server_of(supervisor: int) -> int | None:
    """The process id of the fork server of a `windlass worker`, if there is one."""
    children = [child.pid for child in psutil.Process(supervisor).children() if alive(child.pid)]
    return next((pid for pid in children if process_name(pid) == fork_server_program.NAME), None)


def process_name(pid: int) -> str:
    """What `ps` and `top` call a process; empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8").strip()
    except OSError:
        return ""


def lasting(short: float, *, share: float = 1.0) -> pytest.MarkDecorator:
    """The argument `seconds` of a test: so many with every check, and in a soak this share of its time."""
    return sized("seconds", (short,), (share * SOAK_SECONDS,))


def sized(names: str, short: Sequence[Any], long: Sequence[Any]) -> pytest.MarkDecorator:
    """Arguments of a test: these with every check, and those in a soak."""
    soak = pytest.param(*long, id="soak", marks=pytest.mark.soak)
    return pytest.mark.parametrize(names, [pytest.param(*short, id="short"), soak])


def per_soak(seconds: float, least: int = 2) -> int:
    """How often something that takes so many seconds fits into a soak."""
    return max(least, int(SOAK_SECONDS / seconds))


@asynccontextmanager
async def opened(dsn: str, **fields: Any) -> AsyncIterator[PostgresStore]:
    """A store, closed at the end. It asks for the heads of the lanes at every claim unless told otherwise."""
    store = PostgresStore(dsn, **{"head_cache": 0.0, **fields})
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[Any]:
    """A plain connection, for what stands outside the store: foreign transactions, readers, looks."""
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        connection.terminate()


def job(task: str = "t", payload: str = "{}", **fields: Any) -> NewJob:
    """A job to enqueue."""
    return NewJob(task=task, payload=payload, **fields)


class Worker:
    """A registered worker that counts its flushes."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.id = secrets.randbits(62) + 1
        self._flushes = itertools.count(1)

    @classmethod
    async def registered(cls, store: PostgresStore) -> "Worker":
        worker = cls(store)
        await store.register(WorkerInfo(id=worker.id))
        return worker

    async def claims(self, *queues: str, limit: int = 100) -> list[Claim]:
        return await self.store.claim(self.id, queues or ("default",), limit)

    async def claim(self, *queues: str, limit: int = 100) -> list[ClaimedJob]:
        """The jobs of one call to claim."""
        return [job for claim in await self.claims(*queues, limit=limit) for job in claim.jobs]

    def next_flush(self) -> int:
        return next(self._flushes)

    async def finish(
        self, jobs: Sequence[ClaimedJob], kind: Kind = Kind.SUCCEEDED, **fields: Any
    ) -> Finished:
        outcomes = [Outcome(job=job, kind=kind, **fields) for job in jobs]
        return await self.store.finish(self.id, self.next_flush(), outcomes)

    async def drain(self, *queues: str, limit: int = 500, within: float = 60.0) -> list[int]:
        """Run everything until the depth reads 0, and return the ids in the order in which they ran."""
        ran: list[int] = []
        names = list(queues or ("default",))

        async def done() -> bool:
            await self.store.promote()
            while jobs := await self.claim(*names, limit=limit):
                ran.extend(job.id for job in jobs)
                finished = await self.finish(jobs)
                assert finished.applied == len(jobs)
            return all(waiting(depth) == 0 for depth in (await self.store.depth(names)).values())

        await until(done, within)
        return ran


def waiting(depth: Depth) -> int:
    """Every job that has not ended."""
    return depth.ready + depth.running + depth.scheduled + depth.retrying


async def until(met: Callable[[], Awaitable[bool]], within: float, pause: float = QUIET) -> float:
    """Look until it is so, and say how long that took; not so within the time is a failure."""
    began, watch = time.monotonic(), Stopwatch()
    while not await met():
        assert watch.seconds() < within, f"still not so after {within:g} s"
        await asyncio.sleep(pause)
    return time.monotonic() - began


async def fill(
    store: PostgresStore, n: int, *, queue: str = "default", payload: str = "{}", step: int = 5000
) -> list[int]:
    """Enqueue n plain jobs in bulk and return their ids. Where the queue is new and could not be declared at
    once, which happens on a busy machine, they are deferred: these are promoted."""
    receipts: list[Receipt] = []
    while len(receipts) < n:
        receipts += await store.enqueue([job(queue=queue, payload=payload)] * min(step, n - len(receipts)))
    if any(receipt.status == "scheduled" for receipt in receipts):
        while (await store.depth([queue]))[queue].scheduled:
            await store.promote()
    return [receipt.id for receipt in receipts]


async def counts(dsn: str) -> dict[str, int]:
    """How many jobs the view shows in each state."""
    async with connected(dsn) as connection:
        rows = await connection.fetch("SELECT state, count(*) AS n FROM windlass.job GROUP BY state")
    return {row["state"]: row["n"] for row in rows}


async def depth_is_a_scan(store: PostgresStore, dsn: str) -> None:
    """The counts that need no scan equal a scan of the view, queue by queue."""
    async with connected(dsn) as connection:
        rows = await connection.fetch(
            "SELECT queue, state, count(*) AS n FROM windlass.job GROUP BY queue, state"
        )
    seen = {(row["queue"], row["state"]): row["n"] for row in rows}
    for queue, depth in (await store.depth()).items():
        for state in ("ready", "running", "scheduled", "retrying", "dead"):
            found, scanned = getattr(depth, state), seen.get((queue, state), 0)
            scanned += depth.pending_parts if state == "ready" else 0
            assert found == scanned, f"{queue}: depth says {found} {state}, the view shows {scanned}"
