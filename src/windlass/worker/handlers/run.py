"""One job in a slot, why it was told to stop, and the one timer that watches every deadline.

A timer for each job would cost more than a short job takes. Most deadlines are never reached, so a single
timer is set to the earliest one; when it fires, overdue runs are told to stop, and it is set again.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable, Collection
from enum import Enum

import msgspec

from windlass.core.states import Kind
from windlass.running.context import Context
from windlass.store.records import ClaimedJob, Outcome
from windlass.worker.handlers.threads import Call


class Why(Enum):
    """Why a handler was told to stop."""

    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    SHUTDOWN = "shutdown"
    LOST = "lost"


class Run(msgspec.Struct, eq=False):
    """One job in a slot."""

    job: ClaimedJob
    context: Context
    began: float
    """Where it waits for its tokens, when it will begin."""
    limit: float
    deadline: float
    stoppable: bool
    place: int = -1
    why: Why | None = None
    task: asyncio.Task[None] | None = None
    """The task that runs it on the loop. None: its handler is under way in a thread, by `call`."""
    call: Call | None = None
    batch: list[Run] | None = None
    """The runs in one call of their handler, this one included."""
    weight: int = 1
    """The slots it takes: of a batch, the first takes one for all of them."""

    def instead(self, outcome: Outcome | None) -> Outcome | None:
        """The outcome of a run that was told to stop and did: none, where its job is another's by now."""
        error = outcome.error if outcome is not None else None
        match self.why:
            case Why.CANCELLED:
                ms = max(0.0, time.monotonic() - self.began) * 1000.0
                return Outcome(job=self.job, kind=Kind.CANCELLED, error=error, run_ms=ms)
            case Why.TIMEOUT:
                return outcome
            case Why.LOST:
                return None
            case _:  # its worker is ending: never a burnt attempt
                return Outcome(job=self.job, kind=Kind.RELEASED, began=True)

    def stack(self, cancelled: BaseException) -> str:
        """Where the handler stood, for the log."""
        notes = "\n".join(getattr(cancelled, "__notes__", ()))
        return notes or "".join(traceback.format_exception(cancelled))


class Deadlines:
    """Watches runs; `overdue` is called for each whose time is over. `runs` are those in slots right now."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, runs: Collection[Run], overdue: Callable[[Run], None]
    ) -> None:
        self._loop = loop
        self._runs = runs
        self._overdue = overdue
        self.next: float = float("inf")
        """The earliest deadline that is watched."""
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, deadline: float) -> None:
        """A run with this deadline has started."""
        if deadline < self.next:
            self._set(deadline)

    def close(self) -> None:
        """Watch nothing any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _set(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.next = deadline
        self._timer = self._loop.call_later(max(0.0, deadline - time.monotonic()), self._fire)

    def _fire(self) -> None:
        now = time.monotonic()
        self._timer, self.next = None, float("inf")
        for run in list(self._runs):
            if run.deadline <= now:
                self._overdue(run)
        ahead = [run.deadline for run in self._runs if run.deadline > now]
        if ahead:
            self._set(min(ahead))
