"""The store's clock as a process knows it, from the answers to its reports.

Charts and timelines are drawn by the store's clock [M1]. Inside a process only the monotonic clock counts, so
events are stamped by that, and their times are converted when they are reported.
"""

from __future__ import annotations

import time
from typing import Final

PROMPT: Final = 0.5
"""Seconds: an answer that took longer says little about what time it is."""


class StoreClock:
    """From this process's monotonic clock to the store's. Before the first answer it goes by the host's."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()
        self.known: bool = False
        """True if the store has ever said what time it is."""

    def learn(self, now: float, asked: float, answered: float) -> None:
        """The store said that it is `now`, at a moment between these two."""
        if not self.known or answered - asked <= PROMPT:
            self._offset = now - (asked + answered) / 2
        self.known = True

    def at(self, moment: float) -> float:
        """Return the store's time at this moment of the monotonic clock."""
        return moment + self._offset
