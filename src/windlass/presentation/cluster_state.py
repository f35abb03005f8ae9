"""The state of the cluster as the store has it: queues, depths, workers and their slots, short budgets,
gates. Cheap enough to read every second."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from windlass.core.abilities import missing
from windlass.presentation.text import span
from windlass.presentation.waiting import abilities_in, load_in_words
from windlass.store.protocol import Store
from windlass.store.records import BudgetRecord, ClusterView, Depth, GateRecord, QueueRecord, WorkerRecord

MAX_GATES: Final = 5
LONG_RUN: Final = 600.0
"""Seconds that jobs may keep every slot of a queue, and others wait for one, before its slots count as
stuck."""


class Stuck(msgspec.Struct, frozen=True):
    """Slots of a queue that have run the same jobs for long."""

    slots: int
    since: float
    """When the last of them took its job."""

    def in_words(self, now: float) -> str:
        """Say how many, and for how long."""
        slots = "its only slot has" if self.slots == 1 else f"all of its {self.slots:,} slots have"
        return f"{slots} run the same {'job' if self.slots == 1 else 'jobs'} for {span(now - self.since)}"


class ClusterState(msgspec.Struct, frozen=True):
    """The state at one moment: `at` by the wall clock, `tick` by the monotonic one."""

    view: ClusterView
    depth: dict[str, Depth]
    workers: list[WorkerRecord]
    at: float
    tick: float
    short: list[BudgetRecord] = []
    """Budgets that have no token, that jobs wait for, or whose breaker is not closed; see
    `read_full_state`."""
    gates: list[GateRecord] = []
    """The gates with the longest waits; see `read_full_state`."""
    known_stuck: dict[str, Stuck | None] = {}
    """The answers of `stuck`, by queue: it looks at every worker, and each worker asks for its queues."""

    def names(self) -> list[str]:
        """Every queue, by name."""
        return sorted(self.view.queues.keys() | self.depth.keys())

    def queue(self, name: str) -> QueueRecord:
        """The settings of a queue, and how it stands; one that was never declared has the defaults."""
        return self.view.queues.get(name, QueueRecord(name=name))

    def depth_of(self, name: str) -> Depth:
        """How many jobs of a queue stand where."""
        return self.depth.get(name, Depth())

    def runnable(self, name: str) -> int:
        """How many jobs of a queue more slots would run now: waiting work that no pause, cool-down, limit,
        budget, `parallel`, or want of an ability holds back [M7] [K14]."""
        queue, depth = self.queue(name), self.depth_of(name)
        if queue.paused or queue.cooling > 0:
            return 0
        free = max(0, depth.free - sum(self.unable(name).values()))
        if queue.concurrency is None:
            return free
        return max(0, min(free, queue.concurrency - depth.running))

    def unable(self, name: str) -> dict[str, int]:
        """Return how many waiting jobs of a queue no live worker that serves it is able to run, by what
        they need [K14]. Where nobody serves it there are none of these: that is said of the queue."""
        return unable(name, self.depth_of(name), self.workers)

    def stuck(self, name: str) -> Stuck | None:
        """Every slot of a queue, where all of them have run the same jobs for LONG_RUN, and jobs that nothing
        else holds have waited as long."""
        if name not in self.known_stuck:
            self.known_stuck[name] = self._stuck(name)
        return self.known_stuck[name]

    def _stuck(self, name: str) -> Stuck | None:
        if (self.depth_of(name).oldest or 0.0) < LONG_RUN or not self.runnable(name):
            return None
        began: list[float] = []
        for worker in self.workers:
            slots = self.view.slots.get(worker.id, {}).get(name, 0)
            mine = _long_runs(worker, name, slots, self.at - LONG_RUN)
            if len(mine) < slots:
                return None
            began += mine
        return Stuck(len(began), max(began)) if began else None

    def stuck_in_words(self, name: str) -> str:
        """Say how many slots of a queue are stuck, and for how long; nothing where they are not."""
        found = self.stuck(name)
        return "" if found is None else found.in_words(self.at)

    def in_words(self, name: str) -> str:
        """Say how a queue is doing, for a listing; nothing where all is well."""
        return "; ".join(filter(None, (load_in_words(self.queue(name)), self.stuck_in_words(name))))

    def stuck_since(self, worker: WorkerRecord) -> float | None:
        """Since when a worker is one of those whose slots of a queue are stuck."""
        found = [self.stuck(name) for name in self.view.slots.get(worker.id, {})]
        return min((stuck.since for stuck in found if stuck is not None), default=None)

    def slots(self) -> Counter[str]:
        """How many slots of each queue are assigned over all workers."""
        total: Counter[str] = Counter()
        for assigned in self.view.slots.values():
            total.update(assigned)
        return total


def unable(queue: str, depth: Depth, workers: Iterable[WorkerRecord]) -> dict[str, int]:
    """See ClusterState.unable."""
    if not depth.needs:
        return {}
    able = abilities_in(queue, workers)
    return {needs: n for needs, n in depth.needs.items() if able and missing(needs, able)}


def _long_runs(worker: WorkerRecord, queue: str, slots: int, until: float) -> list[float]:
    """When the runs in a worker's slots of a queue began, of those that began by then."""
    vitals, told = worker.vitals, worker.vitals_at
    if not slots or vitals is None or told is None:
        return []
    began = [busy.since for busy in vitals.jobs if busy.queue == queue and busy.since <= until]
    if len(began) >= slots:
        return began
    if told <= until:  # its heartbeats come from another process: a handler blocks its loop
        return [told] * slots
    if vitals.newest is not None and vitals.newest <= until and vitals.running >= vitals.slots:
        return [vitals.newest] * slots  # `jobs` has only some of them
    return began


async def read_state(store: Store) -> ClusterState:
    """Three reads, none of which scans a log."""
    workers = await store.workers()
    view = await store.cluster_view([worker.id for worker in workers if worker.alive])
    return ClusterState(view, await store.depth(), workers, time.time(), time.monotonic())


async def read_full_state(store: Store) -> ClusterState:
    """The state with short budgets and gates: two more reads."""
    state = await read_state(store)
    short = [budget for budget in await store.budgets() if is_short(budget)]
    return msgspec.structs.replace(state, short=short, gates=await store.gates(MAX_GATES))


def is_short(budget: BudgetRecord) -> bool:
    """Return whether jobs wait for a budget, or would have to."""
    return budget.waiting > 0 or budget.paused_for > 0 or budget.tokens < 1 or budget.state != "closed"
