"""Whether queues take new jobs: load shedding [F5], then backpressure [F4]. The decisions are those of
`core.admission`; here are the measures, and the counts of what was turned away.

A refusal is an answer, not an exception, until its transaction has committed: what it counts must last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from windlass.core import admission as core
from windlass.core.states import Priority
from windlass.errors import QueueFull, Refused, Shed
from windlass.store.records import NewJob
from windlass.store.sqlite import lookup
from windlass.store.sqlite.statements import Statements
from windlass.store.sqlite.transaction import Transaction

_SQL = Statements("admission")
LATENCY_COUNTS: Final = 30.0
"""Seconds for which an observed latency counts."""


@dataclass(slots=True)
class Load:
    """A queue with limits on its load, as it stands before an enqueue."""

    queue: str
    max_depth: int | None
    depth: int
    pressure: core.Pressure
    level: float

    @property
    def hint(self) -> float | None:
        """How full it is, where that is worth a word."""
        fill = self.depth / self.max_depth if self.max_depth else 0.0
        return fill if fill >= core.SOFT else None


def judge(tx: Transaction, jobs: Sequence[NewJob]) -> tuple[Refused | None, dict[str, Load]]:
    """Whether these jobs are refused, and the queues with limits that they go to."""
    watch(tx)
    loads: dict[str, Load] = {}
    for (queue, priority), n in Counter((job.queue, job.priority) for job in jobs).items():
        if queue not in tx.limits.queues:
            continue
        load = loads[queue] = loads.get(queue) or _load(tx, queue)
        refused = _refusal(load, priority)
        if refused is not None:
            tx.run(_SQL["count_shed" if isinstance(refused, Shed) else "count_refused"], (n, queue))
            return refused, loads
    return None, loads


def watch(tx: Transaction) -> None:
    """Bring the pressure on queues up to date with their depth: it falls later than it rises, and so has to
    remember [F4]."""
    tx.lanes.save()
    for queue in tx.limits.queues:
        found = tx.one(_SQL["limits"], (queue,))
        assert found is not None, "a queue with limits is gone"
        max_depth, *_, before, depth = found
        now = core.pressure(int(depth), max_depth, before)
        if now != before:
            tx.run(_SQL["press"], (now, queue))


def observe(tx: Transaction, latency: float) -> None:
    """How long the store took to answer lately."""
    tx.run(_SQL["observe"], (latency, tx.now))


def _load(tx: Transaction, queue: str) -> Load:
    found = tx.one(_SQL["limits"], (queue,))
    assert found is not None, "a queue with limits is gone"
    max_depth, shed_depth, shed_wait, shed_latency, before, counted = found
    depth = int(counted)
    wait = latency = 0.0
    if shed_wait is not None:
        wait = lookup.depth(tx.connection, [queue], tx.now)[queue].oldest or 0.0
    if shed_latency is not None:
        observed = tx.one(_SQL["latency"], (tx.now - LATENCY_COUNTS,))
        latency = observed[0] if observed else 0.0
    pressure = core.pressure(depth, max_depth, before)
    level = core.shed_level(depth, wait, latency, (shed_depth, shed_wait, shed_latency))
    return Load(queue, max_depth, depth, pressure, level)


def _refusal(load: Load, priority: int) -> Refused | None:
    name = Priority(priority).name.lower()
    if core.is_shed(load.level, priority):
        return Shed(
            f"queue {load.queue} is at {load.level:.0%} of what it can bear, and takes no job of priority "
            f"{name} now; try again in {core.SHED_RETRY_AFTER:g} s",
            load.queue,
            core.SHED_RETRY_AFTER,
            load.level,
        )
    if core.is_full(load.depth, load.max_depth, load.pressure, priority):
        return QueueFull(
            f"queue {load.queue} is full: {load.depth} jobs are ready, and its max_depth is "
            f"{load.max_depth}; try again in {core.FULL_RETRY_AFTER:g} s",
            load.queue,
            core.FULL_RETRY_AFTER,
        )
    return None
