"""RQ on Redis: `Queue.enqueue`, `Queue.enqueue_many` and the worker pool of `rq worker-pool`.

An RQ worker runs one job at a time, so `slots` jobs at a time are as many workers.
"""

from __future__ import annotations

import os
import time

import bench_kit
from redis import Redis
from rq import Queue, Retry, SimpleWorker, Worker
from rq.intermediate_queue import IntermediateQueue
from rq.worker_pool import WorkerPool

RETRIES = 3
redis = Redis.from_url(os.environ.get("BENCH_REDIS", "redis://127.0.0.1:6379/0"))
queue = Queue("bench", connection=redis)


def noop(number: int, text: str) -> None:
    bench_kit.ran(number)


def long(number: int, text: str) -> None:
    bench_kit.ran(number)
    time.sleep(bench_kit.LONG)
    bench_kit.ended(number)


class RQ(bench_kit.Peer):
    """The queue above."""

    packages = ("rq", "redis")
    settings = {  # noqa: RUF012
        "pages": "Notes on Performance, Workers; redis-py's README",
        "worker": "rq worker-pool with P workers, one job at a time in each; for S slots P × S workers",
        "class": "SimpleWorker for short jobs: it does not fork for each, which its notes on performance "
        "advise for jobs of milliseconds; Worker for long ones, the default, which forks",
        "parser": "hiredis, which redis-py advises for speed",
        "results": "result_ttl=0: a job is deleted when it has ended well",
        "description": "the task's name; by default one is made of the arguments",
        "retries": f"Retry(max={RETRIES}): without it a job whose worker died is marked as failed and not "
        "run again",
        "dead worker": "a killed child is noticed by its Worker and the job runs again at once. A killed "
        "worker is replaced by the pool within seconds, its job comes back after 90 s (with SimpleWorker "
        "4 minutes) without a heartbeat, when a worker next does its maintenance, every 10 minutes and at "
        "its start: the defaults",
    }
    bulk = "enqueue_many"
    batch = 1000
    blocking = True
    supervises = True

    async def open(self) -> None:
        redis.ping()

    async def close(self) -> None:
        redis.close()

    async def send(self, number: int, kind: str) -> None:
        arguments = (number, bench_kit.TEXT)
        queue.enqueue(
            f"peer.{kind}", args=arguments, result_ttl=0, retry=Retry(max=RETRIES), description=kind
        )

    async def send_many(self, numbers: range, kind: str) -> None:
        retry = Retry(max=RETRIES)
        queue.enqueue_many(
            Queue.prepare_data(
                f"peer.{kind}", (number, bench_kit.TEXT), result_ttl=0, retry=retry, description=kind
            )
            for number in numbers
        )

    def work(self, processes: int, slots: int | None) -> None:
        workers = processes * (slots or 1)
        pool = WorkerPool(
            ["bench"], redis, num_workers=workers, worker_class=Worker if slots else SimpleWorker
        )
        pool.start(logging_level="WARNING")

    async def left(self) -> int | None:
        taken = set(IntermediateQueue(queue.key, redis).get_job_ids())
        taken.update(queue.started_job_registry.get_job_ids(cleanup=False))
        return int(queue.count) + len(taken)


if __name__ == "__main__":
    bench_kit.main(RQ)
