"""What a worker holds, by the store's account and by its own: every few seconds the two are compared [S4].

They differ where an answer was lost on its way here, and where the server lost what it had acknowledged: it
crashed with `synchronous_commit = off`, or it is a copy by now. What the store says is held and nobody here
knows goes back, uncharged [C5]. What is held here and the store knows nothing of is another's, or will be.

After a claim whose answer was lost the question is put at once. The store waits for a claim that is under
way, but one may not even have begun when its connection broke; so it is asked again until none can be left.
"""

from __future__ import annotations

import time
from typing import Final

from windlass.store.protocol import Store
from windlass.store.records import ClaimedJob, Fence

EVERY: Final = 1 / 6
"""The part of a lease between two comparisons where all seems well: half of that between two beats."""

DOUBT: Final = 3.0
"""Seconds after a lost answer for which a claim may still come about: it waits for its lane for 100 ms."""

AGAIN: Final = 0.5
"""Seconds until the next question where something is in doubt."""


class Doubt:
    """What one worker may hold without knowing it, or believe to hold without doing so. Compare while none
    of its claims is under way."""

    def __init__(self, store: Store, worker: int, lease: float) -> None:
        self._store = store
        self._worker = worker
        self._every = lease * EVERY
        self._again = time.monotonic() + self._every
        self._until = 0.0
        self._missed: set[Fence] = set()
        self._newest = 0
        self._ended = self._ended_before = 0
        """Claims below these had ended by the last comparison, and by the one before."""

    @property
    def due(self) -> bool:
        """Whether it is time to compare."""
        return self.pause <= 0.0

    @property
    def pause(self) -> float:
        """Seconds until it is."""
        return self._again - time.monotonic()

    @property
    def open(self) -> bool:
        """Whether the answer to a claim was lost, so that there may be jobs of which nobody here knows."""
        return bool(self._until)

    def begin(self) -> None:
        """The answer to a claim was lost just now."""
        self._again, self._until = 0.0, time.monotonic() + DOUBT

    def claimed(self, claim: int) -> None:
        """This claim was answered."""
        self._newest = max(self._newest, claim)

    async def compare(self, known: set[Fence], held: set[Fence]) -> tuple[list[ClaimedJob], set[Fence]]:
        """The jobs that are this worker's and not `known` here; and of what is `held` here, that which is not
        this worker's. The latter is missed twice before it is told: a job may end, or be carried to another
        segment, while the question is on its way."""
        asked = time.monotonic()
        if self.open:
            jobs = await self._jobs()
            fences = {job.fence for job in jobs}
            if asked >= self._until:
                self._until = 0.0
        else:
            # Claims that had ended some time ago are not looked at again. What ended since the last but one
            # comparison is: the server may have lost the end of it.
            ended = self._newest + 1
            fences = await self._store.fences(self._worker, self._ended_before)
            ended = min((claim for _, claim, _ in fences | known), default=ended)
            self._ended_before, self._ended = self._ended, ended
            jobs = await self._jobs() if fences - known else []
        missed = held - fences
        lost, self._missed = missed & self._missed, missed
        self._again = asked + (AGAIN if self.open or missed else self._every)
        return [job for job in jobs if job.fence not in known], lost

    async def _jobs(self) -> list[ClaimedJob]:
        return [job for claim in await self._store.held(self._worker) for job in claim.jobs]
