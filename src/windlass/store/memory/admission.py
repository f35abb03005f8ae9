"""Whether a queue takes new jobs: shedding [F5] first, then backpressure [F4]. The decision is
`core.admission`'s."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from windlass.core.admission import (
    FULL_RETRY_AFTER,
    SHED_RETRY_AFTER,
    SOFT,
    is_full,
    is_shed,
    pressure,
    shed_level,
)
from windlass.core.states import Priority
from windlass.errors import QueueFull, Shed
from windlass.store.memory.depth import depth
from windlass.store.records import NewJob

if TYPE_CHECKING:
    from windlass.store.memory.tables import Tables

NEWS: Final = 30.0
"""Seconds for which an observed latency of the store counts."""


def watch(tables: Tables) -> None:
    """Bring the pressure on queues up to date with their depth, which it remembers having passed [F4]."""
    for name, queue in tables.queues.items():
        if queue.max_depth is not None or queue.pressure != "none":
            ready = depth(tables, name).ready
            tables.queues[name] = msgspec.structs.replace(
                queue, pressure=pressure(ready, queue.max_depth, queue.pressure)
            )


def judge(tables: Tables, jobs: Sequence[NewJob], now: float) -> dict[str, float]:
    """Raise Shed or QueueFull, and count it, where a queue does not take these jobs. The answer says how full
    those are that are under pressure."""
    hints: dict[str, float] = {}
    for (name, priority), n in Counter((job.queue, job.priority) for job in jobs).items():
        queue = tables.queues.get(name)
        if queue is None:
            continue
        limits = queue.shed_depth, queue.shed_wait, queue.shed_latency
        if queue.max_depth is None and limits == (None, None, None):
            continue
        standing = depth(tables, name, now)
        level = shed_level(standing.ready, standing.oldest or 0.0, _latency(tables, now), limits)
        if is_shed(level, priority):
            tables.queues[name] = msgspec.structs.replace(queue, shed=queue.shed + n)
            raise Shed(
                f"queue {name} has no room for jobs of priority {Priority(priority).name.lower()} at "
                f"{level:.0%} of its limits: try again in {SHED_RETRY_AFTER:g} s, or raise these",
                name,
                SHED_RETRY_AFTER,
                level,
            )
        if is_full(standing.ready, queue.max_depth, queue.pressure, priority):
            tables.queues[name] = msgspec.structs.replace(queue, refused=queue.refused + n)
            raise QueueFull(
                f"queue {name} is full ({standing.ready} of {queue.max_depth} jobs are ready): try again in "
                f"{FULL_RETRY_AFTER:g} s, or raise its max_depth",
                name,
                FULL_RETRY_AFTER,
            )
        if queue.max_depth and standing.ready >= queue.max_depth * SOFT:
            hints[name] = standing.ready / queue.max_depth
    return hints


def _latency(tables: Tables, now: float) -> float:
    """How long the store took to answer lately, if anybody has said so."""
    latency, at = tables.latency
    return latency if now < at + NEWS else 0.0
