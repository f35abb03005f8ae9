"""Taskiq on Redis: `kiq` and the `taskiq worker` command, with the stream broker of taskiq-redis, which
acknowledges.

It has no call that enqueues many.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import bench_kit
import uvloop
from redis.asyncio import Redis
from taskiq.serializers import ORJSONSerializer
from taskiq_redis import RedisStreamBroker

TASKS_AT_A_TIME, PREFETCH = 100, 100
broker = RedisStreamBroker(
    os.environ.get("BENCH_REDIS", "redis://127.0.0.1:6379/0"), queue_name="bench", consumer_id="0-0"
).with_serializer(ORJSONSerializer())


@broker.task("noop")
async def noop(number: int, text: str) -> None:
    bench_kit.ran(number)


@broker.task("long")
async def long(number: int, text: str) -> None:
    bench_kit.ran(number)
    await asyncio.sleep(bench_kit.LONG)
    bench_kit.ended(number)


TASKS: dict[str, Any] = {"noop": noop, "long": long}


class Taskiq(bench_kit.Peer):
    """The broker above."""

    packages = ("taskiq", "taskiq-redis", "redis", "orjson", "uvloop")
    settings = {  # noqa: RUF012
        "pages": "Guide: CLI; taskiq-redis' and redis-py's READMEs",
        "worker": f"taskiq worker --workers P --max-async-tasks {TASKS_AT_A_TIME}, the default; "
        "--no-parse: arguments are not validated again",
        "broker": "RedisStreamBroker, the one with acknowledgements; jobs are read by the hundred, the "
        "default",
        "consumer_id": "0-0: with the default, $, jobs sent before the first worker came are never read",
        "prefetch": f"--max-prefetch {PREFETCH} for short jobs, none for long ones, the default",
        "acknowledged": "when the job has run; one by one",
        "results": "no result backend",
        "history": "acknowledged jobs stay in the stream, which grows: the default",
        "serializer": "orjson, the fast one it ships",
        "parser": "hiredis, which redis-py advises for speed",
        "dead worker": "its jobs are claimed by others after 10 minutes: the default. They are looked for "
        "only after a read that brought new jobs, so never on an idle queue; a job that runs for longer "
        "is run twice. A dead process is started again at once",
        "loop": "uvloop, used where installed",
    }
    supervises = True

    async def prepare(self) -> None:
        await broker.startup()
        await broker.shutdown()

    async def open(self) -> None:
        await broker.startup()

    async def close(self) -> None:
        await broker.shutdown()

    async def send(self, number: int, kind: str) -> None:
        await TASKS[kind].kiq(number, bench_kit.TEXT)

    def work(self, processes: int, slots: int | None) -> None:
        words = ["worker", "peer:broker", "--workers", str(processes), "--no-parse", "--log-level", "WARNING"]
        words += ["--max-async-tasks", str(slots or TASKS_AT_A_TIME)]
        words += ["--max-prefetch", "0" if slots else str(PREFETCH)]
        os.execv(sys.executable, [sys.executable, "-m", "taskiq", *words])  # noqa: S606 - our own program

    async def left(self) -> int | None:
        async with Redis(connection_pool=broker.connection_pool) as redis:
            groups = await redis.xinfo_groups("bench")
        return sum(int(group["lag"] or 0) + int(group["pending"]) for group in groups)


if __name__ == "__main__":
    uvloop.install()
    bench_kit.main(Taskiq)
