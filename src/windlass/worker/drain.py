"""Runs jobs in one process until nothing is left to do: what `app.run_until_idle()` is made of.

A drain is a small worker: it registers, claims into free slots, runs, writes outcomes back, beats, and
retires at the end, however that comes. It does no cluster duties: it promotes due jobs, but rescues nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from windlass.core.durations import Duration, seconds
from windlass.core.names import check_name
from windlass.core.states import Kind
from windlass.errors import ConfigurationError, WindlassError
from windlass.store.protocol import Store
from windlass.store.records import ClaimedJob, Outcome, WorkerInfo
from windlass.worker.heartbeat import EVERY, heartbeat
from windlass.worker.outcomes import OutcomeLog
from windlass.worker.runner import Observer, Runner, Tasks
from windlass.worker.threads import Threads

logger = logging.getLogger("windlass.worker")
PROMOTE_EVERY: Final = 1.0
LOOK_EVERY: Final = 0.1
LOOK_EVERY_WAITING: Final = 0.05


class Drained(msgspec.Struct, frozen=True):
    """How the attempts of a drain ended."""

    succeeded: int = 0
    retried: int = 0
    """Failed, and to be tried again."""
    dead: int = 0
    cancelled: int = 0
    deferred: int = 0
    """Snoozed, throttled, or of a task nobody here knows."""
    refused: int = 0
    """Outcomes that came too late: the jobs had been given to another worker [C5]."""


async def drain(
    store: Store,
    tasks: Tasks,
    *,
    queues: Sequence[str] | None = None,
    concurrency: int = 32,
    wait: Duration = 0,
    beat_every: float = EVERY,
    observe: Observer | None = None,
) -> Drained:
    """Run jobs until none is ready and none runs here; see `Windlass.arun_until_idle`."""
    if concurrency < 1:
        raise ConfigurationError(f"concurrency must be at least 1, not {concurrency!r}")
    if isinstance(queues, str):
        raise ConfigurationError(f"queues must be a list of names; write queues=[{queues!r}]")
    names = None if queues is None else [check_name("queue", name) for name in queues]
    return await _Drain(store, tasks, names, concurrency, seconds(wait), observe).run(beat_every)


class _Running:
    """One job in a slot. A plain function cannot be stopped, so a cancel only leaves its mark on it [O5]."""

    def __init__(self, job: ClaimedJob, task: asyncio.Task[None], stoppable: bool) -> None:
        self.job = job
        self.task = task
        self.stoppable = stoppable
        self.cancel_requested = False

    def cancel(self) -> None:
        if not self.cancel_requested:
            self.cancel_requested = True
            if self.stoppable:
                self.task.cancel()


class _Drain:
    def __init__(
        self,
        store: Store,
        tasks: Tasks,
        queues: list[str] | None,
        concurrency: int,
        wait: float,
        observe: Observer | None,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._wanted = queues
        self._queues: list[str] = queues or []
        self._concurrency = concurrency
        self._wait = wait
        self._worker = secrets.randbelow(2**62) + 1
        self._threads = Threads()
        self._runner = Runner(tasks, self._threads, observe)
        self._changed = asyncio.Event()
        self._log = OutcomeLog(store, self._worker, flushed=self._changed.set)
        self._running: dict[int, _Running] = {}
        self._alone: ClaimedJob | None = None
        self._promoted_at = float("-inf")
        self._ended: Counter[str] = Counter()
        self._helpers: list[asyncio.Task[None]] = []

    async def run(self, beat_every: float) -> Drained:
        host = socket.gethostname()
        label = f"{host}-drain-{self._worker & 0xFFFF:04x}"
        await self._store.register(
            WorkerInfo(id=self._worker, label=label, host=host, pid=os.getpid(), queues=tuple(self._queues))
        )
        beats = heartbeat(self._store, self._worker, cancel=self._cancel, every=beat_every)
        self._helpers = [asyncio.create_task(beats), asyncio.create_task(self._log.run())]
        for helper in self._helpers:
            helper.add_done_callback(lambda _: self._changed.set())
        try:
            await self._work()
        finally:
            await self._leave()
        return Drained(**self._ended, refused=self._log.refused)

    # -- the loop ---------------------------------------------------------------------------------------

    async def _work(self) -> None:
        idle_since: float | None = None
        while True:
            self._changed.clear()
            self._raise_trouble()
            # Read before looking for work: an outcome written after that may have offered a job again.
            settled = not self._running and self._alone is None and self._log.settled
            if await self._fill():
                idle_since = None
            elif not settled:
                idle_since = None
                await self._pause(LOOK_EVERY)
            else:
                idle_since = time.monotonic() if idle_since is None else idle_since
                if time.monotonic() - idle_since >= self._wait or not await self._more_to_come():
                    return
                await self._pause(LOOK_EVERY_WAITING)

    async def _fill(self) -> bool:
        """Start what there is room for. False: nothing was started, so wait for a change."""
        if self._alone is not None:
            return self._start_alone()
        free = self._concurrency - len(self._running)
        if free < 1:
            return False
        promoted = time.monotonic() - self._promoted_at >= PROMOTE_EVERY
        if promoted:
            await self._promote()
        jobs = await self._claim(free)
        if not jobs and not promoted:
            await self._promote()
            jobs = await self._claim(free)
        for job in jobs:
            if job.deaths:
                self._alone = job
            else:
                self._start(job)
        return bool(jobs)

    def _start_alone(self) -> bool:
        """A job that has seen its worker die runs with nothing beside it, lest it take others along [C8]."""
        if self._running or self._alone is None:
            return False
        self._start(self._alone)
        return True

    async def _promote(self) -> None:
        self._promoted_at = time.monotonic()
        await self._store.promote()
        if self._wanted is None:
            self._queues = [queue.name for queue in await self._store.queues()]

    async def _claim(self, limit: int) -> list[ClaimedJob]:
        claims = await self._store.claim(self._worker, self._queues, limit)
        return [job for claim in claims for job in claim.jobs]

    async def _more_to_come(self) -> bool:
        depths = await self._store.depth(self._queues)
        return any(depth.scheduled or depth.retrying for depth in depths.values())

    async def _pause(self, most: float) -> None:
        """Wait for a change here, but not long: work may come from elsewhere, too. A drain wants to end, so
        it polls rather than keep a connection that listens."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most):
                await self._changed.wait()

    # -- one job ----------------------------------------------------------------------------------------

    def _start(self, job: ClaimedJob) -> None:
        task = asyncio.create_task(self._run(job), name=f"windlass job {job.id}")
        known = self._tasks.get(job.task)
        self._running[job.id] = _Running(job, task, stoppable=known is None or known.is_async)
        task.add_done_callback(lambda _: self._done(job))

    async def _run(self, job: ClaimedJob) -> None:
        try:
            outcome = await self._runner.run(job)
        except asyncio.CancelledError:
            if not self._running[job.id].cancel_requested:
                raise  # the drain itself is ending; retiring gives the job back
            outcome = Outcome(job=job, kind=Kind.CANCELLED)
        if self._running[job.id].cancel_requested and outcome.kind is Kind.RETRY:
            outcome = Outcome(job=job, kind=Kind.CANCELLED, error=outcome.error, run_ms=outcome.run_ms)
        self._count(outcome)
        self._log.add(outcome)

    def _done(self, job: ClaimedJob) -> None:
        running = self._running.pop(job.id)
        if not running.task.cancelled() and running.task.exception() is not None:
            self._helpers.append(running.task)  # no job's doing but ours: let the loop raise it
        if self._alone is not None and self._alone.id == job.id:
            self._alone = None
        self._changed.set()

    def _count(self, outcome: Outcome) -> None:
        match outcome.kind:
            case Kind.SUCCEEDED | Kind.DEAD | Kind.CANCELLED:
                self._ended[outcome.kind.value] += 1
            case Kind.RETRY if outcome.job.attempt >= outcome.job.options.max_attempts:
                self._ended["dead"] += 1
            case Kind.RETRY:
                self._ended["retried"] += 1
            case _:
                self._ended["deferred"] += 1

    # -- steering and the end ---------------------------------------------------------------------------

    def _cancel(self, jobs: frozenset[int]) -> None:
        for job in jobs & self._running.keys():
            self._running[job].cancel()

    def _raise_trouble(self) -> None:
        for helper in self._helpers:
            if helper.done():
                helper.result()

    async def _leave(self) -> None:
        """Stop what runs, write what has ended, give the rest back uncharged."""
        alive = not any(helper.done() for helper in self._helpers)
        tasks = [*(running.task for running in self._running.values()), *self._helpers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._threads.close()
        with _told():
            if alive:
                await self._log.flush()
            await self._store.retire(self._worker)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """On the way out trouble is told, not raised: it must not cover the reason for leaving."""
    try:
        yield
    except WindlassError as error:
        logger.warning("the drain could not leave in good order; its jobs wait for a rescue: %s", error)
