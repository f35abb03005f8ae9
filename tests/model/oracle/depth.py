"""How many jobs of a queue stand where. Who waits at a gate, or for a turn, is ready like any other."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from windlass.core.states import State
from windlass.store.records import Depth

if TYPE_CHECKING:
    from tests.model.oracle.tables import Tables


def offered_depth(tables: Tables, queue: str, now: float = 0.0) -> Depth:
    """The counts of one queue without parts that are not offered yet: what load is judged by [F4] [F5]."""
    mine = [job for job in tables.jobs.values() if job.queue == queue]
    counts = Counter(job.state for job in mine)
    ready = [job for job in mine if job.state is State.READY]
    lanes = [lane for lane in tables.lanes.values() if lane.queue == queue]
    return Depth(
        ready=len(ready),
        running=counts[State.RUNNING],
        scheduled=counts[State.SCHEDULED],
        retrying=counts[State.RETRYING],
        dead=counts[State.DEAD],
        oldest=now - min(job.since for job in ready) if ready else None,
        offered=sum(lane.drawn for lane in lanes),
        free=sum(job.gate is None for job in ready),
        needs={
            needs: n
            for needs in {lane.needs for lane in lanes if lane.needs}
            if (n := sum(len(lane.waiting) for lane in lanes if lane.needs == needs))
        },
    )


def depth(tables: Tables, queue: str, now: float = 0.0) -> Depth:
    """The counts of one queue; a time is needed by those who ask for the oldest."""
    jobs = offered_depth(tables, queue, now)
    ages = [] if jobs.oldest is None else [jobs.oldest]
    pending_parts = free = 0
    for parent in tables.parents.values():
        standing = parent.standing()
        if parent.job.queue != queue or parent.ended or standing.cancelling or not standing.pending:
            continue
        ages.append(now - parent.created_at)
        pending_parts += standing.pending
        waiting = (part.job for part in parent.parts if part.job is not None and not part.claimed)
        if not any(job.state is State.READY and job.gate is not None for job in waiting):
            room = standing.pending if standing.parallel is None else standing.parallel - standing.out
            free += max(0, min(standing.pending, room))
    return msgspec.structs.replace(
        jobs,
        ready=jobs.ready + pending_parts,
        oldest=max(ages, default=None),
        pending_parts=pending_parts,
        free=jobs.free + free,
    )
