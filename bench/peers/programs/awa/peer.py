"""Awa on PostgreSQL: `insert`, `enqueue_many_copy` and `start` of the Python client of its Rust engine."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass
from typing import Any

import awa
import bench_kit
import uvloop

WORKERS, CONNECTIONS, ATTEMPTS = 128, 24, 5


@dataclass
class Noop:
    """A job's class gives it its kind."""

    number: int
    text: str


@dataclass
class Long:
    """The same for long ones."""

    number: int
    text: str


async def noop(job: Any) -> None:
    bench_kit.ran(job.args.number)


async def long(job: Any) -> None:
    bench_kit.ran(job.args.number)
    await asyncio.sleep(bench_kit.LONG)
    bench_kit.ended(job.args.number)


KINDS: dict[str, Any] = {"noop": Noop, "long": Long}


class Awa(bench_kit.Peer):
    """One client a process."""

    packages = ("awa-pg", "uvloop")
    settings = {  # noqa: RUF012
        "pages": "docs/configuration.md, docs/deployment.md, ADR 025",
        "worker": f"max_workers {WORKERS} on one queue; the engine batches claims and ends by itself",
        "store": "queue storage, the engine of 0.6, from the start; slots and rotation as they come. "
        "enqueue_shards 1, the default: with more, jobs lose their order, and clients that begin at once "
        "failed with a unique conflict",
        "pool": f"up to {CONNECTIONS} connections; its guide asks for 4 a queue and 20 more",
        "wake-up": "LISTEN/NOTIFY, and a poll every 200 ms: the defaults",
        "dead worker": "beats every 30 s, looked at every 30 s, rescued once 90 s old: up to 2 minutes. "
        "An attempt may last 5 minutes. All are the defaults",
        "retries": f"{ATTEMPTS} attempts",
        "PostgreSQL restarts": "the worker lives on",
        "loop": "uvloop",
    }
    bulk = "enqueue_many_copy"
    batch = 5000
    _client: awa.AsyncClient

    async def prepare(self) -> None:
        await self.open()
        await self._client.migrate()
        await (
            self._client.install_queue_storage()
        )  # migrations alone leave the old engine on until a worker starts
        await self.close()

    async def open(self) -> None:
        self._client = awa.AsyncClient(os.environ["BENCH_DSN"], max_connections=CONNECTIONS)

    async def close(self) -> None:
        await self._client.close()

    async def send(self, number: int, kind: str) -> None:
        await self._client.insert(KINDS[kind](number, bench_kit.TEXT), queue="bench", max_attempts=ATTEMPTS)

    async def send_many(self, numbers: range, kind: str) -> None:
        jobs = [KINDS[kind](number, bench_kit.TEXT) for number in numbers]
        await self._client.enqueue_many_copy(jobs, queue="bench", max_attempts=ATTEMPTS)

    def work(self, processes: int, slots: int | None) -> None:
        asyncio.run(self._serve(slots or WORKERS))

    async def _serve(self, slots: int) -> None:
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        await self.open()
        self._client.task(Noop, queue="bench")(noop)
        self._client.task(Long, queue="bench")(long)
        await self._client.start([("bench", slots)])
        await stopped.wait()
        await self._client.shutdown(timeout_ms=30_000)
        await self.close()

    async def left(self) -> int | None:
        queues = await self._client.queue_stats()
        return sum(
            queue.scheduled + queue.available + queue.retryable + queue.running + queue.waiting_external
            for queue in queues
        )


if __name__ == "__main__":
    uvloop.install()
    bench_kit.main(Awa)
