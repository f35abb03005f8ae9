"""Claims whose answer was lost: what they gave this worker goes back, uncharged [C5].

The store waits for a claim that is under way, but one may not even have begun when its connection broke; so
it is asked again until none can be left.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final

from windlass.store.protocol import Store
from windlass.store.records import ClaimedJob

DOUBT: Final = 3.0
"""Seconds after a lost answer for which a claim may still come about: it waits for its lane for 100 ms."""

AGAIN: Final = 0.5
"""Seconds between two questions."""


class Doubt:
    """What one worker may hold without knowing it."""

    def __init__(self, store: Store, worker: int) -> None:
        self._store = store
        self._worker = worker
        self._again = float("inf")
        self._until = 0.0

    @property
    def due(self) -> bool:
        """Whether it is time to ask."""
        return time.monotonic() >= self._again

    @property
    def open(self) -> bool:
        """Whether there may be jobs of which nobody here knows."""
        return bool(self._until)

    def begin(self) -> None:
        """The answer to a claim was lost just now."""
        self._again, self._until = 0.0, time.monotonic() + DOUBT

    async def unknown(self, known: Collection[int]) -> list[ClaimedJob]:
        """The jobs that are this worker's and not among these."""
        asked = time.monotonic()
        held = await self._store.held(self._worker)
        if asked >= self._until:
            self._again, self._until = float("inf"), 0.0
        else:
            self._again = asked + AGAIN
        return [job for claim in held for job in claim.jobs if job.id not in known]
