"""One run of a child process, from its start until its place in the row is free: how long it lasted, and what
that says about the next one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from windlass.core.retry import Backoff
from windlass.worker.processes.process import Process

RESTARTS: Final = Backoff(0.5, 30.0)
"""How processes that fail in a row are spaced."""

HEALTHY: Final = 60.0
"""Seconds that a child must have run for its replacement to start at once."""

MIB: Final = 2**20
STEP: Final = 64
"""MiB to a multiple of which advice is rounded up."""


class ChildRun:
    """The run of one child. `number` is that of its place, `failures` how many in a row had failed before."""

    def __init__(
        self,
        number: int,
        failures: int = 0,
        child: Process | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.number: Final = number
        self._failures = failures
        self.child = child
        """The process, where one was ready before this run began."""
        self.died: Final = asyncio.Event()
        """It ended without being told to; its jobs are still to be handed back."""
        self._clock = clock
        self._began = clock()
        self._memory = 0
        self.follow: Final = asyncio.Event()
        """It leaves in its own time, and its replacement need not wait for that."""

    def recycle(self, memory: int) -> None:
        """It wants to be replaced, because of the bytes it uses where these are given."""
        self._memory = memory
        self.follow.set()

    @property
    def failures(self) -> int:
        """How many have failed in a row, if this one has failed."""
        return self._failures + 1 if self.short else 1

    @property
    def short(self) -> bool:
        """Return whether it ended so soon that the next one may do no better."""
        return self._clock() - self._began < HEALTHY

    @property
    def bloated(self) -> bool:
        """Return whether it used too much memory soon after its start."""
        return self._memory > 0 and self.short

    def advice(self, limit: int) -> str:
        """The log line about one that used too much memory too soon; `limit` is the bytes it was allowed."""
        enough = -(-self._memory * 3 // (2 * STEP * MIB)) * STEP
        age = self._clock() - self._began
        return (
            f"a process used {self._memory // MIB} MiB {age:.0f} s after its start, and --max-memory is "
            f"{limit // MIB} MiB; if the app needs that much by itself, set it to {enough}MiB"
        )
