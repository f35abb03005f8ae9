"""Ends children of a supervisor that do not end by themselves: those that ignore a deadline, those that take
too long to leave, those that do not move, and those that are unresponsive."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Set
from typing import Final

from windlass.cluster.member import Member
from windlass.settings import Settings
from windlass.worker.engine.unresponsive import WATCH_EVERY, UnresponsiveWatch, loop_turns, silence_limit
from windlass.worker.processes.process import Process
from windlass.worker.processes.shutdown import Shutdown
from windlass.worker.processes.standstill import STILL, Standstills

logger: Final = logging.getLogger("windlass.worker")
LEAVE_TIME: Final = 10.0
"""Seconds a child has, beyond `shutdown` and `grace`, to write down how its jobs ended. One that is still
there then is killed. A platform has to wait longer than all three before it kills the supervisor, or nobody
hands the jobs back."""


class Watchdog:
    """Watches the children that there are at any moment."""

    def __init__(
        self, children: Set[Process], member: Member, settings: Settings, shutdown: Shutdown
    ) -> None:
        self._children = children
        self._member = member
        self._settings = settings
        self._shutdown = shutdown
        self._leaving_since: dict[Process, float] = {}
        self._unresponsive: UnresponsiveWatch[Process] = UnresponsiveWatch(silence_limit(settings))
        self._standstills: Standstills[Process] = Standstills()

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await asyncio.sleep(WATCH_EVERY)
            try:
                await self._kill_the_late()
                self._replace_the_still()
                await self._replace_the_unresponsive()
            except Exception:
                logger.exception("the watchdog failed, and continues")

    async def _kill_the_late(self) -> None:
        """Kill children that ignore a deadline, or that take too long to leave."""
        grace, since = self._settings.grace, self._leaving_since
        for child in list(self._children):
            if child not in self._children:
                continue  # it ended while another was killed, and its status memory is closed
            overdue = child.status_memory.overdue(grace)
            if overdue and not child.overdue and child.can_run():
                await child.kill_for(overdue)
            if child.leaving:
                works = child.ready.is_set() and not self._shutdown.stopping_now.is_set()
                limit = grace + (self._settings.shutdown if works else 0.0)
                if time.monotonic() - since.setdefault(child, time.monotonic()) > limit + LEAVE_TIME:
                    logger.error("process %d does not exit; killing it", child.pid)
                    since[child] = math.inf  # a frozen one lives on, and once is enough
                    child.killed = True
                    child.kill()
        for child in since.keys() - self._children:
            del since[child]

    def _replace_the_still(self) -> None:
        """Kill and replace children that have not moved for a lease. What they ran is charged a death, as
        that of any worker whose lease is over [C8]: it may have stopped them."""
        limit = max(self._settings.lease, STILL) if self._settings.unresponsive else math.inf
        for child, seconds in self._standstills.seconds(self._children).items():
            child.still = seconds >= STILL or not child.can_run()
            if seconds < limit or child.given_up:
                continue
            why = f"it has not moved for {seconds:.0f} s; it is stopped, frozen, or held by a debugger"
            logger.error("worker %s, process %d, is killed and replaced: %s", child.label, child.pid, why)
            self._member.record.count("unresponsive")
            self._member.record.note("lost", f"process {child.pid} is replaced: {why}", worker=child.label)
            child.give_up(why)

    async def _replace_the_unresponsive(self) -> None:
        """Replace children that take no jobs though they could [fault 32]."""
        cut_off = not (self._member.reachable and self._member.writable)
        idle = {
            each for each in self._children if not each.ready.is_set() or each.leaving or each.unresponsive
        }
        excused = {each: cut_off or each in idle or not each.can_run() for each in self._children}
        for child in self._unresponsive.unresponsive(excused):
            if child not in self._children:
                continue
            why = self._unresponsive.why(child.status_memory)
            logger.error("worker %s, process %d, is replaced: %s. Its stacks:", child.label, child.pid, why)
            self._member.record.count("unresponsive")
            self._member.record.note("lost", f"process {child.pid} is replaced: {why}", worker=child.label)
            await child.replace(why, alive=loop_turns(child.status_memory))
