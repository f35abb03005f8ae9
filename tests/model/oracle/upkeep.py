"""Upkeep: promotion into lanes, and the retention of what has ended. A coordinator calls these."""

from __future__ import annotations

from tests.model.oracle import turns
from tests.model.oracle.base import Base, atomic
from tests.model.oracle.gates import let_in, lets_in, open_up
from tests.model.oracle.job import Job
from tests.model.oracle.lines import KEPT
from tests.model.oracle.tokens import let_out
from windlass.core.flow.gates import order_gate
from windlass.core.retry import FORGET_AFTER
from windlass.core.states import State
from windlass.store.records import Expired, Promoted, Rotation


class Upkeep(Base):
    """Bounded steps that anybody may take at any time."""

    @atomic
    async def promote(self, limit: int = 1000) -> Promoted:
        now = self._clock()
        for job in list(self._tables.jobs.values()):
            if job.state in (State.READY, State.SCHEDULED, State.RETRYING):
                self._tables.expire(job, now)
        due = sorted(
            (job for job in self._tables.deferred if not job.after and (job.run_at or now) <= now),
            key=lambda job: (job.run_at or now, job.id),
        )[:limit]
        for job in due:
            self._tables.offer(job, now, turn=True)
        admitted, next_in = let_out(self._tables, limit, now)
        open_up(self._tables, now)
        for name in [name for name in self._tables.gateways if lets_in(name)]:
            let_in(self._tables, name, now)  # nobody should stand there who could go on
        admitted += turns.promote(self._tables, limit - admitted)
        return Promoted(len(due), admitted, next_in)

    @atomic
    async def rotate(self, *, force: bool = False) -> Rotation:
        """There are no logs to turn here; what has ended well goes when its time is over."""
        now = self._clock()
        gone = [
            job
            for job in self._tables.jobs.values()
            if job.id not in self._tables.parents
            and job.state in (State.SUCCEEDED, State.CANCELLED)
            and (force or job.finished_at is None or job.finished_at + self._retention(job.queue) <= now)
        ]
        self._tables.forget(gone)
        return Rotation(reclaimed=bool(gone), removed=len(gone))

    def _retention(self, queue: str) -> float:
        own = self._tables.queues[queue].retention
        return self._settings.retention if own is None else min(own, self._settings.retention)

    @atomic
    async def expire(self, limit: int = 1000) -> Expired:
        """Workers are never forgotten here, so that no id is used twice."""
        now, tables = self._clock(), self._tables
        dead = [
            job
            for job in tables.jobs.values()
            if job.id not in tables.parents
            and job.state is State.DEAD
            and job.finished_at is not None
            and job.finished_at + tables.queues[job.queue].dead_retention <= now
        ][:limit]
        keys = [
            key
            for key, (_, at) in tables.idempotency.items()
            if at + self._settings.idempotency_retention <= now
        ][:limit]
        parents = [parent.job for parent in tables.parents.values() if self._is_past(parent.job, now)][:limit]
        tables.forget([*dead, *parents])
        for parent in parents:
            del tables.parents[parent.id]
        for key in keys:
            del tables.idempotency[key]
        for key in [key for key, (_, last) in tables.deaths.items() if last + FORGET_AFTER <= now]:
            del tables.deaths[key]
        for budget in tables.budgets.values():
            budget.tidy(now)
        idle = [
            mark
            for mark, known in tables.marks.items()
            if order_gate(*mark) not in tables.gateways and known.at + KEPT <= now
        ]
        for mark in idle:
            del tables.marks[mark]
        return Expired(dead=len(dead), keys=len(keys), parents=len(parents))

    def _is_past(self, parent: Job, now: float) -> bool:
        """Whether a parent has ended, and was kept for as long as its end asks for [K6]."""
        if parent.finished_at is None:
            return False
        dead = parent.state is State.DEAD
        kept = self._tables.queues[parent.queue].dead_retention if dead else self._retention(parent.queue)
        return parent.finished_at + kept <= now
