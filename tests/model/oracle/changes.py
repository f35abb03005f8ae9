"""A waiting job is changed in place [E8]."""

from __future__ import annotations

import msgspec

from tests.model.oracle.base import Base, atomic
from tests.model.oracle.gates import enter, gates, is_budget, leave, let_in, lets_in
from tests.model.oracle.job import Job
from tests.model.oracle.tables import Tables
from tests.model.oracle.tokens import spend
from windlass.core.expiry import deadline
from windlass.core.flow.gates import is_own
from windlass.core.states import FINISHED, State
from windlass.store.records import ChangeAnswer, JobChange, NewJob


class Changes(Base):
    """What operators and producers think better of."""

    @atomic
    async def change(self, job: int, change: JobChange) -> ChangeAnswer:
        known = self._tables.jobs.get(job)
        if known is None:
            return "not_found"
        if known.options.part is not None:
            return "part"
        if known.state in FINISHED:
            return "ended"
        if known.state in (State.RUNNING, State.WAITING):
            return "running"
        _change(self._tables, known, change, self._clock())
        return "changed"


def _change(tables: Tables, job: Job, change: JobChange, now: float) -> None:
    wanted = _wanted(job, change, now)
    at = now + change.delay if change.delay is not None else change.run_at
    regated = _own_gates(tables, job) != _own_gates(tables, wanted)
    lane = tables.lane(wanted.queue, wanted.priority, wanted.options.needs or "")
    moved = lane.id != job.lane or wanted.options.fair_key != job.options.fair_key
    if job.state is not State.READY:
        if regated:
            leave(tables, job, now, ended=True)
        _write(job, wanted, lane.id)
        if at is not None and at <= now and not job.after:
            tables.offer(job, now, turn=True)
        elif at is not None:
            job.run_at = at
            job.put_off_waits(at)
        return
    later = at is not None and at > now
    waits = job.gate is not None and job.gate.startswith(("order:", "key:", "task:"))
    rings = job.gate is None and job.reason is not None
    if not later and not regated and (waits or (rings and not moved)):
        _write(job, wanted, lane.id)
        return
    line = job.gate
    job.stand(None)
    if regated:
        leave(tables, job, now, ended=True)
    if any(map(is_budget, job.passes)) or job.tickets:
        spend(tables, job)
    if line is not None and lets_in(line):
        let_in(tables, line, now)
    _write(job, wanted, lane.id)
    job.reason = None
    if later:
        for wait in job.waits.values():
            wait.suspended = False
        tables.defer(job, State.SCHEDULED, at, now)
    else:
        enter(tables, job, now)


def _wanted(job: Job, change: JobChange, now: float) -> NewJob:
    at = now + change.delay if change.delay is not None else change.run_at
    kept = {**msgspec.structs.asdict(job.options), **change.options}
    options = type(job.options)(**{name: value for name, value in kept.items() if value is not None})
    if at is not None and options.expires_at is not None and options.expires is not None:
        options = msgspec.structs.replace(options, expires_at=deadline(now, at, options.expires))
    return NewJob(
        task=job.task,
        payload=job.payload if change.payload is None else change.payload,
        queue=change.queue or job.queue,
        priority=job.priority if change.priority is None else change.priority,
        options=options,
    )


def _write(job: Job, wanted: NewJob, lane: int) -> None:
    job.queue, job.priority, job.lane = wanted.queue, wanted.priority, lane
    job.payload, job.options = wanted.payload, wanted.options


def _own_gates(tables: Tables, job: Job | NewJob) -> list[str]:
    return [gate.name for gate in gates(tables, job) if is_own(gate.name)]
