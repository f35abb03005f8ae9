"""How far a supervisor's shutdown has come (working, shutting down, stopping now) and how long it may take.

The first signal begins it, the second stops running jobs now and hands them back. An init system may signal
the process and its group at once; that counts as one signal. A shutdown that the supervisor decides on by
itself counts as none, so the first signal after it is still the first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from enum import Enum
from typing import Final

from windlass.worker.engine.waiting import first

SAME_SIGNAL: Final = 0.5
"""Seconds within which a second signal is taken for the first."""


class Stop(Enum):
    """The kind of stop that a signal asks for."""

    FINISH = "claim nothing more, and let running jobs finish"
    NOW = "stop running jobs and hand them back"
    REPEATED = "nothing new"


class Shutdown:
    """The shutdown of one supervisor. Running jobs have `seconds` to finish, then `grace` to unwind."""

    def __init__(self, seconds: float, grace: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._grace = grace
        self._clock = clock
        self._signalled_at: float | None = None
        self._begun_at = 0.0
        self.begun: Final = asyncio.Event()
        self.stopping_now: Final = asyncio.Event()

    def signalled(self) -> Stop:
        """A signal has come. Returns what it asks for."""
        now = self._clock()
        if self._signalled_at is None:
            self._signalled_at = now
            self.begin()
            return Stop.FINISH
        if now - self._signalled_at < SAME_SIGNAL:
            return Stop.REPEATED
        self.stopping_now.set()
        return Stop.NOW

    def begin(self) -> None:
        """Claim nothing more, and let running jobs finish."""
        if not self.begun.is_set():
            self._begun_at = self._clock()
            self.begun.set()

    async def out_of_time(self) -> None:
        """Wait until it is time to leave: never while it works, and a grace after running jobs had their
        time, or after they were denied it."""
        await self.begun.wait()
        left = self._begun_at + self._seconds - self._clock()
        await first(asyncio.sleep(max(0.0, left)), self.stopping_now.wait())
        await asyncio.sleep(self._grace)
