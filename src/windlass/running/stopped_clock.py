"""Fails a wait in a test that only the test's clock could end, while that clock stands still."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

PATIENCE: Final = 2.0
"""Seconds of real time that a test's clock may stand still while a call waits for it."""
UNTIL_RUN: Final = 10.0
"""Seconds to wait where a job is ready: others may run before it."""
LOOK_EVERY: Final = 0.05


class StoppedClock:
    """Watches the clock of a test during one wait. Outside of tests there is no such clock."""

    def __init__(self, clock: Callable[[], float] | None) -> None:
        self.clock = clock
        self.look_every: Final = LOOK_EVERY if clock else math.inf
        """Seconds after which to look again at the latest."""
        self._seen = clock() if clock else 0.0
        self._since = time.monotonic()

    def check(self, what: str, patience: float = PATIENCE) -> None:
        """Raise AssertionError if the clock has not moved for so long. `what` says what is waited for."""
        if self.clock is None:
            return
        now = self.clock()
        if now != self._seen:
            self._seen, self._since = now, time.monotonic()
        elif time.monotonic() - self._since > patience:
            raise AssertionError(
                f"{what}, and the clock of this test stands still: move it (kit.clock.advance), let "
                "kit.drain(advance=True) do it, or do not wait here"
            )
