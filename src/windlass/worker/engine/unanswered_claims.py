"""Finds jobs that a worker holds in the store without knowing it, and jobs that it believes to hold and does
not: every few seconds the store's account is compared with the worker's own [S4].

They differ where the answer to a claim was lost, and where the server lost what it had acknowledged: it
crashed with `synchronous_commit = off`, or was replaced by a copy. Jobs that the store counts as held and
nobody here knows go back, uncharged [C5]. Jobs that run here and the store knows nothing of belong to another
worker, or soon will.

After a claim whose answer was lost the store is asked at once. It waits for a claim that is under way, but
one may not even have begun when its connection broke; so it is asked again until none can be left.
"""

from __future__ import annotations

import time
from typing import Final

from windlass.store.protocol import Store
from windlass.store.records import ClaimedJob, Fence

EVERY: Final = 1 / 6
"""The part of a lease between two comparisons where all seems well: half of that between two heartbeats."""

UNCERTAIN: Final = 3.0
"""Seconds after a lost answer in which the claim may still happen: it waits for its lane for 100 ms."""

RECHECK: Final = 0.5
"""Seconds until the next comparison where the two accounts may differ."""


class UnansweredClaims:
    """The claims of one worker whose answers may have been lost. Compare while no claim is under way."""

    def __init__(self, store: Store, worker: int, lease: float) -> None:
        self._store = store
        self._worker = worker
        self._every = lease * EVERY
        self._next_at = time.monotonic() + self._every
        self._until = 0.0
        self._missed: set[Fence] = set()
        self._newest = 0
        self._ended = self._ended_before = 0
        """Claims below these had ended by the last comparison, and by the one before."""

    @property
    def due(self) -> bool:
        """Return whether it is time to compare."""
        return self.pause <= 0.0

    @property
    def pause(self) -> float:
        """Seconds until it is."""
        return self._next_at - time.monotonic()

    @property
    def any(self) -> bool:
        """Return whether the answer to a claim was lost, so that the worker may hold jobs unknowingly."""
        return bool(self._until)

    def lost(self) -> None:
        """The answer to a claim was lost just now."""
        self._next_at, self._until = 0.0, time.monotonic() + UNCERTAIN

    def answered(self, claim: int) -> None:
        """This claim was answered."""
        self._newest = max(self._newest, claim)

    async def compare(self, known: set[Fence], held: set[Fence]) -> tuple[list[ClaimedJob], set[Fence]]:
        """Returns the jobs that are this worker's and not `known` here; and of what is `held` here, that
        which is not this worker's. The latter is missed twice before it is reported: a job may end, or move
        to another segment, while the question is on its way."""
        asked = time.monotonic()
        if self.any:
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
        self._next_at = asked + (RECHECK if self.any or missed else self._every)
        return [job for job in jobs if job.fence not in known], lost

    async def _jobs(self) -> list[ClaimedJob]:
        return [job for claim in await self._store.unfinished(self._worker) for job in claim.jobs]
