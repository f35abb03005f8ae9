"""One look at the whole store, cheap enough to take every second: queues, depths, workers and their slots."""

from __future__ import annotations

import time
from collections import Counter
from typing import Final

import msgspec

from windlass.store.flow import BudgetRecord, GateRecord
from windlass.store.protocol import Store
from windlass.store.records import Depth, Steering, WorkerRecord

MOST_GATES: Final = 5


class Sample(msgspec.Struct, frozen=True):
    """What one look saw, and when: `at` by the wall clock, `tick` by the monotonic one."""

    steering: Steering
    depth: dict[str, Depth]
    workers: list[WorkerRecord]
    at: float
    tick: float
    short: list[BudgetRecord] = []
    """Budgets that have no token, that jobs wait for, or whose breaker is not closed; see `look_closer`."""
    gates: list[GateRecord] = []
    """The gates with the longest waits; see `look_closer`."""

    def names(self) -> list[str]:
        """Every queue, by name."""
        return sorted(self.steering.queues.keys() | self.depth.keys())

    def slots(self) -> Counter[str]:
        """How many slots of each queue are assigned over all workers."""
        total: Counter[str] = Counter()
        for assigned in self.steering.slots.values():
            total.update(assigned)
        return total


async def look(store: Store) -> Sample:
    """Three questions, none of which scans a log."""
    workers = await store.workers()
    steering = await store.steering([worker.id for worker in workers if worker.alive])
    return Sample(steering, await store.depth(), workers, time.time(), time.monotonic())


async def look_closer(store: Store) -> Sample:
    """Two questions more: what jobs stand aside for."""
    sample = await look(store)
    short = [budget for budget in await store.budgets() if is_short(budget)]
    return msgspec.structs.replace(sample, short=short, gates=await store.gates(MOST_GATES))


def is_short(budget: BudgetRecord) -> bool:
    """Whether somebody waits for a budget, or would have to."""
    return budget.waiting > 0 or budget.blocked > 0 or budget.tokens < 1 or budget.state != "closed"
