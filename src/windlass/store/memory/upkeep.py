"""Upkeep: promotion into lanes, and the retention of what has ended. A coordinator calls these."""

from __future__ import annotations

from windlass.core.fair import turns
from windlass.core.states import State
from windlass.store.memory.base import Base, atomic
from windlass.store.memory.tables import Job, Lane
from windlass.store.records import Expired, Promoted, Rotation


class Upkeep(Base):
    """Bounded steps that anybody may take at any time."""

    @atomic
    async def promote(self, limit: int = 1000) -> Promoted:
        now = self._clock()
        due = sorted(
            (job for job in self._tables.deferred if job.run_at is not None and job.run_at <= now),
            key=lambda job: (job.run_at, job.id),
        )[:limit]
        for job in due:
            if job.options.fair_key is not None:
                self._tables.hold(job, now)
            else:
                self._tables.offer(job, now)
        admitted = 0
        for lane in self._tables.lanes.values():
            admitted += self._admit(lane, limit - admitted)
        return Promoted(len(due), admitted)

    def _admit(self, lane: Lane, limit: int) -> int:
        """Let held jobs into their lane, one of each fair key in turn, oldest first within a key [C3]."""
        waiting: dict[str, list[Job]] = {}
        for job in lane.held:
            waiting.setdefault(job.options.fair_key or "", []).append(job)
        room = min(limit, self._tables.queues[lane.queue].window - len(lane.waiting))
        keys = turns({key: len(jobs) for key, jobs in waiting.items()}, lane.served, room)
        for key in keys:
            self._tables.admit(waiting[key].pop(0))
            lane.served = key
        return len(keys)

    @atomic
    async def rotate(self, *, force: bool = False) -> Rotation:
        """There are no logs to turn here; what has ended well goes when its time is over."""
        now = self._clock()
        gone = [
            job
            for job in self._tables.jobs.values()
            if job.state in (State.SUCCEEDED, State.CANCELLED)
            and (force or job.finished_at is None or job.finished_at + self._retention(job.queue) <= now)
        ]
        for job in gone:
            del self._tables.jobs[job.id]
        return Rotation(reclaimed=bool(gone), removed=len(gone))

    def _retention(self, queue: str) -> float:
        own = self._tables.queues[queue].retention
        return self._settings.retention if own is None else min(own, self._settings.retention)

    @atomic
    async def expire(self, limit: int = 1000) -> Expired:
        """Workers are never forgotten here, so that no id is used twice."""
        now, tables = self._clock(), self._tables
        dead = [
            job.id
            for job in tables.jobs.values()
            if job.state is State.DEAD
            and job.finished_at is not None
            and job.finished_at + tables.queues[job.queue].dead_retention <= now
        ][:limit]
        keys = [
            key
            for key, (_, at) in tables.idempotency.items()
            if at + self._settings.idempotency_retention <= now
        ][:limit]
        for job in dead:
            del tables.jobs[job]
        for key in keys:
            del tables.idempotency[key]
        return Expired(dead=len(dead), keys=len(keys))
