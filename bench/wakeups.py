"""How long an idle worker takes to begin a job, for each way in which it can be woken.

The worker is an `app.worker()` in this process. "Same process" is an enqueue of its own app; "another
process" is one of a program that enqueues on request. Of what is due at a time, the delay is counted from
then. Each job comes at another moment of a pause, when nothing else goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final

from bench.servers import POSTGRESQL, SQLITE, Servers, fresh_file
from windlass import Context, Retry, Windlass
from windlass.store.postgres.connections.listener import Listener

SILENT: Final = "PostgreSQL, NOTIFY silent"
WAY: Final = "1s"
QUIET: Final = (0.6, 1.2)
"""Seconds between two jobs: longer than a pause between polls, and never the same part of one."""
PRODUCER: Final = """
import sys, time
from windlass import Windlass
app = Windlass()
for line in sys.stdin:
    app.named("wake.note").using(queue="wake").enqueue(time.time())
    print("sent", flush=True)
"""
Lateness = dict[str, list[float]]


class Wakeups:
    """A worker with nothing to do, and what its jobs say of how late they began."""

    def __init__(self, url: str) -> None:
        self.app = Windlass(url)
        self._url = url
        self._late: asyncio.Queue[float] = asyncio.Queue()
        self._ended = 0.0

        @self.app.task(name="wake.note", queue="wake")
        async def note(due: float) -> None:
            self._late.put_nowait(time.time() - due)

        @self.app.task(name="wake.first", queue="wake")
        async def first() -> None:
            self._ended = time.time()

        @self.app.task(name="wake.second", queue="wake")
        async def second() -> None:
            self._late.put_nowait(time.time() - self._ended)

        @self.app.task(name="wake.again", queue="wake")
        async def again(ctx: Context) -> None:
            if ctx.attempt == 1:
                self._ended = time.time()
                raise Retry(after=WAY)
            self._late.put_nowait(time.time() - self._ended - 1.0)

        @self.app.schedule("* * * * *")
        @self.app.task(name="wake.minute", queue="wake")
        async def minute() -> None:
            self._late.put_nowait(time.time() % 60.0)

        self._note, self._first, self._second, self._again = note, first, second, again

    async def measure(self, rounds: int, schedules: int) -> Lateness:
        """Every way so many times; each minute of `schedules` takes a minute."""
        async with self.app.worker(["wake"]):
            with self._producer() as send:
                ways: dict[str, Callable[[], Awaitable[None]]] = {
                    "same process": self._here,
                    "another process": send,
                    "scheduled, or with a delay": self._delayed,
                    "after another job": self._after,
                    "retry": self._retried,
                }
                late: Lateness = {}
                for way, call in ways.items():
                    await self._one(call)  # connections and plans are made once
                    late[way] = [await self._one(call) for _ in range(rounds)]
            if schedules:
                late["schedule"] = [await self._late.get() for _ in range(schedules)]
        return late

    async def _one(self, call: Callable[[], Awaitable[None]]) -> float:
        while True:
            await asyncio.sleep(random.uniform(*QUIET))
            while not self._late.empty():  # a minute may have turned meanwhile
                self._late.get_nowait()
            turn = time.time() // 60
            await call()
            late = await self._late.get()
            if time.time() // 60 == turn:
                return late

    async def _here(self) -> None:
        await self._note.aenqueue(time.time())

    async def _delayed(self) -> None:
        await self._note.using(delay=WAY).aenqueue(time.time() + 1.0)

    async def _after(self) -> None:
        before = await self._first.using(delay="300ms").aenqueue()
        await self._second.using(after=[before]).aenqueue()

    async def _retried(self) -> None:
        await self._again.aenqueue()

    @contextlib.contextmanager
    def _producer(self) -> Iterator[Callable[[], Awaitable[None]]]:
        environment = {**os.environ, "WINDLASS_DATABASE_URL": self._url}
        command = [sys.executable, "-c", PRODUCER]
        with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, bufsize=1, env=environment) as program:
            assert program.stdin is not None
            assert program.stdout is not None
            stdin, stdout = program.stdin, program.stdout

            async def send() -> None:
                stdin.write("\n")
                await asyncio.to_thread(stdout.readline)

            yield send
            stdin.close()


@contextlib.asynccontextmanager
async def _migrated(url: str) -> AsyncIterator[Wakeups]:
    wakeups = Wakeups(url)
    await wakeups.app.amigrate()
    yield wakeups


def measure(places: list[str], servers: Servers | None, rounds: int, schedules: int) -> dict[str, Lateness]:
    """How late jobs began, in seconds, by place and way."""

    async def run(url: str) -> Lateness:
        async with _migrated(url) as wakeups:
            return await wakeups.measure(rounds, schedules)

    found: dict[str, Lateness] = {}
    for place in places:
        where = fresh_file() if place == SQLITE or servers is None else servers.fresh(POSTGRESQL)
        with where as store, _unheard() if place == SILENT else contextlib.nullcontext():
            found[place] = asyncio.run(run(store.url))
    return found


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """Notifications reach nobody, as behind a proxy that drops them: the listener's self-test fails."""
    on_notify = Listener._on_notify
    Listener._on_notify = lambda *_: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        Listener._on_notify = on_notify  # type: ignore[method-assign]


def lines(found: dict[str, Lateness]) -> Iterator[str]:
    """A table in Markdown: median and longest, in milliseconds."""
    places = list(found)
    yield f"| began late by, ms: median (longest) | {' | '.join(places)} |"
    yield "|---" * (len(places) + 1) + "|"
    for way in next(iter(found.values())):
        times = [late[way] for late in found.values()]
        cells = [f"{statistics.median(each) * 1e3:.0f} ({max(each) * 1e3:.0f})" for each in times]
        yield f"| {way} | {' | '.join(cells)} |"
