"""PgQueuer on PostgreSQL: `Queries.enqueue` and `pgqueuer.run`, over a pool of asyncpg."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import bench_kit
import pgqueuer
import uvloop

KEYS = {"keyed": bench_kit.KEYS, "chain": 1}.get(bench_kit.KIND, 0)
"""One limited entrypoint, and every claim of the worker takes the statement that counts what runs."""

BATCH = {"keyed": 50, "chain": 1}.get(bench_kit.KIND, 200)
CONNECTIONS, ATTEMPTS = 16, 5


async def noop(job: pgqueuer.Job) -> None:
    bench_kit.ran(json.loads(job.payload or b"{}")["number"])


async def long(job: pgqueuer.Job) -> None:
    number = json.loads(job.payload or b"{}")["number"]
    bench_kit.ran(number)
    await asyncio.sleep(bench_kit.LONG)
    bench_kit.ended(number)


def payload(number: int) -> bytes:
    return json.dumps({"number": number, "text": bench_kit.TEXT}).encode()


def entrypoint(number: int, kind: str) -> str:
    return kind if kind in ("noop", "long") else bench_kit.key_of(number, kind)


def retrying(parameters: Any) -> pgqueuer.DatabaseRetryEntrypointExecutor:
    return pgqueuer.DatabaseRetryEntrypointExecutor(parameters=parameters, max_attempts=ATTEMPTS)


def pool() -> Any:
    return asyncpg.create_pool(os.environ["BENCH_DSN"], min_size=1, max_size=CONNECTIONS)


@asynccontextmanager
async def application() -> AsyncIterator[pgqueuer.PgQueuer]:
    async with pool() as connections:
        queuer = pgqueuer.PgQueuer.from_asyncpg_pool(connections)
        queuer.entrypoint("noop", executor_factory=retrying)(noop)
        queuer.entrypoint("long", executor_factory=retrying)(long)
        for key in range(KEYS):
            name = f"key-{key}"
            queuer.entrypoint(name, concurrency_limit=1, executor_factory=retrying)(noop)
        yield queuer


class PgQueuer(bench_kit.Peer):
    """One queue manager a process; the pool serves producers and workers alike."""

    packages = ("pgqueuer", "asyncpg", "uvloop")
    settings = {  # noqa: RUF012
        "pages": "guides/performance-tuning.md, guides/concurrency-control.md",
        "worker": "batch_size 200: so many jobs a claim, so many ends a statement, 0.1 s late at most. With "
        "keys 50, and 1 with one key: the end of a job frees its key when it is written",
        "limits": "only where jobs have keys: one limit makes every claim of the worker slower",
        "slots": "no limit for noop jobs, the default; else max_concurrent_tasks, and half of it a claim",
        "pool": f"up to {CONNECTIONS} connections of asyncpg: its page asks for a pool at high throughput",
        "tables": "pgq autovac's settings, as the checklist says; durability 'durable', the default",
        "dead worker": "its jobs are claimed again once their beats are 30 s old: the default",
        "retries": f"{ATTEMPTS} attempts, by its DatabaseRetryEntrypointExecutor",
        "PostgreSQL restarts": "restart_on_failure and shutdown_on_listener_failure: begins again "
        "by itself, 5 s after it noticed; an idle worker notices within 20 s",
        "loop": "uvloop",
    }
    bulk = "Queries.enqueue with lists"
    keyed = "an entrypoint for each key, known when the worker starts, with concurrency_limit=1"
    batch = 5000
    _pool: Any
    _queries: pgqueuer.Queries

    async def prepare(self) -> None:
        await self.open()
        await self._queries.install()
        await self._queries.optimize_autovacuum()
        await self.close()

    async def open(self) -> None:
        self._pool = await pool()
        self._queries = pgqueuer.Queries.from_asyncpg_pool(self._pool)

    async def close(self) -> None:
        await self._pool.close()

    async def send(self, number: int, kind: str) -> None:
        await self._queries.enqueue(entrypoint(number, kind), payload(number))

    async def send_many(self, numbers: range, kind: str) -> None:
        count = len(numbers)
        kinds = [entrypoint(number, kind) for number in numbers]
        await self._queries.enqueue(kinds, [payload(number) for number in numbers], [0] * count)

    def work(self, processes: int, slots: int | None) -> None:
        # PgQueuer wants room for two batches at least.
        running = pgqueuer.run(
            application,
            batch_size=BATCH if slots is None else max(1, min(BATCH, slots // 2)),
            max_concurrent_tasks=None if slots is None else max(2, slots),
            shutdown_on_listener_failure=True,
            restart_on_failure=True,
            restart_delay=timedelta(seconds=5),
        )
        asyncio.run(running)

    async def left(self) -> int | None:
        return sum(part.count for part in await self._queries.queue_size())


if __name__ == "__main__":
    uvloop.install()
    bench_kit.main(PgQueuer)
