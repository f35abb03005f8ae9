"""Runs of keys: jobs of one waiting list that a flush claimed together (see `Store.finish`). The first of a
run waits for a slot like any other job; the rest waits here, and each has the slot when the one before it has
ended. What waits behind a job that takes long goes back.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence

from windlass.core.states import Kind
from windlass.store.records import ClaimedJob, Outcome
from windlass.worker.handlers.run import Run, Why

FOR_GOOD = (Kind.SUCCEEDED, Kind.DEAD, Kind.CANCELLED)


class KeyRuns:
    """The runs of one worker: who waits behind whom."""

    def __init__(self) -> None:
        self._behind: dict[tuple[int, int], deque[ClaimedJob]] = {}
        """By claim and run."""

    def __bool__(self) -> bool:
        return bool(self._behind)

    def __contains__(self, job: ClaimedJob) -> bool:
        """Return whether a job waits behind this one."""
        return (job.claim, job.run) in self._behind

    def put(self, jobs: Sequence[ClaimedJob]) -> list[ClaimedJob]:
        """Sort out jobs of one claim: those that come first, or on their own, are answered, and the others
        wait behind them."""
        firsts: dict[int, ClaimedJob] = {}
        alone: list[ClaimedJob] = []
        for job in jobs:
            if not job.run or job.run not in firsts:
                alone.append(job)
                firsts[job.run] = job
            else:
                self._behind.setdefault((job.claim, job.run), deque()).append(job)
        return alone

    def next_of(self, job: ClaimedJob) -> ClaimedJob | None:
        """Who comes behind this job; that one waits no longer."""
        rest = self._behind.get((job.claim, job.run))
        if rest is None:
            return None
        following = rest.popleft()
        if not rest:
            del self._behind[job.claim, job.run]
        return following

    def rest_of(self, job: ClaimedJob) -> Collection[ClaimedJob]:
        """All who come behind it; they wait no longer."""
        return self._behind.pop((job.claim, job.run), ())

    def remove(self, job: ClaimedJob) -> None:
        """This one does not wait behind others any more, if it did."""
        rest = self._behind.get((job.claim, job.run), deque())
        if job in rest:
            rest.remove(job)
            if not rest:
                del self._behind[job.claim, job.run]

    def empty(self, queue: str) -> list[ClaimedJob]:
        """All of a queue; they wait no longer."""
        mine = [run for run, rest in self._behind.items() if rest[0].queue == queue]
        return [job for run in mine for job in self._behind.pop(run)]

    def waiting(self, queue: str) -> int:
        """How many of a queue wait."""
        return sum(len(rest) for rest in self._behind.values() if rest[0].queue == queue)

    def __iter__(self) -> Iterator[ClaimedJob]:
        return (job for rest in self._behind.values() for job in rest)


def goes_on(run: Run, outcome: Outcome | None) -> bool:
    """Return whether the next one may start. Behind a job that did not end for good, no job of its ordering
    key may [F6]."""
    if run.job.options.ordering_key is None:
        return True
    return outcome is not None and outcome.kind in FOR_GOOD and run.why is not Why.LOST


class RunWatch:
    """Looks for jobs that wait behind one that has run for `patience` already: `stuck` is called with it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        waiting: KeyRuns,
        running: Collection[Run],
        patience: float,
        stuck: Callable[[ClaimedJob], None],
    ) -> None:
        self._loop = loop
        self._waiting = waiting
        self._running = running
        self._patience = patience
        self._stuck = stuck
        self._looks = False

    def begin(self) -> None:
        """Note that jobs may wait from now on."""
        if self._waiting and not self._looks:
            self._looks = True
            self._loop.call_later(self._patience, self._look)

    def _look(self) -> None:
        self._looks = False
        late = time.monotonic() - self._patience
        for run in [run for run in self._running if run.job.run and run.began <= late]:
            self._stuck(run.job)
        self.begin()
