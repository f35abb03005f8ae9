"""Where jobs that have seen a worker die are kept apart from those that have not [C8].

Such a job may be what its worker died of, and mostly is not: a host went down, or somebody's `kill -9`. So it
never runs beside an innocent one; but several run beside each other, since the long jobs of a killed process
would otherwise come back one after the other. If that process dies as well, they have all seen two deaths.
One that the next death would make poison has its worker to itself at first, so it is hardly ever condemned
for another's deed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, KeysView
from typing import Final

from windlass.store.records import ClaimedJob, Fence

QUIET_WAIT: Final = 10.0
"""Seconds that a suspect waits for the innocent to end before it runs beside them."""

SUSPECT_TIME: Final = 10.0
"""Seconds that suspects have their worker to themselves. Then it lives still, and others may join them."""

MEMORY: Final = 6 * QUIET_WAIT
"""Seconds for which it is known that a suspect has waited here before."""


class Ward:
    """The suspects of one worker. `poison` is how many deaths make a job poison."""

    def __init__(self, poison: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_life = poison - 1
        self._inside: dict[Fence, ClaimedJob] = {}
        self._sated = False
        self._since = 0.0
        self._met: dict[int, float] = {}
        self.waiting: ClaimedJob | None = None
        """Claimed, and not to be started yet."""
        self.closed = False
        """No innocent job may be started."""

    def takes_more(self) -> bool:
        """Whether one more job may be claimed while it is closed: it may be another suspect."""
        return self.waiting is None and not self._sated and not self._strict()

    def receive(self, job: ClaimedJob) -> float:
        """A suspect was claimed. Nothing else starts until it runs, or goes back. The answer is how many
        seconds it waits at most, counted from when it first came: it may have been handed back since."""
        now = self._clock()
        self._met = {id: at for id, at in self._met.items() if now - at < MEMORY}
        self.waiting, self._since, self.closed = job, self._met.setdefault(job.id, now), True
        return max(0.0, self._since + QUIET_WAIT - now)

    def innocent_came(self) -> None:
        """What can be claimed now are no suspects: claim nothing more until this is over."""
        self._sated = self.closed

    def admits(self, running: KeysView[Fence]) -> bool:
        """Whether the one that waits may start beside what runs."""
        if self.waiting is None:
            return False
        if self._clock() - self._since >= QUIET_WAIT:
            return True
        if self.waiting.deaths >= self._last_life:
            return not running
        return running <= self._inside.keys() and not self._strict()

    def enter(self) -> ClaimedJob:
        """The one that waits starts."""
        job = self.waiting
        assert job is not None
        self._inside[job.fence], self.waiting = job, None
        return job

    def leave(self, job: ClaimedJob) -> bool:
        """It has ended, or has run for so long that it is trusted. True: it was the last one."""
        if self._inside.pop(job.fence, None) is None:
            return False
        return self._reopened()

    def withdraw(self) -> ClaimedJob | None:
        """Take out the one that waits."""
        job, self.waiting = self.waiting, None
        self._reopened()
        return job

    def holds(self, job: ClaimedJob) -> bool:
        """Whether this one runs as a suspect."""
        return job.fence in self._inside

    def _strict(self) -> bool:
        return any(job.deaths >= self._last_life for job in self._inside.values())

    def _reopened(self) -> bool:
        self.closed = self.waiting is not None or bool(self._inside)
        self._sated &= self.closed
        return not self.closed
