"""Finds workers that are unresponsive: alive, and taking no jobs though they could [fault 32]. One that is
busy, or full, or cut off like everybody else, is not unresponsive.

A worker notes in its status memory when the store last answered a claim, whatever the answer was: jobs,
none, paused, no tokens. One that has room asks at least six times in a lease. So silence means that it is
stuck: in its listener, in its connections, or its loop is. Nothing is asked of the store for this, and
whatever keeps jobs waiting there for a good reason can raise no false alarm.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from windlass.cluster.member import Member
from windlass.settings import Settings
from windlass.worker.reports.status_memory import StatusMemory

logger: Final = logging.getLogger("windlass.worker")
BLOCKED: Final = 2.0
"""Seconds without a tick after which a loop is blocked."""

AWAY: Final = 5.0
"""Seconds between two looks after which the watcher itself must have been stopped."""

WATCH_EVERY: Final = 0.5


class Watched(Protocol):
    """A worker that is watched."""

    @property
    def status_memory(self) -> StatusMemory:
        """Return the status memory in which it notes its runs."""


W = TypeVar("W", bound=Watched)


class UnresponsiveWatch(Generic[W]):
    """Since when each worker has had no answer. After `limit` seconds it is unresponsive; 0: never."""

    def __init__(self, limit: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self._clock = clock
        self._since: dict[W, float] = {}
        self._looked_at = clock()

    def unresponsive(self, workers: dict[W, bool]) -> list[W]:
        """Return the workers that are unresponsive. `workers` are all there are, each with whether it has an
        excuse: it is not at work yet, or no longer, or the store answers no other worker either."""
        now = self._clock()
        away, self._looked_at = now - self._looked_at > AWAY, now
        self._since = {
            worker: now if away or excused or _held(worker, now) else self._since.get(worker, now)
            for worker, excused in workers.items()
        }
        return [worker for worker, since in self._since.items() if self.limit and self._silent(worker, since)]

    def why(self, status_memory: StatusMemory) -> str:
        """Why a worker counts as unresponsive, for the log."""
        what = "got no answer to its claims" if loop_turns(status_memory) else "had a blocked loop"
        return f"it {what} for {self.limit:g} s, though it has room and the store answers here"

    def _silent(self, worker: W, since: float) -> bool:
        """Silent, or its loop stands still though nothing runs there."""
        last = min(worker.status_memory.answered_at, worker.status_memory.ticked_at)
        return self._clock() - max(last, since) > self.limit


class EmbeddedWatch:
    """Watches a worker inside another program, which has no supervisor, from the loop of its member: that
    runs in a thread of its own. An unresponsive worker is logged and counted; it cannot be replaced."""

    def __init__(self, status_memory: StatusMemory, member: Member, limit: float) -> None:
        self.status_memory = status_memory
        self.unresponsive: bool = False
        """True if it takes no jobs though it could."""
        self._member = member
        self._watch: UnresponsiveWatch[EmbeddedWatch] = UnresponsiveWatch(limit)

    async def run(self, at_work: Callable[[], bool], warn: Callable[[str], None]) -> None:
        """Look until cancelled. `at_work` says whether it has begun and was not told to stop; `warn` is
        called once with the reason when it is unresponsive."""
        while True:
            await asyncio.sleep(WATCH_EVERY)
            try:
                self._look(at_work(), warn)
            except Exception:
                logger.exception("the check of a worker failed, and continues")

    def _look(self, at_work: bool, warn: Callable[[str], None]) -> None:
        excused = not (at_work and self._member.reachable and self._member.writable)
        before, self.unresponsive = self.unresponsive, bool(self._watch.unresponsive({self: excused}))
        if self.unresponsive and not before:
            self._member.record.count("unresponsive")
            warn(self._watch.why(self.status_memory))
        elif before and not self.unresponsive and not excused:
            logger.info("a worker that took no jobs claims again")


def silence_limit(settings: Settings) -> float:
    """Seconds of silence after which a worker is unresponsive; 0: never."""
    return max(settings.unresponsive, settings.lease) if settings.unresponsive else 0.0


def loop_turns(status_memory: StatusMemory) -> bool:
    """Return whether a worker's loop turns."""
    return time.monotonic() - status_memory.ticked_at < BLOCKED


def _held(worker: Watched, now: float) -> bool:
    """Return whether a handler keeps its loop from turning: that is work, and its deadline ends it [C6]."""
    memory = worker.status_memory
    return now - memory.ticked_at > BLOCKED and bool(memory.running())
