"""How many jobs of a queue stand where. Who waits at a gate, or for a turn, is ready like any other."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from windlass.core.states import State
from windlass.store.records import Depth

if TYPE_CHECKING:
    from tests.model.oracle.tables import Tables


def depth(tables: Tables, queue: str, now: float = 0.0) -> Depth:
    """The counts of one queue; a time is needed by those who ask for the oldest."""
    mine = [job for job in tables.jobs.values() if job.queue == queue]
    counts = Counter(job.state for job in mine)
    since = [job.since for job in mine if job.state is State.READY]
    return Depth(
        ready=counts[State.READY],
        running=counts[State.RUNNING],
        scheduled=counts[State.SCHEDULED],
        retrying=counts[State.RETRYING],
        dead=counts[State.DEAD],
        oldest=now - min(since) if since else None,
        offered=sum(lane.drawn for lane in tables.lanes.values() if lane.queue == queue),
    )
