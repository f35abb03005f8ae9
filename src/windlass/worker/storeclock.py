"""The store's clock as a process knows it, from the answers to what it told.

Charts and timelines are drawn by the store's clock [M1]. Inside a process only the monotonic clock counts, so
what happened is stamped by that, and becomes a time of the store when it is told.
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
        self.known = False
        """Whether the store has ever said what time it is."""

    def learn(self, told: float, asked: float, answered: float) -> None:
        """The store said that it is `told`, somewhere between these two."""
        if not self.known or answered - asked <= PROMPT:
            self._offset = told - (asked + answered) / 2
        self.known = True

    def at(self, moment: float) -> float:
        """What time it was in the store at this moment of the monotonic clock."""
        return moment + self._offset
