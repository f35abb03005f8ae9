"""Runs jobs in one process until nothing is left to do: what `app.run_until_idle()` is made of.

This is a worker session that ends: it registers, claims into free slots, runs, writes back, sends its own
heartbeats, and retires, however its end comes. It does no chores of the cluster: it promotes due jobs, but
rescues no worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from windlass.core.durations import Duration, seconds
from windlass.core.names import check_name
from windlass.core.retry import Backoff
from windlass.core.states import Kind
from windlass.errors import ConfigurationError, StoreUnavailable, WindlassError
from windlass.running.hooks import Hooks
from windlass.settings import Settings
from windlass.store.protocol import Store
from windlass.store.records import Outcome
from windlass.worker.engine.assignment import Assignment
from windlass.worker.engine.label import make_label, worker_info
from windlass.worker.engine.worker_session import WorkerSession
from windlass.worker.handlers.run import Why
from windlass.worker.handlers.runner import HandlerThreads, Observer, Runner, Tasks
from windlass.worker.reports.recorder import recorder_for
from windlass.worker.reports.reporter import Reporter

logger: Final = logging.getLogger("windlass.worker")
HEARTBEATS: Final = 3
"""Heartbeats within a lease [C4]."""
PROMOTE_EVERY: Final = 1.0
LOOK_EVERY: Final = 0.1
LOOK_EVERY_WAITING: Final = 0.05


class RunCounts(msgspec.Struct, frozen=True):
    """The counts of attempts by how they ended."""

    succeeded: int = 0
    retried: int = 0
    """Failed, and to be tried again."""
    dead: int = 0
    cancelled: int = 0
    deferred: int = 0
    """Snoozed, throttled, or of a task that is not known here."""
    refused: int = 0
    """Outcomes that arrived too late: the jobs had been given to another worker [C5]."""


async def run_until_idle(  # noqa: PLR0913 - all but two say what is not as in a worker
    store: Store,
    tasks: Tasks,
    *,
    queues: Sequence[str] | None = None,
    concurrency: int = 32,
    wait: Duration = 0,
    observe: Observer | None = None,
    hooks: Hooks | None = None,
    settings: Settings | None = None,
    threads: HandlerThreads | None = None,
    abilities: frozenset[str] | None = None,
) -> RunCounts:
    """Run jobs until none is ready and none runs here; see `Windlass.arun_until_idle`."""
    if concurrency < 1:
        raise ConfigurationError(f"concurrency must be at least 1, not {concurrency!r}")
    if isinstance(queues, str):
        raise ConfigurationError(f"queues must be a list of names; write queues=[{queues!r}]")
    names = None if queues is None else [check_name("queue", name) for name in queues]
    settings = settings or Settings()
    able = settings.abilities if abilities is None else abilities
    work = _UntilIdle(store, tasks, names, concurrency, seconds(wait), settings, able)
    runner = Runner(tasks, work, hooks=hooks, observe=observe, threads=threads, interruptible=True)
    try:
        return await work.run(runner)
    finally:
        await runner.close()


class _UntilIdle:
    def __init__(
        self,
        store: Store,
        tasks: Tasks,
        queues: list[str] | None,
        concurrency: int,
        wait: float,
        settings: Settings,
        abilities: frozenset[str],
    ) -> None:
        self._store = store
        self._abilities = abilities
        self._tasks = tasks
        self._wanted = queues
        self._queues: list[str] = queues or []
        self._concurrency = concurrency
        self._wait = wait
        self._promoted_at = float("-inf")
        self.lease = settings.lease
        self.poison = settings.poison
        self._ended: Counter[str] = Counter()
        self._helpers: list[asyncio.Task[None]] = []
        self._label = make_label(settings.label_prefix, settings.label_version)
        self._reporter = Reporter(store, recorder_for(settings, self._label))

    async def run(self, runner: Runner) -> RunCounts:
        worker = secrets.randbelow(2**62) + 1
        tasks = self._tasks.values()
        await self._store.register(
            worker_info(worker, self._label, self._queues, self.lease, tasks, abilities=self._abilities)
        )
        assignment = Assignment(dict.fromkeys(self._queues, self._concurrency))
        self._session = session = WorkerSession(
            self._store,
            worker,
            runner,
            assignment,
            total=self._concurrency,
            ended=self._count,
            record=self._reporter.recorder,
            abilities=self._abilities,
        )
        self._reporter.start(worker)
        self._helpers = [
            asyncio.create_task(self._heartbeat(self.lease / HEARTBEATS)),
            asyncio.create_task(session.log.run()),
        ]
        for helper in self._helpers:
            helper.add_done_callback(lambda _: session.changed.set())
        try:
            await self._work()
        finally:
            await self._leave()
        return RunCounts(**self._ended, refused=session.log.refused)

    # -- the loop ---------------------------------------------------------------------------------------

    async def _work(self) -> None:
        idle_since: float | None = None
        while True:
            self._session.changed.clear()
            self._raise_errors()
            # Read before looking for work: an outcome written after that may have offered a job again.
            settled = self._session.holdings.none
            if await self._claim():
                idle_since = None
            elif not settled:
                idle_since = None
                await self._pause(LOOK_EVERY)
            else:
                idle_since = time.monotonic() if idle_since is None else idle_since
                if time.monotonic() - idle_since >= self._wait or not await self._more_to_come():
                    return
                await self._pause(LOOK_EVERY_WAITING)

    async def _claim(self) -> int:
        """Start what there is room for. 0: nothing was started, so wait for a change."""
        promoted = time.monotonic() - self._promoted_at >= PROMOTE_EVERY
        if promoted:
            await self._promote()
        found = await self._session.claimer.claim()
        if not found and not promoted and self._session.claimer.wants():
            await self._promote()
            found = await self._session.claimer.claim()
        return found

    async def _promote(self) -> None:
        self._promoted_at = time.monotonic()
        await self._store.promote()
        if self._wanted is None:
            queues = [queue.name for queue in await self._store.queues()]
            if queues != self._queues:  # else this would be a change to look for, again and again
                self._queues = queues
                self._session.assign(Assignment(dict.fromkeys(queues, self._concurrency)))

    async def _more_to_come(self) -> bool:
        depths = await self._store.depth(self._queues)
        # Ready and yet not claimed: it waits for tokens, or for another worker's job to end [F1] [F3].
        return any(depth.scheduled or depth.retrying or depth.ready for depth in depths.values())

    async def _pause(self, most: float) -> None:
        """Wait for a change here, but not long: work may come from elsewhere, too. The call wants to end, so
        it polls rather than keep a connection that listens."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most):
                await self._session.changed.wait()

    async def _heartbeat(self, every: float) -> None:
        """Send heartbeats until cancelled. One that fails is logged and tried again; WorkerLost, and a store
        that was out of reach for a whole lease, end the call [C4] [C9]."""
        heartbeat_at = time.monotonic()
        while True:
            await asyncio.sleep(every)
            try:
                heartbeat = await self._store.heartbeat(self._session.worker)
            except StoreUnavailable as error:
                logger.warning("a heartbeat failed, next try in %.0f s: %s", every, error)
                if time.monotonic() - heartbeat_at >= self.lease:
                    raise
                continue
            heartbeat_at = time.monotonic()
            if heartbeat.cancel:
                self._session.cancel(heartbeat.cancel)

    def _count(self, outcome: Outcome) -> None:
        match outcome.kind:
            case Kind.SUCCEEDED | Kind.DEAD | Kind.CANCELLED:
                self._ended[outcome.kind.value] += 1
            case Kind.RETRY if outcome.job.attempt >= outcome.job.options.max_attempts:
                self._ended["dead"] += 1
            case Kind.RETRY:
                self._ended["retried"] += 1
            case Kind.SNOOZE | Kind.THROTTLED | Kind.UNKNOWN:
                self._ended["deferred"] += 1
            case _:
                return

    # -- what runs ask: see windlass.worker.handlers.runner.Policies -----------------------------------------

    def backoff(self, queue: str) -> Backoff:
        """Queues are not asked about here: the default [O2]."""
        return Backoff()

    async def throttle(self, queue: str, hint: float | None) -> float:
        """Cool the whole queue [O3]."""
        return await self._store.throttle(queue, hint)

    # -- the end ----------------------------------------------------------------------------------------

    def _raise_errors(self) -> None:
        for helper in self._helpers:
            if helper.done():
                helper.result()

    async def _leave(self) -> None:
        """Stop what runs, write what has ended, give the rest back uncharged. Nothing of it stays behind,
        also where the caller does not wait for it."""
        alive = not any(helper.done() for helper in self._helpers)
        try:
            await self._session.stop(Why.SHUTDOWN if alive else Why.LOST)
            for task in self._helpers:
                task.cancel()
            await asyncio.gather(*self._helpers, return_exceptions=True)
            with _logged():
                if alive:
                    await self._session.log.flush()
                    await self._session.feedback.send()
                await self._store.retire(self._session.worker)
        finally:
            for task in self._helpers:
                task.cancel()
            await self._reporter.close()


@contextlib.contextmanager
def _logged() -> Iterator[None]:
    """On the way out errors are logged, not raised: they must not hide the reason for leaving."""
    try:
        yield
    except WindlassError as error:
        logger.warning("a worker could not retire; its jobs wait to be rescued: %s", error)
