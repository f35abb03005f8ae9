"""Keeps jobs that have seen a worker die apart from those that have not [C8].

A job that crashed before may have killed its worker, though mostly it has not (a host went down, an operator
ran `kill -9`). It never runs beside a clean job. Crashed jobs do run beside each other, since the long jobs
of a killed process would otherwise come back one after the other; if that process dies as well, they have all
seen two deaths. One that the next death would make poison has its worker to itself at first, so it is hardly
ever condemned for what another job did.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Set
from typing import Final

from windlass.store.records import ClaimedJob, Fence

QUIET_WAIT: Final = 10.0
"""Seconds that a crashed job waits for clean jobs to end before it runs beside them."""

TRUSTED_AFTER: Final = 10.0
"""Seconds that crashed jobs have their worker to themselves. If it is still alive then, clean jobs may
join."""

MEMORY: Final = 6 * QUIET_WAIT
"""Seconds for which a crashed job that waited here before is remembered."""


class Quarantine:
    """The jobs of one worker that crashed before. `poison` is how many deaths make a job poison."""

    def __init__(self, poison: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_chance = poison - 1
        self._inside: dict[Fence, ClaimedJob] = {}
        self._only_clean_left = False
        self._since = 0.0
        self._first_seen: dict[int, float] = {}
        self.waiting: ClaimedJob | None = None
        """Claimed, and not to be started yet."""
        self.closed: bool = False
        """True if no clean job may be started."""

    def takes_more(self) -> bool:
        """Return whether one more job may be claimed while it is closed: it may be another crashed one."""
        return self.waiting is None and not self._only_clean_left and not self._strict()

    def receive(self, job: ClaimedJob) -> float:
        """Take in a crashed job that was claimed: nothing else starts until it runs, or goes back. Return how
        many seconds it waits at most, counted from its first claim: it may have been handed back since."""
        now = self._clock()
        self._first_seen = {id: at for id, at in self._first_seen.items() if now - at < MEMORY}
        self.waiting, self._since, self.closed = job, self._first_seen.setdefault(job.id, now), True
        return max(0.0, self._since + QUIET_WAIT - now)

    def clean_job_claimed(self) -> None:
        """Note that only clean jobs are ready: claim nothing until the quarantine is over."""
        self._only_clean_left = self.closed

    def admits(self, running: Set[Fence]) -> bool:
        """Return whether the waiting job may start beside what runs."""
        if self.waiting is None:
            return False
        if self._clock() - self._since >= QUIET_WAIT:
            return True
        if self.waiting.deaths >= self._last_chance:
            return not running
        return running <= self._inside.keys() and not self._strict()

    def enter(self) -> ClaimedJob:
        """Return the waiting job, which starts."""
        job = self.waiting
        assert job is not None
        self._inside[job.fence], self.waiting = job, None
        return job

    def leave(self, job: ClaimedJob) -> bool:
        """Let out a job that has ended, or that is trusted by now. Return whether it was the last."""
        if self._inside.pop(job.fence, None) is None:
            return False
        return self._reopened()

    def withdraw(self) -> ClaimedJob | None:
        """Take out the waiting job."""
        job, self.waiting = self.waiting, None
        self._reopened()
        return job

    def holds(self, job: ClaimedJob) -> bool:
        """Return whether this job runs here as one that crashed before."""
        return job.fence in self._inside

    def _strict(self) -> bool:
        return any(job.deaths >= self._last_chance for job in self._inside.values())

    def _reopened(self) -> bool:
        self.closed = self.waiting is not None or bool(self._inside)
        self._only_clean_left &= self.closed
        return not self.closed
