"""Windlass on PostgreSQL, or on a SQLite file: `enqueue`, `enqueue_many` and `windlass worker`. Its handlers
are coroutines; those of the subject `windlass_threads` are plain functions, which run in threads."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

import bench_kit

from windlass import Context, Windlass

DATABASE = os.environ.get("BENCH_DSN") or f"sqlite:///{os.environ.get('BENCH_FILE', 'windlass.db')}"
app = Windlass(DATABASE)
SLOTS = 64


if os.environ.get("BENCH_SUBJECT") == "windlass_threads":

    @app.task(queue="bench", name="noop")
    def noop(number: int, text: str) -> None:
        bench_kit.ran(number)

else:

    @app.task(queue="bench", name="noop")
    async def noop(number: int, text: str) -> None:
        bench_kit.ran(number)


@app.task(queue="bench", name="long")
async def long(number: int, text: str) -> None:
    bench_kit.ran(number)
    await asyncio.sleep(bench_kit.LONG)
    bench_kit.ended(number)


async def limited(number: int, text: str, key: str) -> None:
    bench_kit.ran(number)


app.budget("plenty", rate=10**9, burst=10**9)
app.budget("plenty_by_key", rate=10**9, burst=10**9, key="key")
LIMITED = {
    "keyed": app.task(queue="bench", name="keyed", concurrency_key="key")(limited),
    "ordered": app.task(queue="bench", name="ordered", ordering_key="key")(limited),
    "fair": app.task(queue="bench", name="fair", fair_key="key")(limited),
    "task_limit": app.task(queue="bench", name="task_limit", concurrency=1000)(limited),
    "budget": app.task(queue="bench", name="budget", budgets=["plenty"])(limited),
    "budget_by_key": app.task(queue="bench", name="budget_by_key", budgets=["plenty_by_key"])(limited),
}
LIMITED |= {"chain": LIMITED["keyed"], "key_each": LIMITED["keyed"]}


async def one(number: int) -> int:
    bench_kit.ran(number)
    return 1


@app.task(queue="bench", name="steps")
async def steps(ctx: Context, number: int, text: str) -> None:
    for _ in range(bench_kit.STEPS["steps"]):
        await ctx.step("one", one, number)


@app.task(queue="bench", name="long_steps")
async def long_steps(ctx: Context, number: int, text: str) -> None:
    for _ in range(bench_kit.STEPS["long_steps"]):
        await ctx.step("one", one, number)


async def begun(number: int) -> None:
    bench_kit.ran(number)


@app.task(queue="bench", name="waiting")
async def waiting(ctx: Context, number: int, text: str) -> None:
    await ctx.step("begun", begun, number)
    await ctx.wait("go")
    bench_kit.ended(number)


TASKS: dict[str, Any] = {
    "noop": noop,
    "long": long,
    **LIMITED,
    "steps": steps,
    "long_steps": long_steps,
    "waiting": waiting,
}


def arguments(number: int, kind: str) -> tuple[Any, ...]:
    key = (bench_kit.key_of(number, kind),) if kind in LIMITED else ()
    return number, bench_kit.TEXT, *key


class WindlassPeer(bench_kit.Peer):
    """The app above."""

    packages = ("windlass", "asyncpg", "apsw", "uvloop")
    settings = {  # noqa: RUF012
        "pages": "docs/guides/workers.md",
        "worker": "windlass worker -q bench=64 -p P, 64 slots a process; all else as it comes",
        "dead worker": "a child's jobs are handed back by its supervisor, a host's after the lease of 30 s",
        "SQLite": "WAL and synchronous=FULL: an enqueued job survives a power cut. The default",
        "signals": "asignal of one app as it comes: up to 10 connections, the default; those that are "
        "sent while a call is under way share the next one. The workflow is no longer in memory",
        "loop": "uvloop, used where installed",
    }
    bulk = "enqueue_many"
    batch = 5000
    keyed = "the task's concurrency_key; one at a time is the default"
    supervises = True
    _waiting: dict[int, int] = {}  # noqa: RUF012

    async def prepare(self) -> None:
        await app.amigrate()

    async def open(self) -> None:
        await app.__aenter__()

    async def close(self) -> None:
        await app.aclose()

    async def send(self, number: int, kind: str) -> None:
        job = await TASKS[kind].aenqueue(*arguments(number, kind))
        if kind == "waiting":
            self._waiting[number] = job.id

    async def send_many(self, numbers: range, kind: str) -> None:
        await TASKS[kind].aenqueue_many([arguments(number, kind) for number in numbers])

    async def signal(self, number: int) -> None:
        await app.asignal(self._waiting[number], "go", None)

    def work(self, processes: int, slots: int | None) -> None:
        # Slots are the cluster's, split over its live workers.
        queue = f"bench={(slots or SLOTS) * processes * int(os.environ.get('BENCH_HOSTS', '1'))}"
        words = ["worker", "peer:app", "-q", queue, "-p", str(processes), "--log-level", "warning"]
        os.execv(sys.executable, [sys.executable, "-m", "windlass", *words])  # noqa: S606 - our own program

    async def left(self) -> int | None:
        words = [sys.executable, "-m", "windlass", "queues", "--json", "--database", DATABASE]
        shown = subprocess.run(words, capture_output=True, check=True)  # noqa: ASYNC221 - nothing else runs here
        return sum(queue["ready"] + queue["running"] for queue in json.loads(shown.stdout)["queues"])


if __name__ == "__main__":
    bench_kit.main(WindlassPeer)
