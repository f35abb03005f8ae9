"""Keeps N children at work: starts them, beats for them, replaces those that die, and sees them out.

    first SIGTERM or Ctrl-C    drain: claim nothing more, let running jobs finish, hand the rest back
    second                     release: stop running jobs and hand them back, uncharged

A child that dies is noticed at once, its jobs are handed back before it is replaced, and nobody waits for a
lease. One that ignores a deadline is killed. The supervisor itself runs no jobs, so nothing a handler does
can stop it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import time
from collections.abc import Callable, Mapping
from typing import Final

from windlass.cluster.member import Member
from windlass.core.retry import Backoff, DeathPolicy
from windlass.errors import ConfigurationError, StoreError
from windlass.settings import Settings
from windlass.store.protocol import Store
from windlass.worker.channel import Start
from windlass.worker.engine import RECONNECT
from windlass.worker.handback import hand_back
from windlass.worker.label import make_label
from windlass.worker.process import Process
from windlass.worker.waiting import first

logger = logging.getLogger("windlass.worker")
RESTARTS: Final = Backoff(0.5, 30.0)
HEALTHY: Final = 60.0
"""A child that lived for so many seconds may be replaced at once."""

WATCH_EVERY: Final = 0.5


class Supervisor:
    """The parent of worker processes."""

    def __init__(
        self,
        store: Store,
        address: str,
        settings: Settings,
        environment: Mapping[str, str],
    ) -> None:
        self._store = store
        self._address = address
        self._settings = settings
        self._environment = environment
        self._grace = settings.grace
        self._policy = DeathPolicy(poison=settings.poison)
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()
        self._children: set[Process] = set()
        self._leavers: set[asyncio.Task[bool]] = set()
        self._been_ready = False
        self._refused: str | None = None
        self.member = Member(store, settings, settings.queues)

    def readiness(self) -> tuple[bool, dict[str, object]]:
        """Whether jobs can be run right now, and what that hangs on: the store answers and a child is up."""
        up = sum(child.ready.is_set() and not child.leaving for child in self._children)
        ready = up > 0 and self.member.reached and not self._stopping.is_set()
        return ready, {
            "store": "reached" if self.member.reached else "out of reach",
            "processes": up,
            "stopping": self._stopping.is_set(),
            "coordinator": self.member.coordinator.term is not None,
        }

    async def run(self, heed_signals: bool = True) -> None:
        """Work until told to stop. Raises ConfigurationError where the app cannot be started at all."""
        if heed_signals:
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, self.stop)
        membership = asyncio.create_task(self.member.run(), name="windlass member")
        watching = asyncio.create_task(self._watch(), name="windlass watch")
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._settings.processes):
                    group.create_task(self._keep())
        finally:
            for task in (membership, watching):
                task.cancel()
            await asyncio.gather(membership, watching, return_exceptions=True)
        if self._refused is not None:
            raise ConfigurationError(self._refused)

    def stop(self) -> None:
        """Drain; when called again, release."""
        if not self._stopping.is_set():
            logger.info(
                "stopping: running jobs have %g s to finish; stop again to hand them back now",
                self._settings.shutdown,
            )
            self._stopping.set()
            for child in self._children:
                child.drain()
        else:
            logger.info("stopping now: running jobs are handed back")
            self._hurrying.set()
            for child in self._children:
                child.release()

    def reload(self) -> None:
        """The code has changed: replace every child, each after it has finished what it runs."""
        for child in self._children:
            child.reason = "the code has changed"
            child.drain()

    # -- one place in the row of children ------------------------------------------------------------------

    async def _keep(self) -> None:
        """Keep one child alive: start it, see it out, replace it."""
        failures = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            follow = asyncio.Event()
            living = asyncio.create_task(self._live(follow.set))
            await first(living, follow.wait())
            if not living.done():
                # It leaves in its own time, and its successor need not wait for that.
                self._leavers.add(living)
                living.add_done_callback(self._leavers.discard)
                continue
            if living.result():
                failures = 0
                continue
            failures = 1 if time.monotonic() - began >= HEALTHY else failures + 1
            if not self._stopping.is_set():
                pause = RESTARTS.delay(failures, random.random())
                logger.info("a new process starts in %.1f s", pause)
                await first(asyncio.sleep(pause), self._stopping.wait())
        if self._leavers:
            await asyncio.wait(set(self._leavers))

    async def _live(self, recycle: Callable[[], None]) -> bool:
        """One child from start to hand-back. True: it left in good order."""
        settings = self._settings
        label = make_label(settings.label_prefix, settings.label_version)
        start = Start(self._address, label, settings.queues)
        child = await Process.start(start, self.member, self._environment)
        self._children.add(child)
        if self._stopping.is_set():
            child.release()
        listening = asyncio.create_task(child.listen(recycle))
        logger.info("worker %s started, process %d", label, child.pid)
        try:
            code = await child.wait(listening)
            await listening
        finally:
            self._children.discard(child)
            listening.cancel()
        self._been_ready = self._been_ready or child.ready.is_set()
        orderly = child.leaving and not child.overdue and code == 0
        if child.failure is not None and not child.ready.is_set():
            self._refuse(child.failure)
        elif orderly:
            logger.info("worker %s left%s", label, f": {child.reason}" if child.reason else "")
        else:
            why = f": {child.failure}" if child.failure is not None else ""
            logger.error("worker %s, process %d, %s%s", label, child.pid, _ending(code), why)
        await self._settle(child, crashed=not orderly and not child.killed)
        child.board.close()
        return orderly

    def _refuse(self, reason: str) -> None:
        """The app itself cannot start: to try again would not help, unless it has run before."""
        logger.error("the app cannot be started: %s", reason)
        if not self._been_ready:
            self._refused = reason
            self._stopping.set()

    async def _settle(self, child: Process, *, crashed: bool) -> None:
        """Hand its jobs back, however long the store takes to answer."""
        failures = 0
        for worker in child.workers:
            while not self._hurrying.is_set() or not failures:
                try:
                    await hand_back(
                        self._store,
                        worker,
                        child.board.running(),
                        child.overdue,
                        crashed=crashed,
                        policy=self._policy,
                    )
                    break
                except StoreError as error:
                    failures += 1
                    pause = RECONNECT.delay(failures, random.random())
                    logger.warning("cannot hand jobs back, next try in %.1f s: %s", pause, error)
                    await asyncio.sleep(pause)

    async def _watch(self) -> None:
        """Kill children that ignore a deadline, or that take too long to leave."""
        late: dict[Process, float] = {}
        while True:
            await asyncio.sleep(WATCH_EVERY)
            for child in list(self._children):
                overdue = child.board.overdue(self._grace)
                if overdue and not child.overdue and child.breathes():
                    await child.kill_for(overdue)
                if child.leaving:
                    limit = self._grace + (0.0 if self._hurrying.is_set() else self._settings.shutdown)
                    if time.monotonic() - late.setdefault(child, time.monotonic()) > limit + 10.0:
                        logger.error("process %d does not leave; killing it", child.pid)
                        child.killed = True
                        child.kill()
            late = {child: since for child, since in late.items() if child in self._children}


def _ending(code: int) -> str:
    if code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"ended with exit code {code}"
