"""Celery on Redis: `apply_async`, kombu's `Producer.batch` around it for many, and `celery worker` with
prefork.

A prefork process runs one job at a time, so `slots` jobs at a time are as many processes. The process that
reads Redis and hands jobs out comes on top.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import bench_kit
import celery

SHORT, LONG = 128, 1
app = celery.Celery("bench", broker=os.environ.get("BENCH_REDIS", "redis://127.0.0.1:6379/0"))
app.conf.update(
    task_default_queue="bench",
    task_ignore_result=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    broker_pool_limit=16,
    broker_connection_retry_on_startup=True,
)


@app.task(name="noop")
def noop(number: int, text: str) -> None:
    bench_kit.ran(number)


@app.task(name="long")
def long(number: int, text: str) -> None:
    bench_kit.ran(number)
    time.sleep(bench_kit.LONG)
    bench_kit.ended(number)


TASKS: dict[str, Any] = {"noop": noop, "long": long}


class Celery(bench_kit.Peer):
    """The app above."""

    packages = ("celery", "kombu", "billiard", "redis")
    settings = {  # noqa: RUF012
        "pages": "User Guide: Optimizing, Workers; redis-py's README",
        "worker": "celery worker -P prefork -c P, one job at a time in each process; for S slots P × S "
        "processes. One more process reads Redis for them",
        "prefetch": f"--prefetch-multiplier {SHORT} for short jobs and {LONG} for long ones, as its guide "
        "says",
        "acknowledged": "when the job has run: task_acks_late, with task_reject_on_worker_lost; by "
        "default it is before",
        "results": "task_ignore_result, no result backend",
        "talk": "--without-gossip --without-mingle --without-heartbeat: a worker that is alone needs none "
        "of it",
        "broker_pool_limit": "16, one connection for each client; the default is 10",
        "parser": "hiredis, which redis-py advises for speed",
        "dead worker": "a killed pool process is noticed by its parent, which puts its job back within "
        "seconds; the jobs of a killed host come back after the visibility timeout, 1 hour: the defaults",
    }
    bulk = "apply_async in a Producer.batch"
    batch = 1000
    blocking = True
    supervises = True

    async def open(self) -> None:
        with app.producer_pool.acquire(block=True) as producer:
            producer.connection.ensure_connection(max_retries=1)

    async def send(self, number: int, kind: str) -> None:
        TASKS[kind].apply_async((number, bench_kit.TEXT))

    async def send_many(self, numbers: range, kind: str) -> None:
        with app.producer_pool.acquire(block=True) as producer, producer.batch(self.batch):
            for number in numbers:
                TASKS[kind].apply_async((number, bench_kit.TEXT), producer=producer)

    def work(self, processes: int, slots: int | None) -> None:
        words = [
            "-A",
            "peer:app",
            "worker",
            "-Q",
            "bench",
            "-P",
            "prefork",
            "-c",
            str(processes * (slots or 1)),
        ]
        words += ["-n", f"bench{os.getpid()}@%h", "--prefetch-multiplier", str(LONG if slots else SHORT)]
        words += ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "WARNING"]
        os.execv(sys.executable, [sys.executable, "-m", "celery", *words])  # noqa: S606 - our own program

    async def left(self) -> int | None:
        with app.connection_for_read() as connection:
            redis = connection.default_channel.client
            return int(redis.llen("bench")) + int(redis.hlen("unacked"))


if __name__ == "__main__":
    bench_kit.main(Celery)
