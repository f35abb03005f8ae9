"""How far a supervisor is on its way out: working, draining, or in a hurry; and how long it may take.

A word from outside is a signal. One to the process and one to its group, which an init system may send at
once, are the same word. An end that the supervisor decides by itself is none, so that the first signal after
it is still the first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from enum import Enum
from typing import Final

from windlass.worker.waiting import first

SAME_WORD: Final = 0.5
"""Seconds within which a second signal says nothing new."""


class Word(Enum):
    """What a signal means."""

    DRAIN = "claim nothing more, and let running jobs finish"
    RELEASE = "stop running jobs and hand them back"
    AGAIN = "what was just said"


class Halt:
    """The end of a supervisor, as a state."""

    def __init__(self, shutdown: float, grace: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._shutdown = shutdown
        self._grace = grace
        self._clock = clock
        self._told_at: float | None = None
        self._draining_at = 0.0
        self.draining = asyncio.Event()
        self.hurrying = asyncio.Event()

    def hear(self) -> Word:
        """A signal has come; the answer is what it means."""
        now = self._clock()
        if self._told_at is None:
            self._told_at = now
            self.drain()
            return Word.DRAIN
        if now - self._told_at < SAME_WORD:
            return Word.AGAIN
        self.hurrying.set()
        return Word.RELEASE

    def drain(self) -> None:
        """Leave in good order."""
        if not self.draining.is_set():
            self._draining_at = self._clock()
            self.draining.set()

    async def out_of_time(self) -> None:
        """Wait for the moment when nobody should wait any longer: never while it works, and a grace after
        running jobs had their time, or after they were denied it."""
        await self.draining.wait()
        left = self._draining_at + self._shutdown - self._clock()
        await first(asyncio.sleep(max(0.0, left)), self.hurrying.wait())
        await asyncio.sleep(self._grace)
