"""Procrastinate on PostgreSQL: `defer_async`, `batch_defer_async` and `run_worker_async`, over psycopg.

Jobs of a worker that died come back through a periodic task that the users write themselves. The one here has
the schedule that Procrastinate's documentation gives.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

import bench_kit
import procrastinate
import uvloop

CONCURRENCY, WORKERS, CONNECTIONS, RETRIES = 32, 4, 20, 3
POLL = 0.01 if bench_kit.KIND in ("keyed", "chain") else 5.0
# It warns of an app in the main module, whose tasks could change their names. Ours are named.
logging.getLogger("procrastinate.blueprints").setLevel(logging.ERROR)
app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(
        conninfo=os.environ.get("BENCH_DSN", ""), min_size=CONNECTIONS, max_size=CONNECTIONS
    )
)


@app.task(queue="bench", name="noop", retry=RETRIES)
async def noop(number: int, text: str) -> None:
    bench_kit.ran(number)


@app.task(queue="bench", name="long", retry=RETRIES)
async def long(number: int, text: str) -> None:
    bench_kit.ran(number)
    await asyncio.sleep(bench_kit.LONG)
    bench_kit.ended(number)


@app.periodic(cron="*/10 * * * *")
@app.task(queue="rescue", name="rescue", queueing_lock="rescue", pass_context=True)
async def rescue(context: procrastinate.JobContext, timestamp: int) -> None:
    for job in await app.job_manager.get_stalled_jobs():
        await app.job_manager.retry_job(job)


TASKS: dict[str, Any] = {"noop": noop, "long": long}


def arguments(numbers: range) -> list[dict[str, Any]]:
    return [{"number": number, "text": bench_kit.TEXT} for number in numbers]


class Procrastinate(bench_kit.Peer):
    """Several workers a process, one app and one pool."""

    packages = ("procrastinate", "psycopg", "psycopg-pool", "uvloop")
    settings = {  # noqa: RUF012
        "pages": "Discussions: Mind the size of your PostgreSQL pool, How polling works; How-to: production",
        "worker": f"{WORKERS} workers in each process, concurrency {CONCURRENCY // WORKERS} each: a worker "
        "claims jobs one by one, so one alone would wait for every commit",
        "pool": f"{CONNECTIONS} connections of psycopg's C build, so that ends overlap; the default is 4",
        "wake-up": "LISTEN/NOTIFY, and a poll every 5 s: the defaults. Where jobs have locks, a poll every "
        "0.01 s: a lock that becomes free notifies nobody",
        "history": "finished jobs stay in the table: the default",
        "dead worker": "beats every 10 s, stalled after 30 s: the defaults. A periodic task retries "
        "stalled jobs every 10 minutes, as the documentation has it: up to 10.5 minutes in all",
        "retries": f"{RETRIES}",
        "PostgreSQL restarts": "the worker stops, an idle one only at its next statement; its "
        "supervisor starts it again",
        "loop": "uvloop",
    }
    bulk = "batch_defer_async"
    keyed = "configure(lock=…)"
    batch = 1000

    async def prepare(self) -> None:
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        await app.open_async()

    async def close(self) -> None:
        await app.close_async()

    async def send(self, number: int, kind: str) -> None:
        if kind in TASKS:
            await TASKS[kind].defer_async(number=number, text=bench_kit.TEXT)
        else:
            lock = bench_kit.key_of(number, kind)
            await noop.configure(lock=lock).defer_async(number=number, text=bench_kit.TEXT)

    async def send_many(self, numbers: range, kind: str) -> None:
        if kind in TASKS:
            await TASKS[kind].batch_defer_async(*arguments(numbers))
            return
        for lock, some in bench_kit.by_key(numbers, kind):
            await noop.configure(lock=lock).batch_defer_async(*arguments(some))

    def work(self, processes: int, slots: int | None) -> None:
        bench_kit.run_until_signal(self._serve(slots or CONCURRENCY))

    async def _serve(self, slots: int) -> None:
        count = min(slots, WORKERS)
        shares = [slots // count + (index < slots % count) for index in range(count)]
        async with app.open_async():
            runs = [
                app.run_worker_async(
                    concurrency=share, fetch_job_polling_interval=POLL, install_signal_handlers=False
                )
                for share in shares
            ]
            workers = [asyncio.ensure_future(run) for run in runs]
            try:
                await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)
            finally:  # one that stops takes the others along; cancelled, each waits for the jobs that it runs
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)

    async def left(self) -> int | None:
        queues = await app.job_manager.list_queues_async(queue="bench")
        return sum(int(queue["todo"] + queue["doing"]) for queue in queues)


if __name__ == "__main__":
    uvloop.install()
    bench_kit.main(Procrastinate)
