"""One read of the store for all metrics together. What is not cheap is read apart, and less often."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from windlass.core.rollup import Sample, with_ends
from windlass.presentation.cluster_state import ClusterState, read_state
from windlass.store.protocol import Store
from windlass.store.records import BudgetRecord, GateRecord, Health, ScheduleRecord, TaskDepth

MAX_TASKS: Final = 500
"""Pairs of queue and task that are told of; names of tasks come from producers, so there may be any
number."""
MAX_ORDERED: Final = 50
"""Queues that are asked for the ages of their ordering keys."""
_KEYS: Final = 100
_GATES: Final = 1000
_ORDER: Final = "order:"


class Slow(msgspec.Struct, frozen=True):
    """Readings that are not cheap."""

    tasks: list[TaskDepth] = []
    ages: Mapping[str, float] = {}
    """Queue → age of its oldest ordering key, where it has any [F6]."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one scrape says."""

    state: ClusterState
    now: float
    latency: float
    """Seconds that the store took to say what time it is."""
    budgets: list[BudgetRecord]
    schedules: list[ScheduleRecord]
    health: Health
    everything: Sample
    """The counts over all queues and tasks."""
    tasks: list[Sample]
    """The counts of each task in each queue, those with the most runs, by name."""
    left_out: int
    """How many of those are not told of."""
    slow: Slow
    logins: Mapping[str, int] = {}
    """Why this process of Mission Control has refused how many."""


async def read(store: Store, slow: Slow) -> Reading:
    """Nine cheap questions."""
    began = time.monotonic()
    now = await store.now()
    latency = time.monotonic() - began
    totals = with_ends(await store.totals(), await store.ended())
    tasks, left_out = _most([each for each in totals if each.task])
    return Reading(
        state=await read_state(store),
        now=now,
        latency=latency,
        budgets=await store.budgets(),
        schedules=await store.schedules(),
        health=await store.health(),
        everything=next((each for each in totals if not each.queue and not each.task), Sample(at=0)),
        tasks=tasks,
        left_out=left_out,
        slow=slow,
    )


async def read_slow(store: Store) -> Slow:
    """How many jobs of each task are ready, and how old the ordering keys are."""
    queues = [queue.name for queue in await store.queues()][:MAX_ORDERED]
    longest = _longest(await store.gates(_GATES))
    ages: dict[str, float] = {}
    for queue in queues:
        keys = await store.watermarks(queue, limit=_KEYS)
        if (
            len(keys) == _KEYS and queue in longest
        ):  # there may be more, so look at the one that waits longest
            keys += await store.watermarks(queue, key=longest[queue])
        if keys:
            ages[queue] = max(each.age for each in keys)
    return Slow(await store.task_depths(), ages)


def _longest(gates: Iterable[GateRecord]) -> dict[str, str]:
    """Queue → the ordering key whose first job has waited longest; gates come in that order."""
    found: dict[str, str] = {}
    for gate in gates:
        if gate.name.startswith(_ORDER):
            queue, _, key = gate.name.removeprefix(_ORDER).partition("/")
            found.setdefault(queue, key)
    return found


def _most(samples: list[Sample]) -> tuple[list[Sample], int]:
    """The most used ones; which these are hardly ever changes, so their series go on."""
    kept = sorted(samples, key=lambda each: -sum(each.counts.values()))[:MAX_TASKS]
    return sorted(kept, key=lambda each: (each.queue, each.task)), len(samples) - len(kept)
