"""One look at the whole store, cheap enough to take every second: queues, depths, workers and their slots."""

from __future__ import annotations

import time
from collections import Counter

import msgspec

from windlass.store.protocol import Store
from windlass.store.records import Depth, Steering, WorkerRecord


class Sample(msgspec.Struct, frozen=True):
    """What one look saw, and when: `at` by the wall clock, `tick` by the monotonic one."""

    steering: Steering
    depth: dict[str, Depth]
    workers: list[WorkerRecord]
    at: float
    tick: float

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
