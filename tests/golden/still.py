"""A world that stands still, for the process that records golden files. Import this before `windlass`: a
store keeps the clock that it finds when its module is read."""

import time
from typing import Final

START: Final = 1_750_000_200.0
"""15 June 2025, 15:10 UTC."""
ENVIRONMENT: Final = {"TZ": "IST-5:30", "LANG": "C.UTF-8", "LOGNAME": "ada", "PYTHONUTF8": "1"}
"""All that the process is told besides PATH. The zone is not UTC, so that local times can be told from it."""


class Clock:
    """The time of the store, of pages and of commands: it moves when it is told to."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now

    async def advance(self, seconds: float) -> None:
        """Let this much time pass."""
        self.now += seconds


clock: Final = Clock()


def stop() -> None:
    """Stop time, as far as answers show it. Event loops go on by the monotonic clock."""
    vars(time).update(time=clock, perf_counter=float)
