"""Huey on a SQLite file: a call of a task enqueues it, and `huey.create_consumer` with workers that are
processes.

It has no call that enqueues many: `map` inserts job by job. A worker runs one job at a time, so `slots` jobs
at a time are as many worker processes.
"""

from __future__ import annotations

import os
import time
from typing import Any

import bench_kit
import huey

DELAY, MAX_DELAY = 0.01, 0.1
queue = huey.SqliteHuey("bench", filename=os.environ.get("BENCH_FILE", ":memory:"), results=False)


@queue.task(name="noop")
def noop(number: int, text: str) -> None:
    bench_kit.ran(number)


@queue.task(name="long")
def long(number: int, text: str) -> None:
    bench_kit.ran(number)
    time.sleep(bench_kit.LONG)
    bench_kit.ended(number)


TASKS: dict[str, Any] = {"noop": noop, "long": long}


class Huey(bench_kit.Peer):
    """The queue above."""

    packages = ("huey",)
    settings = {  # noqa: RUF012
        "pages": "Consuming Tasks, API: SqliteHuey",
        "worker": "huey_consumer -k process -w P, one job at a time in each process; for S slots P × S "
        "processes",
        "SQLite": "WAL, and synchronous=FULL, as SQLite comes: an enqueued job survives a power cut. The "
        "default",
        "results": "results=False: they are not stored",
        "wake-up": f"it polls an empty queue after {DELAY:g} s and up to {MAX_DELAY:g} s; by default 0.1 s "
        "and up to 10 s",
        "stop": "SIGTERM waits for running jobs; by default it interrupts them, and they are lost",
        "dead worker": "a job is deleted when a worker takes it: what a killed worker ran is lost, by "
        "design. The worker is started again within 10 s, the default",
    }
    blocking = True
    supervises = True

    async def send(self, number: int, kind: str) -> None:
        TASKS[kind](number, bench_kit.TEXT)

    async def close(self) -> None:
        queue.storage.close()

    def work(self, processes: int, slots: int | None) -> None:
        queue.create_consumer(
            workers=processes * (slots or 1),
            worker_type="process",
            periodic=False,
            initial_delay=DELAY,
            max_delay=MAX_DELAY,
            graceful_signal="TERM",
        ).run()

    async def left(self) -> int | None:
        """Those that wait. What runs is in no table."""
        return int(queue.pending_count()) + int(queue.scheduled_count())


if __name__ == "__main__":
    bench_kit.main(Huey)
