"""Handing back the jobs of a dead child: at once, without waiting for its lease [C8].

The status memory says which jobs it was running. What it had claimed and not started goes back as if nothing
had happened, and so does what ran beside a job that we had to kill the child for; that one has failed its
attempt. Where the child died by itself, each job that ran may be the reason: it gets one death more, and the
store does with it what the policy says.

Where the store does not answer, `insist` tries again until it does, or until the supervisor has to leave:
then the jobs come back when the lease expires.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Collection
from itertools import count
from typing import Final

from windlass.core.retry import Backoff, DeathPolicy
from windlass.core.states import Kind
from windlass.errors import SchemaMissing, StoreError, WorkerLost
from windlass.running.outages import OutageLog
from windlass.store.protocol import Store
from windlass.store.records import ClaimedJob, Failure, Outcome, Rescued
from windlass.worker.engine.waiting import RECONNECT, first
from windlass.worker.handlers.error_outcomes import name
from windlass.worker.processes.shutdown import Shutdown
from windlass.worker.reports.recorder import Recorder

logger: Final = logging.getLogger("windlass.worker")
_flushes: Final = count(1 << 40)
"""Numbers far beyond any that a child itself can have used. Each is used once, also when a step is tried
again: what is sent then may be other jobs."""

BATCH: Final = 1000
TRIES: Final = 10
TRY_EVERY: Final = 0.2
UNEXPECTED: Final = 5
"""How many unexpected errors are met before the jobs are left to the lease."""


async def hand_back(
    store: Store,
    worker: int,
    running: Collection[int],
    overdue: Collection[int],
    *,
    crashed: bool,
    policy: DeathPolicy,
    backoff: Callable[[str], Backoff],
    record: Recorder | None = None,
) -> None:
    """Settle what a dead child held. `running` are the jobs in its status memory, `overdue` those it was
    killed for; `backoff` is how a queue spaces retries. `record` counts it, by name where the task's code is
    here: one of its jobs ran."""
    record = record or Recorder()
    held = [job for claim in await store.unfinished(worker) for job in claim.jobs]
    crashed_jobs = [job for job in held if crashed and job.id in running and job.id not in overdue]
    outcomes = [
        _killed(job, backoff(job.queue))
        if job.id in overdue
        else Outcome(job=job, kind=Kind.RELEASED, began=job.id in running)
        for job in held
        if job not in crashed_jobs
    ]
    tasks = {job.task for job in held if job.id in running or job.id in overdue}
    try:
        for start in range(0, len(outcomes), BATCH):
            batch = outcomes[start : start + BATCH]
            finished = await store.finish(worker, next(_flushes), batch)
            record.flushed(batch, time.monotonic(), finished.refused, leaving=True, tasks=tasks)
    except WorkerLost:
        return  # somebody else was faster
    if crashed_jobs:
        for job in crashed_jobs:
            logger.error("%s was running when its worker died", name(job))
        known = next((each for each in await store.workers() if each.id == worker), None)
        rescued = await _rescue(store, worker, 0 if known is None else known.heartbeat, policy)
        if rescued is not None:
            label = "" if known is None else known.label
            record.rescued(label, rescued)
            for job in crashed_jobs:
                record.note("lost", "was running when its worker died", job=job, worker=label)
    else:
        await store.retire(worker)


async def _rescue(store: Store, worker: int, heartbeat: int, policy: DeathPolicy) -> Rescued | None:
    """Charge the deaths. The store may not have noticed yet that the dead one's last write is over. To retire
    it instead would charge nothing, and a job that kills every worker would go on doing so."""
    for _ in range(TRIES):
        rescued = await store.rescue(worker, heartbeat, policy)
        if rescued is not None:
            logger.warning(
                "jobs of the dead worker: %d offered again now, %d after a pause, %d dead as poison",
                rescued.offered,
                rescued.deferred,
                rescued.dead,
            )
            return rescued
        await asyncio.sleep(TRY_EVERY)
    logger.warning("worker %d cannot be rescued yet; its jobs wait until its lease expires", worker)
    return None


async def insist(
    step: Callable[[], Awaitable[None]], shutdown: Shutdown, on_failure: Callable[[], object] = lambda: None
) -> bool:
    """Retry a step of a hand-back until it is done. False: given up, since the supervisor has to leave, or
    after too many errors that waiting does not mend. `on_failure` is called after each failure."""
    trying = asyncio.create_task(_try(step, shutdown, on_failure))
    try:
        await first(trying, shutdown.out_of_time())
        return trying.done() and trying.result()
    finally:
        trying.cancel()
        await asyncio.gather(trying, return_exceptions=True)


async def _try(
    step: Callable[[], Awaitable[None]], shutdown: Shutdown, on_failure: Callable[[], object]
) -> bool:
    outages = OutageLog(logger)
    failures = unexpected = 0
    while True:
        try:
            await step()
        except StoreError as error:
            outages.failed("hand-back", "cannot hand jobs back yet: %s", error)
        except Exception as error:
            trace = None if isinstance(error, SchemaMissing) else error
            logger.error("jobs could not be handed back: %s", error, exc_info=trace)
            unexpected += 1
        else:
            outages.recovered("hand-back")
            return True
        on_failure()
        if shutdown.stopping_now.is_set() or unexpected >= UNEXPECTED:
            return False
        failures += 1
        await first(asyncio.sleep(RECONNECT.delay(failures, random.random())), shutdown.stopping_now.wait())


def _killed(job: ClaimedJob, backoff: Backoff) -> Outcome:
    logger.error("%s ignored its timeout; its worker was killed", name(job))
    failure = Failure("TimeoutError", "ignored its timeout; its worker was killed", "", job.attempt)
    delay = backoff.delay(job.attempt, random.random())
    return Outcome(job=job, kind=Kind.RETRY, delay=delay, error=failure)
