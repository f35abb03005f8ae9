"""Keeps N children at work: starts them, sends their heartbeats, replaces those that die, and sees them out.

    first SIGTERM or Ctrl-C    shut down: claim nothing more, let running jobs finish, hand the rest back
    second                     stop now: stop running jobs and hand them back, uncharged

A child that dies is noticed at once, its jobs are handed back before it is replaced, and no job waits for a
lease. One that ignores a deadline is killed. The supervisor itself runs no jobs, so nothing a handler does
can stop it; and what goes wrong with one child is no reason to give up the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import signal
from collections.abc import Mapping
from typing import Final

from windlass.cluster.member import Member
from windlass.core.retry import DeathPolicy
from windlass.errors import ConfigurationError
from windlass.running.process_group import ending, to_the_end
from windlass.settings import Settings
from windlass.store.protocol import Store
from windlass.worker.engine.label import make_label
from windlass.worker.engine.waiting import first, log_polling
from windlass.worker.processes.channel import Start
from windlass.worker.processes.child_run import RESTARTS, ChildRun
from windlass.worker.processes.fork_server import ForkServer, ForkServerGone
from windlass.worker.processes.handback import hand_back, insist
from windlass.worker.processes.process import Process
from windlass.worker.processes.shutdown import Shutdown, Stop
from windlass.worker.processes.watchdog import Watchdog

logger: Final = logging.getLogger("windlass.worker")


class Supervisor:
    """The parent of worker processes. With `reloads`, code that cannot be started may be mended."""

    def __init__(
        self,
        store: Store,
        address: str,
        settings: Settings,
        environment: Mapping[str, str],
        *,
        reloads: bool = False,
    ) -> None:
        self._store = store
        self._address = address
        self._settings = settings
        self._environment = environment
        self._reloads = reloads
        self._policy = DeathPolicy(poison=settings.poison)
        self._shutdown = Shutdown(settings.shutdown, settings.grace)
        self._changed = asyncio.Event()
        self._children: set[Process] = set()
        self._leavers: set[asyncio.Task[bool]] = set()
        self._unsettled: set[int] = set()
        """Processes that are gone, and whose jobs the store has refused to take back so far."""
        self._been_ready = False
        self._refused: str | None = None
        self._fork_server = ForkServer(address, environment, forks=settings.start == "fork")
        self.member: Final = Member(store, settings, settings.queues, workers=settings.processes)

    def readiness(self) -> tuple[bool, dict[str, object]]:
        """Return whether jobs can be run right now, and what that hangs on: the store answers, it takes what
        is written and what dead children held, a child is up and moves, and none is idle that could work."""
        up = [child for child in self._children if child.ready.is_set() and not child.still]
        reachable, stopping = self.member.reachable, self._shutdown.begun.is_set()
        settled = not self._unsettled
        unresponsive = sum(child.unresponsive for child in self._children)
        writes = "full" if any(child.status_memory.is_full for child in up) else self.member.writes
        well = reachable and writes == "done" and settled and not unresponsive
        ready = well and not stopping and not all(child.leaving for child in up)
        return ready, {
            "store": "reached" if reachable else "out of reach",
            "writes": writes,
            "hand_backs": "done" if settled else "failing",
            "processes": len(up),
            "unresponsive": unresponsive,
            "stopping": stopping,
            "coordinator": self.member.coordinator.term is not None,
        }

    async def run(self, heed_signals: bool = True) -> None:
        """Work until told to stop. Raises ConfigurationError where the app cannot be started at all."""
        if heed_signals:
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, self.stop)
        membership = asyncio.create_task(self.member.run(), name="windlass member")
        watchdog = Watchdog(self._children, self.member, self._settings, self._shutdown)
        watching = asyncio.create_task(watchdog.run(), name="windlass watchdog")
        forking = asyncio.create_task(self._fork_server.run(), name="windlass fork server")
        costing = asyncio.create_task(log_polling(self._store, self._settings.queues))
        try:
            async with asyncio.TaskGroup() as group:
                for place in range(1, self._settings.processes + 1):
                    group.create_task(self._keep(place))
        finally:
            chores = (membership, watching, forking, costing)
            for task in chores:
                task.cancel()
            await asyncio.gather(*chores, return_exceptions=True)
        if self._refused is not None:
            raise ConfigurationError(self._refused)

    def stop(self) -> None:
        """Shut down; when called again, stop now."""
        match self._shutdown.signalled():
            case Stop.FINISH:
                logger.info(
                    "stopping: running jobs have %g s to finish; stop again to hand them back now",
                    self._settings.shutdown,
                )
                self._begin_shutdown()
            case Stop.NOW:
                logger.info("stopping now: running jobs are handed back")
                for child in self._children:
                    child.stop_now()
            case Stop.REPEATED:
                logger.debug("two signals at once count as one")

    def _begin_shutdown(self) -> None:
        self._shutdown.begin()
        for child in self._children:
            child.shutdown()

    def reload(self) -> None:
        """The code has changed: replace every child, each after it has finished what it runs."""
        before, self._changed = self._changed, asyncio.Event()
        before.set()
        self._fork_server.renew()
        for child in self._children:
            child.reason = "the code has changed"
            child.shutdown()

    # -- one place in the row of children ------------------------------------------------------------------

    async def _keep(self, number: int) -> None:
        """Keep one child alive: start it, see it out, replace it. `number` is that of its place."""
        failures = 0
        replacement: Process | None = None
        while replacement is not None or not self._shutdown.begun.is_set():
            changed, run = self._changed, ChildRun(number, failures, replacement)
            running = asyncio.create_task(self._run_child(run))
            await first(running, run.follow.wait(), run.died.wait())
            replacement = await self._replacement(run, running) if run.died.is_set() else None
            if replacement is not None and changed.is_set():
                replacement.shutdown()  # it has loaded the code of before
            if not running.done():
                self._leavers.add(running)
                running.add_done_callback(self._leavers.discard)
            if run.bloated:
                logger.warning(run.advice(self._settings.max_memory))
            elif not running.done() or running.result():
                failures = 0
                continue
            failures = run.failures
            if not self._shutdown.begun.is_set():
                pause = RESTARTS.delay(failures - 1, random.random())  # the first is replaced at once
                or_else = ", or when the code has changed" if self._reloads else ""
                if pause:
                    logger.info("a new process starts in %.1f s%s", pause, or_else)
                    await first(asyncio.sleep(pause), self._shutdown.begun.wait(), changed.wait())
                    failures = 0 if changed.is_set() else failures
        if self._leavers:
            await asyncio.wait(set(self._leavers))

    async def _replacement(self, run: ChildRun, running: asyncio.Task[bool]) -> Process | None:
        """The process that takes a dead child's place, if that may be at once. It registers while the dead
        one's jobs are handed back, and is given slots after that."""
        may = run.failures == 1 and not self._shutdown.begun.is_set()
        starting = asyncio.create_task(self._try_to_start(run.number)) if may else None
        try:
            await first(running)
            return None if starting is None else await starting
        except BaseException:
            if starting is not None:
                starting.cancel()
                await to_the_end(_dismiss(starting))
            raise

    async def _run_child(self, run: ChildRun) -> bool:
        """One child from start to hand-back. True: it left in good order. What goes wrong costs this place a
        pause, and the others nothing."""
        changed, child = self._changed, run.child or await self._try_to_start(run.number)
        if child is None:
            return False
        label = child.label
        logger.debug("worker %s starts, process %d", label, child.pid)
        self._children.add(child)
        if changed.is_set():
            child.shutdown()  # it may have loaded the code of before
        try:
            code = await self._see_out(child, run, label)
            orderly = child.leaving and not child.overdue and code == 0
            self._log_end(child, label, code, orderly=orderly)
            await self._settle(child, crashed=not orderly and not child.killed)
        except Exception:
            logger.exception("worker %s, process %d, cannot be supervised; killing it", label, child.pid)
            child.kill()
            return False
        finally:
            self._children.discard(child)
            child.status_memory.close()
        return orderly

    async def _try_to_start(self, number: int) -> Process | None:
        """A child; None: it cannot be had, or is not wanted any more."""
        starting = asyncio.create_task(self._start(number))
        try:
            await first(starting, self._shutdown.begun.wait())
            return starting.result() if starting.done() else None
        except OSError as error:
            logger.error("cannot start a process: %s", error)
        except Exception:
            logger.exception("cannot start a process")
        finally:
            if not starting.done():
                starting.cancel()
                await to_the_end(_dismiss(starting))
        return None

    async def _start(self, number: int) -> Process:
        settings = self._settings
        given = f"{settings.worker_id}.{number}" if settings.worker_id else ""
        label = make_label(settings.label_prefix, settings.label_version, given)
        queues = {name: None if n is None else int(n) for name, n in settings.queues.items()}
        start = Start(self._address, label, queues)
        while True:
            with contextlib.suppress(ForkServerGone):
                return await Process.start(start, self.member, self._fork_server.fork, self._environment)

    async def _see_out(self, child: Process, run: ChildRun, label: str) -> int:
        """Hear a child until its end; the answer is its exit code."""

        def up() -> None:
            self._been_ready = True
            logger.info("worker %s is up, process %d", label, child.pid)
            for each in self._children:
                each.unresponsive &= not each.leaving  # its place is taken

        async def listen() -> None:
            try:
                await child.listen(lambda: run.recycle(child.memory), up)
            except Exception:
                logger.exception("process %d sent an invalid message; killing it", child.pid)
                child.kill()

        if self._shutdown.begun.is_set():
            child.stop_now()
        listening = asyncio.create_task(listen())
        try:
            code = await child.wait(listening)
            if not child.leaving:
                self.member.expect(self._settings.processes)
                run.died.set()
            await listening
        finally:
            self._children.discard(child)
            listening.cancel()
        return code

    def _log_end(self, child: Process, label: str, code: int, *, orderly: bool) -> None:
        """Say how it ended."""
        if child.failure is not None and not child.ready.is_set():
            logger.error("the app cannot be started: %s", child.failure)
            if not self._been_ready and not self._reloads:
                # It never ran, so that to try again would not help.
                self._refused = child.failure
                self._begin_shutdown()
        elif orderly:
            logger.info("worker %s left%s", label, f": {child.reason}" if child.reason else "")
        else:
            why = f": {child.failure}" if child.failure is not None else ""
            logger.error("worker %s, process %d, %s%s", label, child.pid, ending(code), why)
            self.member.record.lost(label, f"process {child.pid} {ending(code)}")

    async def _settle(self, child: Process, *, crashed: bool) -> None:
        """Hand its jobs back, however long the store takes to answer."""
        left = set(child.workers)

        async def step() -> None:
            for worker in list(left):
                await hand_back(
                    self._store,
                    worker,
                    child.status_memory.running(),
                    child.overdue,
                    crashed=crashed,
                    policy=self._policy,
                    backoff=self.member.backoff,
                    record=self.member.record,
                )
                left.discard(worker)

        try:
            handed = await insist(step, self._shutdown, lambda: self._unsettled.add(child.pid))
        finally:
            self._unsettled.discard(child.pid)
        if not handed:
            logger.warning(
                "jobs of process %d could not be handed back; they run elsewhere when its lease of "
                "%g s expires",
                child.pid,
                self._settings.lease,
            )


async def _dismiss(starting: asyncio.Task[Process] | asyncio.Task[Process | None]) -> None:
    """End what was started and is not wanted any more."""
    await asyncio.wait([starting])
    if not starting.cancelled() and starting.exception() is None and (child := starting.result()) is not None:
        await child.dismiss()
