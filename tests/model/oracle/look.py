"""Looking and managing: lookup, listing, counts, cancel, delete and retry, and waiting."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence, Set

from tests.model.oracle.base import Base, atomic
from tests.model.oracle.depth import depth
from tests.model.oracle.family import Parent, advance, redrive, retry_part
from tests.model.oracle.job import Job
from windlass.core.abilities import NONE
from windlass.core.json_text import contains
from windlass.core.states import FINISHED, State
from windlass.errors import AlreadyEnqueued, Finalizing, JobNotFound, ResultTimeout
from windlass.store.records import (
    CancelAnswer,
    DeleteAnswer,
    Depth,
    JobFilter,
    JobRecord,
    Matches,
    Page,
    Polling,
    RetryAnswer,
    WakeUp,
)

NOT_BEGUN = frozenset({State.SCHEDULED, State.READY, State.RETRYING})
"""The states in which no attempt of a job is under way."""
FAILED = frozenset({State.DEAD, State.RETRYING})
"""The states in which a job is found by what it failed with."""


def _fits(job: Job, where: JobFilter) -> bool:
    return (
        where.queue in (None, job.queue)
        and where.task in (None, job.task)
        and where.state in (None, job.shown)
        and (where.tag is None or where.tag in job.options.tags)
        and (where.text is None or contains(job.payload, where.text) or _failed_with(job, where.text))
        and (where.error is None or (job.state in FAILED and where.error == job.error))
    )


def _failed_with(job: Job, text: str) -> bool:
    if job.state not in FAILED or not job.errors:
        return False
    return contains(f"{job.errors[-1].type}: {job.errors[-1].message}", text)


def _number(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 20):
        raise ValueError(f"{cursor[:80]!r} is not a cursor of this store; take it from a page of jobs")
    return int(cursor)


class Look(Base):
    """The operator's side of the store."""

    @atomic
    async def job(self, job: int) -> JobRecord | None:
        known = self._tables.jobs.get(job)
        return known.record() if known else None

    @atomic
    async def jobs(
        self, where: JobFilter, limit: int = 50, cursor: str | None = None, within: float = 0.0
    ) -> Page:
        before = math.inf if cursor is None else _number(cursor)
        page: list[JobRecord] = []
        looked, last = 0, None
        for job in sorted(self._tables.jobs.values(), key=lambda job: -job.number):
            if job.number >= before:
                continue
            if _fits(job, where):
                if last is not None and len(page) >= limit:
                    return Page(page, str(last.number), looked, last.enqueued_at)
                page.append(job.record())
            looked, last = looked + 1, job
        return Page(page, None, looked, last.enqueued_at if last else None)

    async def matches(
        self, where: JobFilter, most: int, cursor: str | None = None, within: float | None = None
    ) -> Matches:
        page = await self.jobs(where, most, cursor)
        return Matches([job.id for job in page.jobs], page.cursor)

    async def wait_finished(self, job: int, timeout: float) -> JobRecord:
        def look() -> JobRecord | None:
            known = self._tables.jobs.get(job)
            if known is None:
                raise JobNotFound(
                    f"there is no job {job}: it never existed, was deleted, or its retention has passed"
                )
            return known.record() if known.state in FINISHED else None

        found = await self._until(look, timeout)
        if found is None:
            raise ResultTimeout(f"job {job} did not finish within {timeout:g} s")
        return found

    @atomic
    async def cancel(self, jobs: Sequence[int]) -> dict[int, CancelAnswer]:
        now = self._clock()
        return {job: self._cancel(job, now) for job in dict.fromkeys(jobs)}

    def _cancel(self, job: int, now: float, *, counted: bool = True) -> CancelAnswer:
        known = self._tables.jobs.get(job)
        if known is None:
            return "not_found"
        if known.state in NOT_BEGUN:
            self._tables.end(known, State.CANCELLED, now, counted=counted)
            return "cancelled"
        if known.state in FINISHED:
            return "finished"
        known.cancel_requested = True
        if known.state is State.WAITING:
            self._cancel_parts(self._tables.parents[known.id], now)
        return "requested"

    def _cancel_parts(self, parent: Parent, now: float) -> None:
        """Cancel what is out of a parent; what was not offered never will be [P9]."""
        for job in (*(part.job for part in parent.parts), parent.final):
            if job is not None:
                self._cancel(job.id, now)
        advance(self._tables, parent, now)

    @atomic
    async def delete(self, jobs: Sequence[int]) -> dict[int, DeleteAnswer]:
        now = self._clock()
        return {job: self._delete(job, now) for job in dict.fromkeys(jobs)}

    def _delete(self, job: int, now: float) -> DeleteAnswer:
        answer = self._cancel(job, now, counted=False)
        if answer in ("requested", "not_found"):
            return answer
        self._tables.forget([self._tables.jobs[job]])
        self._tables.parents.pop(job, None)
        return "deleted"

    @atomic
    async def retry(self, jobs: Sequence[int]) -> dict[int, RetryAnswer]:
        now = self._clock()
        return {job: self._retry(job, now) for job in dict.fromkeys(jobs)}

    def _retry(self, job: int, now: float) -> RetryAnswer:
        known = self._tables.jobs.get(job)
        if known is None:
            return "not_found"
        if known.state is State.DEAD:
            return "retried" if self._retry_dead(known, now) else "unchanged"
        if known.state in (State.SCHEDULED, State.RETRYING):
            known.attempt = 1 if known.state is State.RETRYING else known.attempt
            self._tables.offer(known, now)
            return "retried"
        return "unchanged"

    def _retry_dead(self, job: Job, now: float) -> bool:
        """Whether a dead job was brought back: not if another holds its unique key now, or its parent's."""
        parent = self._tables.parent_of(job)
        try:
            if job.id in self._tables.parents:
                return redrive(self._tables, self._tables.parents[job.id], now) > 0
            if parent is not None:
                retry_part(self._tables, parent, job, now)
                return True
        except (AlreadyEnqueued, Finalizing):
            return False
        if job.options.unique_key in self._tables.unique:
            return False
        self._tables.revive(job, now)
        return True

    @atomic
    async def depth(self, queues: Sequence[str] | None = None) -> dict[str, Depth]:
        now = self._clock()
        names = self._tables.queues if queues is None else queues
        return {name: depth(self._tables, name, now) for name in names}

    async def wait(self, queues: Sequence[str], timeout: float, abilities: Set[str] = NONE) -> bool:
        def look() -> bool | None:
            return True if self._tables.open_lanes(queues, self._clock(), abilities) else None

        with self._lock:
            now = self._clock()
            paces = [pace for name in queues if (pace := self._tables.pace(name, now)) is not None]
            # What a governor puts off comes with time, and nobody rings for that.
            soon = min([timeout, *(pace.soon(now) for pace in paces if pace.bucket.available(now) < 1)])
        return await self._until(look, soon) is True

    async def forward_wakeups(self, queues: Sequence[str], forward: Callable[[WakeUp], None]) -> None:
        await asyncio.get_running_loop().create_future()

    def on_wakeup(self, wake_up: WakeUp | None) -> None:
        """It receives wake-ups by itself."""

    async def rehearse(self, worker: int, queues: Sequence[str]) -> None:
        """There is nothing to warm up."""

    async def polling(self, queues: Sequence[str]) -> Polling:
        return Polling(math.inf, True, 0.0, 0.0)
