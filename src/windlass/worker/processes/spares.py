"""Processes that wait to take a place in the row: the app is loaded, the store is open, and nothing runs.

To start an interpreter and to import an app takes a good part of a second, and longer where the app is big.
What a dead child ran would wait for that; a spare has it behind it, and takes the place in milliseconds. It
has no identity in the store and runs no hooks before it is called, so it holds nothing that is worth handing
back, and to end one costs nobody anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from windlass.errors import WindlassError
from windlass.running.groups import to_the_end
from windlass.store.protocol import Store
from windlass.worker.engine.waiting import first
from windlass.worker.processes.child_run import RESTARTS, ChildRun
from windlass.worker.processes.process import Process

logger: Final = logging.getLogger("windlass.worker")
AFTER: Final = 1.0
"""Seconds after the last death before a spare is started: what the dead one ran has the processor first."""

WARM_UPS: Final = 3
NOBODY: Final = 0
"""The identity of nobody: it holds nothing, and what is claimed in its name is not given out."""


async def warm_up(store: Store, queues: Sequence[str] = ()) -> None:
    """Do what a hand-back begins with, and a claim up to where jobs are given out, so that connections are
    made and statements planned when it matters: the first of each costs the server ten times as much as the
    second. Where there is nothing to claim yet, wait until there may be."""
    with contextlib.suppress(WindlassError):  # WorkerLost: there was something, and that was all of it
        await store.unfinished(NOBODY)
        for _ in range(WARM_UPS):
            await store.claim(NOBODY, queues, 1)
            if not queues:
                return
            while not await store.wait(queues, 60.0):
                pass


class Spares:
    """So many processes that wait. `start` starts one, which says `Waiting` when it is loaded."""

    def __init__(self, wanted: int, start: Callable[[], Awaitable[Process]]) -> None:
        self._wanted = wanted
        self._start = start
        self._idle: dict[Process, asyncio.Event] = {}
        self._renewed = asyncio.Event()
        self._due = asyncio.Event()

    def proceed(self) -> None:
        """Every place in the row is taken, so that to start a spare is in nobody's way."""
        self._due.set()

    def hold(self) -> None:
        """A child has died: what it ran comes first."""
        self._due.clear()

    def take(self) -> Process | None:
        """One that waits, if there is one. It goes to work, and another one is started in its turn."""
        for child, taken in list(self._idle.items()):
            del self._idle[child]
            if child.can_run():
                taken.set()
                self._due.clear()
                child.go()
                return child
            child.kill()  # it was stopped, and nobody knows for how long
        return None

    def renew(self) -> None:
        """The code has changed: those that have loaded it before are of no use."""
        before, self._renewed = self._renewed, asyncio.Event()
        before.set()
        self._idle.clear()

    async def run(self) -> None:
        """Keep them, until cancelled; then those that wait are ended."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._wanted):
                group.create_task(self._keep())

    async def _keep(self) -> None:
        """One spare after another. One that cannot be had is not missed before it is needed."""
        failures = 0
        while True:
            await self._due.wait()
            await asyncio.sleep(AFTER)
            if not self._due.is_set():
                continue
            run = ChildRun(failures)
            try:
                await self._one()
            except Exception as error:  # noqa: BLE001 - OSError, or what a child says makes no sense
                failures = run.failures
                logger.warning("no spare process is available: %s", error)
                await asyncio.sleep(RESTARTS.delay(failures - 1, random.random()))
            else:
                failures = 0

    async def _one(self) -> None:
        """Start one, and see to it until it is taken, or of no use any more. Raises what went wrong."""
        renewed, child, taken = self._renewed, await self._start(), asyncio.Event()
        loading = asyncio.create_task(child.loaded())
        try:
            await first(loading, renewed.wait())
            if renewed.is_set():
                return
            if not loading.result():
                raise RuntimeError(child.failure or f"process {child.pid} ended while it was loaded")
            self._idle[child] = taken
            logger.info("spare process %d is ready", child.pid)
            await first(child.exited(), taken.wait(), renewed.wait())
            if not taken.is_set() and not renewed.is_set():
                raise RuntimeError(f"process {child.pid} ended while it waited")
        finally:
            loading.cancel()
            if not taken.is_set():
                self._idle.pop(child, None)
                await to_the_end(child.dismiss())
