"""Looking: a job by its id, its checkpoint, and the counts of queues. Nothing here writes, and nothing here
waits for a writer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from windlass.core import gates
from windlass.core.ids import SEQ_BITS
from windlass.core.states import FINISHED, State
from windlass.errors import JobNotFound
from windlass.store.records import Checkpoint, Depth, JobRecord
from windlass.store.sqlite import after
from windlass.store.sqlite.rows import (
    ENDED,
    HELD,
    OFFERED,
    SCHEDULED,
    STATES,
    encode,
    failures,
    fetch,
    readable_options,
)
from windlass.store.sqlite.statements import Statements

_SQL = Statements("lookup")
Found = tuple[Any, ...]


class Seen:
    """A job row as readers see it, with what its lane says about it."""

    __slots__ = (
        "attempt", "cancel", "deaths", "enqueued_at", "errors", "gate", "hi", "number", "options", "own_id",
        "payload", "pos", "priority", "queue", "reason", "result", "run_at", "state_number", "task",
        "touched_at",
    )  # fmt: skip

    def __init__(self, found: Found) -> None:
        (
            self.number, self.pos, self.own_id, self.state_number, self.touched_at, self.enqueued_at,
            self.attempt, self.deaths, self.task, self.payload, self.options, self.run_at, self.cancel,
            self.reason, self.errors, self.result, self.queue, self.priority, self.hi, self.gate,
        ) = found  # fmt: skip

    @property
    def id(self) -> int:
        """Its place, unless it was given an id before it had one."""
        id: int = self.pos if self.own_id is None else self.own_id
        return id

    @property
    def state(self) -> State:
        """The public state; the cursor of its lane tells ready from running."""
        if self.state_number not in OFFERED:
            return STATES[self.state_number]
        if self.pos > self.hi:
            return State.READY
        return State.SPLITTING if readable_options(self.options).chunked else State.RUNNING


def job(connection: apsw.Connection, id: int) -> JobRecord | None:
    """The job with this id in whatever state, or None."""
    seen = seen_job(connection, id)
    return record(connection, seen) if seen is not None else None


def seen_job(connection: apsw.Connection, id: int) -> Seen | None:
    """The row of the job with this id."""
    if not 0 < id < 1 << 63:
        return None
    found = connection.execute(_SQL["job"], (id, id)).fetchone()
    return Seen(found) if found else None


def finished_job(connection: apsw.Connection, id: int) -> JobRecord | None:
    """The job if it has ended, None if it has not. Raises JobNotFound."""
    found = job(connection, id)
    if found is None:
        raise JobNotFound(f"no job {id}: it never existed, was deleted, or its retention has passed")
    return found if found.state in FINISHED else None


def record(connection: apsw.Connection, seen: Seen) -> JobRecord:
    """A job with everything the store knows about it."""
    id, ended = seen.id, seen.state_number in ENDED
    state = seen.state
    claim: Found | None = None
    if (ended and seen.pos >> SEQ_BITS) or state in (State.RUNNING, State.SPLITTING):
        claim = connection.execute(_SQL["claim_of"], (seen.pos,)).fetchone()
    claim_id, worker, claimed_at = claim or (None, None, None)
    reason = seen.reason
    if seen.state_number == SCHEDULED and seen.run_at is None:
        reason = after.reason(connection, id)
    elif seen.state_number == HELD:
        reason = gates.reason(seen.gate or gates.FAIR)
    return JobRecord(
        id=id,
        task=seen.task,
        queue=seen.queue,
        priority=seen.priority,
        state=state,
        payload=seen.payload,
        attempt=seen.attempt,
        deaths=seen.deaths,
        options=readable_options(seen.options),
        enqueued_at=seen.enqueued_at,
        run_at=seen.run_at,
        claimed_at=claimed_at,
        finished_at=seen.touched_at if ended else None,
        worker=worker,
        claim=claim_id,
        cancel_requested=seen.cancel is not None,
        reason=reason,
        errors=failures(seen.errors),
        result=seen.result,
        checkpoint=None if ended else checkpoints(connection, [id]).get(id),
    )


def checkpoints(connection: apsw.Connection, jobs: Sequence[int]) -> dict[int, Checkpoint]:
    """The checkpoints of these jobs, for those that have one."""
    wanted = encode([job for job in jobs if 0 < job < 1 << 63]).decode()
    found = connection.execute(_SQL["checkpoints"], (wanted,))
    return {job: Checkpoint(data, done, total, at) for job, data, done, total, at in found}


def depth(connection: apsw.Connection, queues: Sequence[str] | None, now: float) -> dict[str, Depth]:
    """The counts of queues, summed up over their lanes."""
    known: dict[str, Depth] = {}
    for queue, lane, window, *counts in fetch(connection, _SQL["depth"]):
        if queues is None or queue in queues:
            mine = _lane_depth(connection, lane, window, counts, now)
            known[queue] = _sum(known[queue], mine) if queue in known else mine
    return known if queues is None else {name: known.get(name, Depth()) for name in queues}


def _lane_depth(connection: apsw.Connection, lane: int, window: int, counts: list[int], now: float) -> Depth:
    """The counters of a lane, and the age of its oldest ready job. That one is near the head: one that its
    fair key let in late has fewer than `window` others before it. Who is put into a lane draws a place."""
    ready, held, running, scheduled, retrying, dead, drawn = counts
    oldest = None
    if ready + held:
        since = connection.execute(_SQL["oldest"], (lane, min(window, 1000))).get
        oldest = now - since
    return Depth(ready + held, running, scheduled, retrying, dead, oldest, offered=drawn)


def _sum(one: Depth, other: Depth) -> Depth:
    ages = [depth.oldest for depth in (one, other) if depth.oldest is not None]
    return Depth(
        ready=one.ready + other.ready,
        running=one.running + other.running,
        scheduled=one.scheduled + other.scheduled,
        retrying=one.retrying + other.retrying,
        dead=one.dead + other.dead,
        oldest=max(ages, default=None),
        offered=one.offered + other.offered,
    )
