"""Bounds on time that hold on a busy machine, too.

A test process that gets no CPU for two seconds sees everything two seconds late, though the engine was as
quick as ever. The kernel counts the time in which some process waited for a CPU (`/proc/pressure/cpu`). A
stopwatch leaves that time out, up to nine tenths of all: on a quiet machine a bound is as tight as it reads,
and on the busiest one a hang still ends as a failure.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

PRESSURE: Final = Path("/proc/pressure/cpu")
LEAST: Final = 0.1
"""The share of the time that counts however busy the machine is."""


class Stopwatch:
    """Seconds since it was made in which every process that could run did run."""

    def __init__(self) -> None:
        self._began, self._waited = time.monotonic(), waited()

    def seconds(self) -> float:
        """Return them; all seconds where the kernel does not count those of waiting."""
        passed = time.monotonic() - self._began
        return max(LEAST * passed, passed - (waited() - self._waited))

    def lost(self) -> float:
        """Return the other ones: what a bound on the clock of another process may be exceeded by."""
        return time.monotonic() - self._began - self.seconds()


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """End a block with a TimeoutError once a stopwatch shows more than this."""
    watch, loop = Stopwatch(), asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal timer
        left = seconds - watch.seconds()
        if left > 0.0:
            timer = loop.call_later(left, look)
        else:
            limit.reschedule(loop.time())

    async with asyncio.timeout(None) as limit:
        timer = loop.call_later(seconds, look)
        try:
            yield
        finally:
            timer.cancel()


def waited() -> float:
    """Return the seconds since the machine started in which some process waited for a CPU."""
    try:
        some = PRESSURE.read_text(encoding="ascii").splitlines()[0]
    except OSError:
        return 0.0
    return int(some.rpartition("total=")[2]) / 1e6
