"""What becomes of the jobs of a child that is no more: at once, without waiting for its lease [C8].

The board says which jobs it was running. What it had claimed and not started goes back as if nothing had
happened, and so does what ran beside a job that we had to kill the child for; that one has failed its
attempt. Where the child died by itself, each job that ran may be the reason: it gets one death more, and the
store does with it what the policy says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from itertools import count
from typing import Final

from windlass.core.retry import Backoff, DeathPolicy
from windlass.core.states import Kind
from windlass.errors import WorkerLost
from windlass.store.protocol import Store
from windlass.store.records import ClaimedJob, Failure, Outcome
from windlass.worker.runner import name

logger = logging.getLogger("windlass.worker")
_flushes: Final = count(1 << 40)
"""Numbers far beyond any that a child itself can have used. Each is used once, also when a step is tried
again: what is sent then may be other jobs."""

BATCH: Final = 1000
TRIES: Final = 10
TRY_EVERY: Final = 0.2


async def hand_back(
    store: Store,
    worker: int,
    running: Collection[int],
    overdue: Collection[int],
    *,
    crashed: bool,
    policy: DeathPolicy,
) -> None:
    """Settle what a dead child held. `running` are the jobs on its board, `overdue` those it was killed
    for."""
    held = [job for claim in await store.held(worker) for job in claim.jobs]
    suspects = [job for job in held if crashed and job.id in running and job.id not in overdue]
    outcomes = [
        _killed(job) if job.id in overdue else Outcome(job=job, kind=Kind.RELEASED)
        for job in held
        if job not in suspects
    ]
    try:
        for start in range(0, len(outcomes), BATCH):
            await store.finish(worker, next(_flushes), outcomes[start : start + BATCH])
    except WorkerLost:
        return  # somebody else was faster
    if suspects:
        for job in suspects:
            logger.error("%s was running when its worker died", name(job))
        beat = next((record.beat for record in await store.workers() if record.id == worker), 0)
        await _rescue(store, worker, beat, policy)
    else:
        await store.retire(worker)


async def _rescue(store: Store, worker: int, beat: int, policy: DeathPolicy) -> None:
    """Charge the deaths. The store may not have noticed yet that the dead one's last write is over. To retire
    it instead would charge nothing, and a job that kills every worker would go on doing so."""
    for _ in range(TRIES):
        rescued = await store.rescue(worker, beat, policy)
        if rescued is not None:
            logger.warning(
                "jobs of the dead worker: %d offered again, %d after a pause, %d dead as poison",
                rescued.offered,
                rescued.deferred,
                rescued.dead,
            )
            return
        await asyncio.sleep(TRY_EVERY)
    logger.warning("worker %d cannot be rescued yet; its jobs wait until its lease is over", worker)


def _killed(job: ClaimedJob) -> Outcome:
    logger.error("%s did not end when its time was over; its worker was killed", name(job))
    failure = Failure(
        "TimeoutError", "did not end when its time was over; its worker was killed", "", job.attempt
    )
    return Outcome(job=job, kind=Kind.RETRY, delay=Backoff().delay(job.attempt), error=failure)
