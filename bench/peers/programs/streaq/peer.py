"""streaQ on Redis: `enqueue`, `enqueue_many` and a `Worker`'s `run_sync` in each process.

Its `streaq run --workers P` starts the further processes itself, but does not pass SIGTERM on to them; so
there is one program for each process here.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

import bench_kit
import uvloop
from streaq import Worker

CONCURRENCY = 32


def make_worker(concurrency: int) -> Worker[Any]:
    worker: Worker[Any] = Worker(
        redis_url=os.environ.get("BENCH_REDIS", "redis://127.0.0.1:6379/0"),
        queue_name="bench",
        concurrency=concurrency,
        anyio_kwargs={"use_uvloop": True},
    )

    @worker.task(name="noop", ttl=0, silent=True)
    async def noop(number: int, text: str) -> None:
        bench_kit.ran(number)

    @worker.task(name="long", ttl=0, silent=True)
    async def long(number: int, text: str) -> None:
        bench_kit.ran(number)
        await asyncio.sleep(bench_kit.LONG)
        bench_kit.ended(number)

    return worker


class Streaq(bench_kit.Peer):
    """A worker made for each use."""

    packages = ("streaq", "coredis", "anyio", "uvloop")
    settings = {  # noqa: RUF012
        "pages": "Workers; benchmarks/README.md",
        "worker": f"concurrency {CONCURRENCY}, as in its own benchmarks (the default is 16), and as many "
        "prefetched",
        "results": "ttl=0: they are not stored",
        "log": "silent=True: no lines for each job",
        "serializer": "pickle: the default",
        "tries": "3, the default: a job that has lost its worker so often is given up",
        "dead worker": "its jobs, running and prefetched, are claimed by others after 60 s: the default. "
        "An idle worker looks for them once in 60 s on this version of Redis, so up to 2 minutes in all. "
        "A dead process is not started again",
        "loop": "uvloop, as in its own benchmarks",
    }
    bulk = "enqueue_many"
    batch = 1000
    _worker: Worker[Any]

    async def open(self) -> None:
        self._worker = make_worker(CONCURRENCY)
        await self._worker.__aenter__()

    async def close(self) -> None:
        await self._worker.__aexit__(None, None, None)

    async def send(self, number: int, kind: str) -> None:
        await self._worker.registry[kind].enqueue(number, bench_kit.TEXT)

    async def send_many(self, numbers: range, kind: str) -> None:
        task = self._worker.registry[kind]
        await self._worker.enqueue_many([task.enqueue(number, bench_kit.TEXT) for number in numbers])

    def work(self, processes: int, slots: int | None) -> None:
        logging.getLogger("streaq").setLevel(logging.WARNING)
        make_worker(slots or CONCURRENCY).run_sync()

    async def left(self) -> int | None:
        return await self._worker.queue_size()


if __name__ == "__main__":
    uvloop.install()
    bench_kit.main(Streaq)
