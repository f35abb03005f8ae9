"""Whether a queue takes new jobs: shedding [F5] first, then backpressure [F4]. The decision is
`core.flow.admission`'s."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from tests.model.oracle.depth import offered_depth
from windlass.core.flow.admission import LATENCY_COUNTS, hint, pressure, refusal, shed_level
from windlass.errors import Shed
from windlass.store.records import NewJob

if TYPE_CHECKING:
    from tests.model.oracle.tables import Tables


def watch(tables: Tables) -> None:
    """Bring the pressure on queues up to date with their depth, which it remembers having passed [F4]."""
    for name, queue in tables.queues.items():
        if queue.max_depth is not None or queue.pressure != "none":
            ready = offered_depth(tables, name).ready
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
        standing = offered_depth(tables, name, now)
        level = shed_level(standing.ready, standing.oldest or 0.0, _latency(tables, now), limits)
        refused = refusal(name, priority, standing.ready, queue.max_depth, queue.pressure, level)
        if refused is not None:
            counted = "shed" if isinstance(refused, Shed) else "refused"
            tables.queues[name] = msgspec.structs.replace(queue, **{counted: getattr(queue, counted) + n})
            raise refused
        if (full := hint(standing.ready, queue.max_depth)) is not None:
            hints[name] = full
    return hints


def _latency(tables: Tables, now: float) -> float:
    """How long the store took to answer lately, if anybody has said so."""
    latency, at = tables.latency
    return latency if now < at + LATENCY_COUNTS else 0.0
