"""DBOS Transact on PostgreSQL: `DBOSClient.enqueue`, a queue of its own, workflows that are plain functions.

DBOS hands a dead process's workflows to whoever starts next under the same executor id, so each process here
takes the lowest id that is free, as the replicas of a stateful set do.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import time
from pathlib import Path
from typing import IO, Any

import bench_kit
import sqlalchemy
import uvloop
from dbos import DBOS, DBOSClient, DBOSConfig, EnqueueOptions

SLOTS, THREADS, CONNECTIONS = 500, 32, 20
POLL = 0.01 if bench_kit.KIND in ("keyed", "chain") else 0.05
COUNT = "SELECT count(*) FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING', 'DELAYED')"


@DBOS.workflow(name="noop")
def noop(number: int, text: str) -> None:
    bench_kit.ran(number)


@DBOS.workflow(name="long")
def long(number: int, text: str) -> None:
    bench_kit.ran(number)
    time.sleep(bench_kit.LONG)
    bench_kit.ended(number)


@DBOS.step()
def one(number: int) -> int:
    bench_kit.ran(number)
    return 1


@DBOS.workflow(name="steps")
def steps(number: int, text: str) -> None:
    for _ in range(bench_kit.STEPS["steps"]):
        one(number)


@DBOS.workflow(name="long_steps")
def long_steps(number: int, text: str) -> None:
    for _ in range(bench_kit.STEPS["long_steps"]):
        one(number)


@DBOS.workflow(name="waiting")
async def waiting(number: int, text: str) -> None:
    bench_kit.ran(number)
    await DBOS.recv_async("go", timeout_seconds=600)
    bench_kit.ended(number)


def options(number: int, kind: str) -> EnqueueOptions:
    if kind == "waiting":
        return {"queue_name": "bench", "workflow_name": kind, "workflow_id": f"waiting-{number}"}
    if kind not in ("keyed", "chain"):
        return {"queue_name": "bench", "workflow_name": kind}
    key = bench_kit.key_of(number, kind)
    return {"queue_name": "keyed", "workflow_name": "noop", "queue_partition_key": key}


async def launch(executor: str, slots: int) -> None:
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": os.environ["BENCH_DSN"],
        "sys_db_pool_size": CONNECTIONS,
        "max_executor_threads": THREADS,
        "executor_id": executor,
        "application_version": "bench",
        "log_level": "WARNING",
    }
    DBOS(config=config)
    DBOS.launch()
    limits: dict[str, Any] = {"worker_concurrency": slots, "polling_interval_sec": POLL}
    await DBOS.register_queue_async("bench", on_conflict="always_update", **limits)
    await DBOS.register_queue_async("keyed", on_conflict="always_update", partition_concurrency=1, **limits)


def executor_id() -> tuple[str, IO[str]]:
    """The lowest id that no living process has, and the lock that keeps it ours."""
    number = 0
    while True:
        file = (Path(os.environ["BENCH_LEDGER"]) / f"executor-{number}").open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            number += 1
        else:
            return f"executor-{number}", file


class Dbos(bench_kit.Peer):
    """A client to produce with, one executor a process to work."""

    packages = ("dbos", "psycopg", "sqlalchemy", "uvloop")
    settings = {  # noqa: RUF012
        "worker": f"worker_concurrency {SLOTS}: at most so many workflows a claim; each is ended by itself",
        "pages": "Python reference: Configuration, Queues; Production Checklist",
        "wake-up": "polling_interval_sec 0.05, for short waits and many claims; with keys 0.01. The default "
        "is 1 s",
        "workflows": "plain functions, which are faster here; those that wait are coroutines, as each would "
        "hold a thread",
        "threads": f"max_executor_threads {THREADS}, {CONNECTIONS} connections; the default has no limit",
        "many": "no call for many: enqueue_in_transaction, many in one transaction",
        "dead worker": "a process that starts under the same executor id takes its workflows back; no "
        "other does, save under Conductor, a service apart",
        "retries": "a workflow is recovered 100 times at most, the default",
        "signals": f"send from 16 threads on {CONNECTIONS} connections; the workflow waits in memory, and is "
        "told by NOTIFY",
        "PostgreSQL restarts": "the worker lives on and tries again",
        "loop": "uvloop",
    }
    bulk = "enqueue_in_transaction, many in one transaction"
    keyed = "a partitioned queue with partition_concurrency=1"
    batch = 100
    blocking = True
    _client: DBOSClient
    _engine: sqlalchemy.Engine

    async def prepare(self) -> None:
        await launch("prepare", SLOTS)
        await asyncio.to_thread(DBOS.destroy)

    async def open(self) -> None:
        url = sqlalchemy.make_url(os.environ["BENCH_DSN"]).set(drivername="postgresql+psycopg")
        self._engine = sqlalchemy.create_engine(url, pool_size=1, pool_pre_ping=True)
        self._client = DBOSClient(
            system_database_url=os.environ["BENCH_DSN"],
            system_database_pool_size=CONNECTIONS,
            application_name="bench",
        )

    async def close(self) -> None:
        self._client.destroy()
        self._engine.dispose()

    async def send(self, number: int, kind: str) -> None:
        self._client.enqueue(options(number, kind), number, bench_kit.TEXT)

    async def send_many(self, numbers: range, kind: str) -> None:
        with self._engine.begin() as connection:
            for number in numbers:
                self._client.enqueue_in_transaction(connection, options(number, kind), number, bench_kit.TEXT)

    async def signal(self, number: int) -> None:
        self._client.send(f"waiting-{number}", "go", "go")

    def work(self, processes: int, slots: int | None) -> None:
        asyncio.run(self._serve(slots or SLOTS))

    async def _serve(self, slots: int) -> None:
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        executor, lock = executor_id()
        with lock:
            await launch(executor, slots)
            await stopped.wait()
            await asyncio.to_thread(DBOS.destroy, workflow_completion_timeout_sec=30)

    async def left(self) -> int | None:
        with self._engine.connect() as connection:
            return int(connection.execute(sqlalchemy.text(COUNT)).scalar_one())


if __name__ == "__main__":
    uvloop.install()
    bench_kit.main(Dbos)
