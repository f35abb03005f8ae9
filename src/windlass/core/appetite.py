"""How many jobs a worker should hold at once: the ones that run, and a little ahead of them.

Claiming far ahead makes batches large and cheap; claiming what will not be started soon keeps it from others.
So a queue's run times are measured, and a worker holds about 75 ms of work ahead where jobs are short, and
nothing beyond its free slots where they are long.
"""

from __future__ import annotations

from typing import Final

AHEAD: Final = 0.075
"""Seconds of work to hold ahead of what runs."""

LONG: Final = 0.05
"""A job that takes this many seconds is long: none of its kind is claimed before a slot is free."""

MOST_AHEAD: Final = 1000
WEIGHT: Final = 0.1
"""How much the newest run time counts. A long one counts in full: better too careful than stuck."""


class Appetite:
    """What is known of one queue's run times in this process."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = LONG

    def note(self, seconds: float) -> None:
        """A job took so long."""
        if seconds >= LONG:
            self.seconds = max(self.seconds, LONG)
        self.seconds += (seconds - self.seconds) * WEIGHT

    def stuck(self) -> None:
        """What runs now takes long, though it has not ended yet."""
        self.seconds = max(self.seconds, LONG)

    def ahead(self, slots: int) -> int:
        """How many jobs to hold beyond those that fill the slots."""
        if self.seconds >= LONG or slots < 1:
            return 0
        return min(MOST_AHEAD, int(slots * AHEAD / max(self.seconds, 1e-6)))
