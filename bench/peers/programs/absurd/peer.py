"""Absurd on PostgreSQL: `spawn` and `start_worker` of its Python SDK, the schema from `absurdctl`."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import absurd_sdk
import absurdctl  # type: ignore[import-untyped]
import bench_kit
import psycopg
import uvloop

WORKERS, TASKS = {"steps": (16, 16), "long_steps": (16, 4), "waiting": (16, 16)}.get(bench_kit.KIND, (8, 32))
CLIENTS, POLL = 16, 0.05
COUNT = "SELECT count(*) FROM absurd.t_bench WHERE state NOT IN ('completed', 'failed', 'cancelled')"


async def noop(job: dict[str, Any], context: absurd_sdk.AsyncTaskContext) -> None:
    bench_kit.ran(job["number"])


async def long(job: dict[str, Any], context: absurd_sdk.AsyncTaskContext) -> None:
    bench_kit.ran(job["number"])
    await asyncio.sleep(bench_kit.LONG)
    bench_kit.ended(job["number"])


async def _steps(job: dict[str, Any], context: absurd_sdk.AsyncTaskContext, kind: str) -> None:
    async def one() -> int:
        bench_kit.ran(job["number"])
        return 1

    for _ in range(bench_kit.STEPS[kind]):
        await context.step("one", one)


async def steps(job: dict[str, Any], context: absurd_sdk.AsyncTaskContext) -> None:
    await _steps(job, context, "steps")


async def long_steps(job: dict[str, Any], context: absurd_sdk.AsyncTaskContext) -> None:
    await _steps(job, context, "long_steps")


async def waiting(job: dict[str, Any], context: absurd_sdk.AsyncTaskContext) -> None:
    async def begun() -> None:
        bench_kit.ran(job["number"])

    await context.step("begun", begun)
    await context.await_event(f"go-{job['number']}")
    bench_kit.ended(job["number"])


def client(connection: psycopg.AsyncConnection[Any]) -> absurd_sdk.AsyncAbsurd:
    made = absurd_sdk.AsyncAbsurd(connection, queue_name="bench")
    made.register_task("noop")(noop)
    made.register_task("long")(long)
    made.register_task("steps")(steps)
    made.register_task("waiting")(waiting)
    made.register_task("long_steps")(long_steps)
    return made


async def connect() -> psycopg.AsyncConnection[Any]:
    return await psycopg.AsyncConnection.connect(os.environ["BENCH_DSN"], autocommit=True)


class Absurd(bench_kit.Peer):
    """Several clients a process, each with its connection."""

    packages = ("absurd-sdk", "absurdctl", "psycopg", "uvloop")
    settings = {  # noqa: RUF012
        "pages": "docs/sdks/python.md: Starting a Worker; docs/storage.md. None on tuning: these did best in "
        "trials",
        "worker": "8 async workers in each process, 32 tasks each; for workflows 16 and 16, for those of 100 "
        "steps, of which few wait, 16 and 4. A worker has one connection and ends tasks one by one on it, so "
        "one alone would wait for every commit",
        "wake-up": f"a poll every {POLL:g} s, for short waits; the default is 0.25 s, and there is no NOTIFY",
        "storage": "unpartitioned, the default: partitions are for weeks of history",
        "many": f"no call for many: spawns in one transaction, on a connection of ours; {CLIENTS} "
        "connections where clients are many",
        "dead worker": "claims last 120 s, the default; then any worker's next claim takes the task again",
        "retries": "5 attempts, the default",
        "signals": f"emit_event on {CLIENTS} connections; the workflow is no longer in memory",
        "PostgreSQL restarts": "the worker stops with an error, its supervisor starts it again",
        "loop": "uvloop",
    }
    bulk = "spawn, many in one transaction"
    batch = 200
    _clients: asyncio.Queue[tuple[absurd_sdk.AsyncAbsurd, psycopg.AsyncConnection[Any]]]

    async def prepare(self) -> None:
        connection = await connect()
        await connection.execute(absurdctl.BUNDLED_SCHEMA_SQL)  # what `absurdctl init` hands to psql
        await client(connection).create_queue()
        await connection.close()

    async def open(self) -> None:
        self._clients = asyncio.Queue()
        for connection in [await connect() for _ in range(CLIENTS)]:
            self._clients.put_nowait((client(connection), connection))

    async def close(self) -> None:
        while not self._clients.empty():
            await self._clients.get_nowait()[1].close()

    async def send(self, number: int, kind: str) -> None:
        taken = await self._clients.get()
        try:
            await taken[0].spawn(kind, {"number": number, "text": bench_kit.TEXT})
        finally:
            self._clients.put_nowait(taken)

    async def send_many(self, numbers: range, kind: str) -> None:
        taken = await self._clients.get()
        try:
            async with taken[1].transaction():
                for number in numbers:
                    await taken[0].spawn(kind, {"number": number, "text": bench_kit.TEXT})
        finally:
            self._clients.put_nowait(taken)

    async def signal(self, number: int) -> None:
        taken = await self._clients.get()
        try:
            await taken[0].emit_event(f"go-{number}", {"go": True})
        finally:
            self._clients.put_nowait(taken)

    def work(self, processes: int, slots: int | None) -> None:
        asyncio.run(self._serve(slots or WORKERS * TASKS))

    async def _serve(self, slots: int) -> None:
        count = min(slots, WORKERS)
        workers = [client(await connect()) for _ in range(count)]

        def stop() -> None:
            for worker in workers:
                worker.stop_worker()

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
        shares = [slots // count + (index < slots % count) for index in range(count)]
        await asyncio.gather(
            *(
                worker.start_worker(concurrency=share, poll_interval=POLL)
                for worker, share in zip(workers, shares, strict=True)
            )
        )

    async def left(self) -> int | None:
        connection = await connect()
        async with connection:
            row = await (await connection.execute(COUNT)).fetchone()
        return int(row[0]) if row else None


if __name__ == "__main__":
    uvloop.install()
    bench_kit.main(Absurd)
