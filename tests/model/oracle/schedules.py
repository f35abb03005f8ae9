"""Schedules, and firing them: compare-and-swap and enqueue in one step [K4]. When one is due next is for its
caller to say."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tests.model.oracle.base import atomic
from tests.model.oracle.enqueue import Enqueueing
from tests.model.oracle.look import Look
from windlass.core.states import FINISHED
from windlass.store.records import Due, NewSchedule, Receipt, ScheduleRecord
from windlass.store.schedules import job_of, put, seeded


class Schedules(Enqueueing, Look):
    """What runs by the clock."""

    @atomic
    async def schedules(self) -> list[ScheduleRecord]:
        return [self._tables.schedules[name] for name in sorted(self._tables.schedules)]

    @atomic
    async def seed_schedule(
        self, schedule: NewSchedule, next_at: float | None, error: str | None = None
    ) -> ScheduleRecord:
        known = self._tables.schedules.get(schedule.name)
        record = seeded(known, schedule, self._clock(), next_at, error)
        self._tables.schedules[schedule.name] = record
        return record

    @atomic
    async def put_schedule(
        self, schedule: NewSchedule, next_at: float | None, *, new: bool
    ) -> ScheduleRecord | None:
        record = put(self._tables.schedules.get(schedule.name), schedule, next_at, new=new)
        if record is not None:
            self._tables.schedules[schedule.name] = record
        return record

    @atomic
    async def set_schedule(
        self, name: str, *, paused: bool | None = None, next_at: float | None = None
    ) -> ScheduleRecord | None:
        known = self._tables.schedules.get(name)
        if known is None:
            return None
        changed = msgspec.structs.replace(
            known,
            paused=known.paused if paused is None else paused,
            next_at=known.next_at if next_at is None else next_at,
        )
        self._tables.schedules[name] = changed
        return changed

    @atomic
    async def drop_schedule(self, name: str) -> bool:
        return self._tables.schedules.pop(name, None) is not None

    @atomic
    async def due(self, limit: int = 100) -> Due:
        now = self._clock()
        found = [
            (known.next_at, name)
            for name, known in self._tables.schedules.items()
            if not known.paused
            and known.next_at is not None
            and (known.next_at <= now or (known.last_at or 0.0) > now + 1)
        ]
        times = [known.next_at for known in self._tables.schedules.values() if not known.paused]
        next_at = min((time for time in times if time is not None and time > now), default=None)
        return Due(now, [self._tables.schedules[name] for _, name in sorted(found)[:limit]], next_at)

    @atomic
    async def fire(
        self,
        term: int | None,
        name: str,
        expected: float | None,
        times: Sequence[float],
        *,
        next_at: float | None,
        skipped: int = 0,
        error: str | None = None,
    ) -> list[Receipt] | None:
        now = self._clock()
        if term is not None:
            self._tables.hold_term(term, now)
        known = self._tables.schedules.get(name)
        if known is None or (expected is not None and (known.paused or known.next_at != expected)):
            return None
        receipts: list[Receipt] = []
        last_at, last_job = known.last_at, known.last_job
        for time in times:
            if expected is not None and not self._makes_way(known, last_job, time == times[-1], now):
                skipped += 1
                continue
            behind = None if expected is None else self._stopping(known, last_job)
            receipts.append(self._enqueue(job_of(known, time, behind), now))
            last_at, last_job = max(time, last_at or time), receipts[-1].id or last_job
        self._tables.schedules[name] = msgspec.structs.replace(
            known,
            next_at=known.next_at if expected is None else next_at,
            last_at=last_at,
            last_job=last_job,
            skipped=known.skipped + skipped,
            error=known.error if expected is None else error,
        )
        return receipts

    def _stopping(self, schedule: ScheduleRecord, last_job: int | None) -> int | None:
        """The last job, where it was told to stop and has not yet."""
        last = self._tables.jobs.get(last_job or 0)
        return last_job if schedule.overlap == "cancel" and last and last.state not in FINISHED else None

    def _makes_way(self, schedule: ScheduleRecord, last_job: int | None, latest: bool, now: float) -> bool:
        """Whether a fire makes a job, by the policy for overlaps: the last job that it made may go on yet."""
        if schedule.overlap == "skip" and not latest:
            return False
        last = self._tables.jobs.get(last_job) if last_job is not None else None
        if last is None or last.state in FINISHED or schedule.overlap == "queue":
            return True
        if schedule.overlap == "cancel":
            self._cancel(last.id, now)
            return True
        return False
