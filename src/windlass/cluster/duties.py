"""Duties of a coordinator, as steps that can be run once, by anybody, at any time, with their counts [K3].

Each is idempotent: two that meet do the work of one. Only the assignment of slots replaces what is there, so
it carries the number of the coordinator's term, and the store refuses one that has passed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

import msgspec

from windlass.cluster.watch import HeartbeatWatch
from windlass.core.flow.governor import Governor
from windlass.core.retry import DeathPolicy
from windlass.core.slots import split
from windlass.presentation.cluster_state import unable
from windlass.presentation.text import span
from windlass.store.protocol import Store
from windlass.store.records import (
    Counted,
    Depth,
    Expired,
    Promoted,
    QueueRecord,
    Rescued,
    Rolled,
    Rotation,
    WorkerRecord,
)
from windlass.worker.reports.recorder import Recorder

S = TypeVar("S", Promoted, Rolled, Counted, Expired)
logger: Final = logging.getLogger("windlass.cluster")
STEPS: Final = 100
"""Bounded steps that one call takes at most, so that a duty never runs for ever."""

STEP: Final = 1000
NO_COUNTS: Final = frozenset({"more", "next_in"})
"""Fields of a step about the time after it: that of the last counts."""


async def promote(store: Store) -> Promoted:
    """Offer what is due and admit what waits for its turn, until there is nothing more right now."""
    return await _all_steps(store.promote, lambda step: step.due >= STEP or step.admitted >= STEP)


async def rollup(store: Store) -> Rolled:
    """Fold what processes have reported into the rows that charts are drawn from, and remove what has
    outlived its time, all there is [M1]. Needs no term: what was folded is folded once, whoever does it."""
    return await _all_steps(store.rollup, lambda step: step.more)


async def count_ends(store: Store) -> Counted:
    """Count what has ended, all there is [M7]. Needs no term: what was counted is counted once, whoever does
    it."""
    return await _all_steps(store.count_ends, lambda step: step.more)


async def govern(store: Store, term: int, record: Recorder | None = None) -> dict[str, Governor]:
    """Let the governor of each queue that has one decide on its rate [F2]. Raises TermLost."""
    decided: dict[str, Governor] = {}
    for each in await store.governed(term):
        before = each.governor or Governor.first(each.least, each.most)
        decided[each.queue] = after = before.step(each.window, each.least, each.most)
        await store.govern(term, each.queue, after)
        if after.rate < before.rate:
            message = f"lowered to {after.rate:.4g} a second, {after.why}"
            logger.warning("the governor of queue %s: %s", each.queue, message)
            if record is not None:
                record.note("governor", message, queue=each.queue)
    return decided


async def retention(store: Store) -> tuple[Rotation, Expired]:
    """Turn the logs where that is due, and remove what has outlived its retention [K6]."""
    return await store.rotate(), await expire(store)


async def expire(store: Store) -> Expired:
    """Remove the dead, the keys, the workers and the parents that have outlived their retention, all there
    are [K6]."""
    return await _all_steps(
        store.expire,
        lambda step: step.more or max(step.dead, step.keys, step.workers, step.parents) >= STEP,
    )


async def rescue(store: Store, policy: DeathPolicy, lease: float) -> list[tuple[WorkerRecord, Rescued]]:
    """Watch heartbeats for a whole lease, then take back the jobs of workers that sent none [C8]."""
    watch = HeartbeatWatch()
    longest = lease
    for worker in await store.workers():
        longest = max(longest, worker.lease)
    watch.look(await store.workers())
    await asyncio.sleep(longest)
    return await rescue_dead(store, watch.look(await store.workers()), policy)


async def rescue_dead(
    store: Store, dead: Iterable[WorkerRecord], policy: DeathPolicy, record: Recorder | None = None
) -> list[tuple[WorkerRecord, Rescued]]:
    """Take back the jobs of these workers, unless they sent a heartbeat since or are writing right now."""
    done: list[tuple[WorkerRecord, Rescued]] = []
    for worker in dead:
        rescued = await store.rescue(worker.id, worker.heartbeat, policy)
        if rescued is None:
            continue
        done.append((worker, rescued))
        if record is not None:
            why = f"process {worker.pid} on {worker.host} sent no heartbeat for {span(worker.lease)}"
            record.lost(worker.label, why)
            record.rescued(worker.label, rescued)
        logger.warning(
            "worker %s (pid %d on %s) is dead: %d of its jobs are offered again, %d after a pause, %d are "
            "dead as poison, %d cancelled",
            worker.label or worker.id,
            worker.pid,
            worker.host,
            rescued.offered,
            rescued.deferred,
            rescued.dead,
            rescued.cancelled,
        )
    return done


async def assign_slots(
    store: Store, term: int, known: dict[int, dict[str, int]] | None = None
) -> dict[int, dict[str, int]]:
    """Share every queue's slots out over the living workers that serve it [K1]. Raises TermLost.

    `known` is what the same term assigned last: when that is still right, nothing is written."""
    slots = shares(await store.queues(), await store.workers())
    if slots != known:
        await store.assign(term, slots)
    return slots


def shares(queues: Iterable[QueueRecord], workers: Iterable[WorkerRecord]) -> dict[int, dict[str, int]]:
    """Worker → queue → slots. Those who joined first come first, so that a join moves few."""
    living = sorted((w for w in workers if w.alive), key=lambda worker: (worker.started_at, worker.id))
    slots: dict[int, dict[str, int]] = {}
    for queue in queues:
        if queue.max_workers is None:
            continue
        serving = [worker.id for worker in living if queue.name in worker.queues]
        for worker, n in split(queue.max_workers, serving).items():
            slots.setdefault(worker, {})[queue.name] = n
    return slots


async def unserved(store: Store) -> tuple[dict[str, Depth], dict[tuple[str, str], int]]:
    """Queues with jobs ready that no living worker serves; and of the others how many jobs none of their
    workers is able to run, by queue and what they need [K14]."""
    workers, depths = await store.workers(), await store.depth()
    served = {queue for worker in workers if worker.alive for queue in worker.queues}
    queues = {queue: depth for queue, depth in depths.items() if depth.ready and queue not in served}
    no_ability = {
        (queue, needs): n
        for queue, depth in depths.items()
        for needs, n in unable(queue, depth, workers).items()
    }
    return queues, no_ability


async def _all_steps(take: Callable[[int], Awaitable[S]], more: Callable[[S], bool]) -> S:
    """Take bounded steps until there is nothing more, and add up what they have counted."""
    total = step = await take(STEP)
    for _ in range(1, STEPS):
        if not more(step):
            break
        step = await take(STEP)
        counted = [name for name in step.__struct_fields__ if name not in NO_COUNTS]
        sums = {name: getattr(total, name) + getattr(step, name) for name in counted}
        total = msgspec.structs.replace(step, **sums)
    return total
