"""A worker as a process sees it: one identity after another, until it is told to stop.

An identity (a worker id in the store) is lost when its lease ran out, or given up when the store was out of
reach for so long that it must have [C9]. Its handlers are stopped then, the process stays, and as soon as
the store answers it begins again under a new id. Heartbeats and assignments come from outside: from a
supervisor through a socket, or from a member in the same process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
from collections.abc import Callable
from typing import Final, Protocol

from windlass.core.abilities import in_words
from windlass.core.counts import plural
from windlass.core.retry import Backoff
from windlass.errors import StoreError, StoreForbidden, StoreMoved, WorkerLost
from windlass.settings import Settings
from windlass.store.protocol import Store
from windlass.store.records import Vitals, WorkerInfo
from windlass.worker.engine.assignment import Assignment
from windlass.worker.engine.vitals import VitalsMeter
from windlass.worker.engine.waiting import ANSWER_TIME, RECONNECT, first
from windlass.worker.engine.worker_session import WorkerSession
from windlass.worker.handlers.run import Why
from windlass.worker.handlers.runner import Runner
from windlass.worker.reports.recorder import Recorder
from windlass.worker.reports.reporter import Reporter
from windlass.worker.reports.status_memory import StatusMemory

logger: Final = logging.getLogger("windlass.worker")
FEEDBACK_EVERY: Final = 1.0
LEAVE_TIME: Final = 10.0
"""Seconds to write back what is left when a worker leaves; after that its jobs wait to be rescued."""


class Host(Protocol):
    """The sender of a worker's heartbeats, which assigns slots to it. Called on the engine's loop; must not
    block."""

    def began(self, worker: int) -> None:
        """This identity is registered: send heartbeats for it from now on."""

    def ended(self, worker: int) -> None:
        """This identity holds nothing any more: send no more heartbeats for it."""


class Engine:
    """Runs the jobs of one process. `worker_info` makes what an identity registers. `supervised`
    says that a supervisor hands back what is left when this process has ended."""

    def __init__(
        self,
        store: Store,
        make_runner: Callable[[Engine], Runner],
        worker_info: Callable[[int], WorkerInfo],
        host: Host,
        *,
        settings: Settings,
        memory: StatusMemory | None = None,
        supervised: bool = False,
        record: Recorder | None = None,
    ) -> None:
        self._store = store
        self._settings = settings
        self.poison: Final = settings.poison
        self.lease: Final = settings.lease
        self._worker_info = worker_info
        self._host = host
        self._status_memory = memory
        self._supervised = supervised
        self.record: Final = record or Recorder()
        self._meter = VitalsMeter(self.record.clock, memory)
        self._reporter = Reporter(store, self.record, self._vitals)
        self._assignment = Assignment()
        self._session: WorkerSession | None = None
        self._lost = asyncio.Event()
        self._stopping = asyncio.Event()
        self._stopping_now = asyncio.Event()
        self._unretired: set[int] = set()
        self._runner = make_runner(self)
        self._left_behind = False

    # -- from outside -----------------------------------------------------------------------------------

    def assign(self, assignment: Assignment) -> None:
        """Take new slots and settings of queues."""
        self._assignment = assignment
        if self._session is not None:
            self._session.assign(assignment)

    def cancel(self, jobs: frozenset[int] | set[int]) -> None:
        """Cancel these jobs, as was asked for [O5]."""
        if self._session is not None:
            self._session.cancel(jobs)

    def lose(self, worker: int) -> None:
        """This identity is dead, or must be taken for dead: stop its handlers at once [C5] [C9]."""
        if self._session is not None and self._session.worker == worker:
            self._lost.set()

    def shutdown(self) -> None:
        """Stop claiming, let running jobs finish for a while, then leave."""
        self._stopping.set()

    def stop_now(self) -> None:
        """Leave now: running jobs are stopped and handed back, uncharged."""
        self._stopping.set()
        self._stopping_now.set()

    @property
    def stopping(self) -> bool:
        """Return whether it was told to stop."""
        return self._stopping.is_set()

    @property
    def done(self) -> int:
        """How many runs have ended here."""
        return self.record.done

    @property
    def busy(self) -> int:
        """How many jobs run."""
        return 0 if self._session is None else len(self._session.running)

    @property
    def left_behind(self) -> bool:
        """Return whether a handler runs on here though its job was taken from it."""
        return self._left_behind or (self._session is not None and self._session.slots.abandoned > 0)

    def _left_running(self, session: WorkerSession) -> bool:
        """Return whether handlers ignored cancellation. Their jobs may not go to others while they run: where
        there is a supervisor, it hands them back once this process is gone."""
        running = list(session.running)
        if running:
            self._left_behind = True
            ids = ", ".join(str(run.job.id) for run in running[:10])
            logger.error("handlers of jobs %s ignored cancellation", ids)
        return bool(running) and self._supervised

    # -- what runs ask: see windlass.worker.handlers.runner.Policies -----------------------------------------

    def backoff(self, queue: str) -> Backoff:
        """How the queue spaces the retries of tasks without a policy of their own [O2]."""
        return self._assignment.backoff(queue)

    async def throttle(self, queue: str, hint: float | None) -> float:
        """Cool the whole queue [O3]. Here it closes at once; elsewhere the store gives out nothing."""
        delay = await self._store.throttle(queue, hint)
        self.assign(self._assignment.without(queue))
        return delay

    # -- working ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until told to stop. Raises StoreForbidden where its role may not work at all, and
        StoreMoved where its file was copied elsewhere."""
        failures = 0
        registered = False
        self._meter.start()
        try:
            while not self._stopping.is_set():
                info = self._worker_info(secrets.randbelow(2**62) + 1)
                try:
                    if not await self._register(info):
                        return
                except StoreError as error:
                    # To ask again would not help. What worked once may come back: a right, a reopened file.
                    if isinstance(error, StoreForbidden | StoreMoved) and not registered:
                        raise
                    failures += 1
                    pause = RECONNECT.delay(failures, random.random())
                    logger.warning("cannot register, next try in %.1f s: %s", pause, error)
                    await self._sleep(pause)
                    continue
                registered = True
                for old in list(self._unretired):
                    await self._retire(old)
                with contextlib.suppress(StoreError):
                    await self._store.rehearse(info.id, info.queues)
                self._started(info)
                if await self._work(info.id, info.abilities):
                    failures = 0
                else:  # without a pause, an error that stays would use up one identity after another
                    failures += 1
                    await self._sleep(RECONNECT.delay(failures, random.random()))
        finally:
            self._meter.stop()
            try:
                await self._runner.close()
            finally:
                await self._reporter.close()

    async def _register(self, info: WorkerInfo) -> bool:
        """Register. False: it was told to stop before the store has answered."""
        registering = asyncio.create_task(self._store.register(info))
        try:
            await first(registering, self._stopping.wait())
            if registering.done():
                registering.result()
                return True
        finally:
            registering.cancel()  # also where this task is cancelled: nobody would retire it then
        await asyncio.wait({registering})
        await self._retire(info.id)  # it may have been registered all the same
        return False

    async def _sleep(self, seconds: float) -> None:
        await first(asyncio.sleep(seconds), self._stopping.wait())

    async def _work(self, worker: int, abilities: frozenset[str]) -> bool:
        """One identity from its first heartbeat to its last. False: an unexpected error ended it."""
        self._lost.clear()
        # The sender of its heartbeats says with what slots to begin. A supervisor that is stuck says nothing,
        # and jobs claimed under an identity without heartbeats would be charged a death each lease [C8].
        self._assignment = Assignment()
        self._session = session = WorkerSession(
            self._store,
            worker,
            self._runner,
            self._assignment,
            memory=self._status_memory,
            record=self.record,
            abilities=abilities,
        )
        self._host.began(worker)
        self._reporter.start(worker)
        claiming = asyncio.create_task(session.claimer.run(), name="windlass claims")
        writing = asyncio.create_task(session.log.run(), name="windlass outcomes")
        feeding = asyncio.create_task(self._send_feedback(session), name="windlass feedback")
        broken = False
        try:
            await first(claiming, writing, self._lost.wait(), self._stopping.wait())
            session.claimer.closed = True
            await self._await_claim(session, claiming)
            claiming.cancel()
            await asyncio.wait({claiming})
            if self._lost.is_set() or _lost(claiming) or _lost(writing):
                await self._lose_jobs(session)
            else:
                for task in (claiming, writing):
                    if task.done() and not task.cancelled() and task.exception() is not None:
                        broken = True
                        logger.error("the worker failed and restarts", exc_info=task.exception())
                await self._leave(session)
        finally:
            for task in (claiming, writing, feeding):
                task.cancel()
            await asyncio.gather(claiming, writing, feeding, return_exceptions=True)
            self._left_behind = self.left_behind
            self._session = None
            self._host.ended(worker)
        return not broken

    async def _await_claim(self, session: WorkerSession, claiming: asyncio.Task[None]) -> None:
        """Wait a moment for the answer to a claim that is under way: see `answered`."""
        if not claiming.done() and not session.claimer.answered.is_set():
            late, hurry = asyncio.sleep(ANSWER_TIME), self._stopping_now.wait()
            await first(claiming, session.claimer.answered.wait(), late, hurry, self._lost.wait())

    async def _send_feedback(self, session: WorkerSession) -> None:
        while True:
            await asyncio.sleep(FEEDBACK_EVERY)
            await session.feedback.send()

    async def _lose_jobs(self, session: WorkerSession) -> None:
        """The identity is dead: its jobs belong to others, so nothing is written for them."""
        what = f"lost its lease; {plural(len(session.running), 'handler')} stopped"
        logger.warning("worker %s %s", self.record.label, what)
        self.record.note("lost", f"the worker {what}")
        await session.stop(Why.LOST)
        session.log.drop()
        if self._left_running(session):
            return
        # If it was given up and not rescued, its jobs need not wait for the lease to run out.
        await self._retire(session.worker)

    async def _leave(self, session: WorkerSession) -> None:
        session.close()
        await self._let_go(session)
        if not self._stopping_now.is_set():
            await first(session.finish(self._settings.shutdown), self._stopping_now.wait(), self._lost.wait())
        if self._lost.is_set():
            return await self._lose_jobs(session)
        if session.running:
            jobs = plural(len(session.running), "running job is", "running jobs are")
            logger.info("%s handed back, uncharged", jobs)
        await session.stop(Why.SHUTDOWN)
        try:
            async with asyncio.timeout(LEAVE_TIME):
                await session.log.flush()
                await session.feedback.send()
        except (TimeoutError, WorkerLost):
            logger.warning("some outcomes could not be written; their jobs will run again")
        except Exception:
            logger.exception("outcomes could not be written; their jobs will run again")
        if not self._left_running(session):
            await self._retire(session.worker)
        self.record.note("stopped", f"the worker left after {plural(self.done, 'run')}")
        return None

    async def _let_go(self, session: WorkerSession) -> None:
        """A claim that was under way at the stop may have given us jobs that we never saw: they need not wait
        until everything that runs has ended."""
        try:
            async with asyncio.timeout(LEAVE_TIME):
                if session.holdings.unanswered.any:
                    await session.holdings.compare()
        except Exception as error:  # noqa: BLE001 - whatever it is, the worker leaves
            logger.debug("jobs of the last claim are handed back when the worker retires: %s", error)

    async def _retire(self, worker: int) -> None:
        """Hand back whatever the identity still holds. Where the store cannot be reached, the next identity
        does it."""
        self._unretired.add(worker)
        try:
            async with asyncio.timeout(LEAVE_TIME):
                await self._store.retire(worker)
        except Exception as error:  # noqa: BLE001 - whatever it is, this process goes on, or ends
            message = "worker %d could not retire; its jobs wait to be rescued: %s"
            logger.warning(message, worker, str(error) or type(error).__name__)
        else:
            self._unretired.discard(worker)

    # -- what it reports of itself ---------------------------------------------------------------------------

    def _started(self, info: WorkerInfo) -> None:
        self.record.label = info.label
        serves = f"serves {', '.join(info.queues)}" if info.queues else "serves no queue"
        able = f" and has {in_words(info.abilities)}" if info.abilities else ""
        self.record.note("started", f"process {info.pid} on {info.host} {serves}{able}")

    def _vitals(self) -> Vitals | None:
        session = self._session
        if session is None:
            return None
        running = session.running
        return self._meter.measure(running, len(running), sum(self._assignment.slots.values()))


def _lost(task: asyncio.Task[None]) -> bool:
    return task.done() and not task.cancelled() and isinstance(task.exception(), WorkerLost)
