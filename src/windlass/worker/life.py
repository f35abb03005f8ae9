"""One child's life as its place in the row sees it: how long it lasted, and what that says about the next."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from windlass.core.retry import Backoff
from windlass.worker.process import Process

RESTARTS: Final = Backoff(0.5, 30.0)
"""How processes that fail in a row are spaced."""

HEALTHY: Final = 60.0
"""A child that lived for so many seconds may be replaced at once."""

MIB: Final = 2**20
STEP: Final = 64
"""Advice is rounded up to so many MiB."""


class Life:
    """From the start of a child to the moment when its place is free. So many before it had failed soon."""

    def __init__(
        self,
        failures: int = 0,
        child: Process | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._failures = failures
        self.child = child
        """Who lives it, where that was known before."""
        self.died = asyncio.Event()
        """It has ended, and nobody had told it to; its jobs are still to be handed back."""
        self._clock = clock
        self._began = clock()
        self._memory = 0
        self.follow = asyncio.Event()
        """It leaves in its own time, and its successor need not wait for that."""

    def recycle(self, memory: int) -> None:
        """It wants to be replaced; because of the bytes it uses, where these are named."""
        self._memory = memory
        self.follow.set()

    @property
    def failures(self) -> int:
        """How many have failed in a row, should it have failed now."""
        return self._failures + 1 if self.short else 1

    @property
    def short(self) -> bool:
        """Whether it has lasted for so little time that the next may not do better."""
        return self._clock() - self._began < HEALTHY

    @property
    def bloated(self) -> bool:
        """Whether it was too big before it was old."""
        return self._memory > 0 and self.short

    def advice(self, limit: int) -> str:
        """What to say about one that was too big too soon; `limit` is what it was allowed."""
        enough = -(-self._memory * 3 // (2 * STEP * MIB)) * STEP
        age = self._clock() - self._began
        return (
            f"a process used {self._memory // MIB} MiB {age:.0f} s after its start, and --max-memory is "
            f"{limit // MIB} MiB; where the app needs as much by itself, set it to {enough}MiB"
        )
