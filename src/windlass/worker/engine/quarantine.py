"""Keeps jobs that have seen a worker die apart from those that have not [C8].

Such a job is a suspect: it may have killed its worker, though mostly it has not (a host went down, somebody
ran `kill -9`). It never runs beside a clean job. Suspects do run beside each other, since the long jobs of a
killed process would otherwise come back one after the other; if that process dies as well, they have all seen
two deaths. One that the next death would make poison has its worker to itself at first, so it is hardly ever
condemned for what another job did.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Set
from typing import Final

from windlass.store.records import ClaimedJob, Fence

QUIET_WAIT: Final = 10.0
"""Seconds that a suspect waits for clean jobs to end before it runs beside them."""

SUSPECT_TIME: Final = 10.0
"""Seconds that suspects have their worker to themselves. If it is still alive then, clean jobs may join."""

MEMORY: Final = 6 * QUIET_WAIT
"""Seconds for which a suspect that waited here before is remembered."""


class Quarantine:
    """The suspects of one worker. `poison` is how many deaths make a job poison."""

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
        """Return whether one more job may be claimed while it is closed: it may be another suspect."""
        return self.waiting is None and not self._only_clean_left and not self._strict()

    def receive(self, job: ClaimedJob) -> float:
        """A suspect was claimed. Nothing else starts until it runs, or goes back. Returns how many seconds it
        waits at most, counted from when it was first claimed: it may have been handed back since."""
        now = self._clock()
        self._first_seen = {id: at for id, at in self._first_seen.items() if now - at < MEMORY}
        self.waiting, self._since, self.closed = job, self._first_seen.setdefault(job.id, now), True
        return max(0.0, self._since + QUIET_WAIT - now)

    def clean_job_claimed(self) -> None:
        """No more suspects are ready, only clean jobs: claim nothing until the quarantine is over."""
        self._only_clean_left = self.closed

    def admits(self, running: Set[Fence]) -> bool:
        """Return whether the waiting suspect may start beside what runs."""
        if self.waiting is None:
            return False
        if self._clock() - self._since >= QUIET_WAIT:
            return True
        if self.waiting.deaths >= self._last_chance:
            return not running
        return running <= self._inside.keys() and not self._strict()

    def enter(self) -> ClaimedJob:
        """The waiting suspect starts."""
        job = self.waiting
        assert job is not None
        self._inside[job.fence], self.waiting = job, None
        return job

    def leave(self, job: ClaimedJob) -> bool:
        """A suspect has ended, or has run for so long that it is trusted. Returns whether it was the last."""
        if self._inside.pop(job.fence, None) is None:
            return False
        return self._reopened()

    def withdraw(self) -> ClaimedJob | None:
        """Take out the waiting suspect."""
        job, self.waiting = self.waiting, None
        self._reopened()
        return job

    def holds(self, job: ClaimedJob) -> bool:
        """Return whether this job runs as a suspect."""
        return job.fence in self._inside

    def _strict(self) -> bool:
        return any(job.deaths >= self._last_chance for job in self._inside.values())

    def _reopened(self) -> bool:
        self.closed = self.waiting is not None or bool(self._inside)
        self._only_clean_left &= self.closed
        return not self.closed
