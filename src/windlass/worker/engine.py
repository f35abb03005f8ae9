"""A worker as a process sees it: one identity after another, until it is told to stop.

An identity (a worker id in the store) is lost when its lease ran out, or given up when the store was out of
reach for so long that it must have [C9]. Its handlers are stopped then, the process stays, and as soon as
the store answers it begins again under a new id. Beats and steering come from outside: from a supervisor
through a pipe, or from a member in the same process.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import Callable
from typing import Final, Protocol

from windlass.core.retry import Backoff
from windlass.errors import StoreError, StoreUnavailable, WorkerLost
from windlass.settings import Settings
from windlass.store.measures import Vitals
from windlass.store.protocol import Store
from windlass.store.records import WorkerInfo
from windlass.words.text import plural
from windlass.worker.board import Board
from windlass.worker.recorder import Recorder
from windlass.worker.runner import Runner
from windlass.worker.running import Why
from windlass.worker.shift import Shift
from windlass.worker.teller import Teller
from windlass.worker.view import View
from windlass.worker.vitals import Pulse
from windlass.worker.waiting import first

logger = logging.getLogger("windlass.worker")
RECONNECT: Final = Backoff(0.2, 10.0, jitter=0.5)
WARM_EVERY: Final = 1.0
RELEASE_TIME: Final = 10.0
"""Seconds to write back what is left when a worker leaves; after that a rescue has to do it."""


class Host(Protocol):
    """Who beats for a worker and steers it. Called on the engine's loop; must not block."""

    def began(self, worker: int) -> None:
        """This identity is registered: beat for it from now on."""

    def ended(self, worker: int) -> None:
        """This identity holds nothing any more: stop beating for it."""


class Engine:
    """Runs the jobs of one process. `introduce` makes what the store is told about an identity. `supervised`
    says that somebody hands back what is left when this process has ended."""

    def __init__(
        self,
        store: Store,
        make_runner: Callable[[Engine], Runner],
        introduce: Callable[[int], WorkerInfo],
        host: Host,
        *,
        settings: Settings,
        board: Board | None = None,
        supervised: bool = False,
        record: Recorder | None = None,
    ) -> None:
        self._store = store
        self._settings = settings
        self._introduce = introduce
        self._host = host
        self._board = board
        self._supervised = supervised
        self.record = record or Recorder()
        self._pulse = Pulse(self.record.clock, board)
        self._teller = Teller(store, self.record, self._vitals)
        self._view = View()
        self._shift: Shift | None = None
        self._lost = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()
        self._unretired: set[int] = set()
        self._runner = make_runner(self)
        self._stained = False

    # -- from outside -----------------------------------------------------------------------------------

    def steer(self, view: View) -> None:
        """Take new slots and settings of queues."""
        self._view = view
        if self._shift is not None:
            self._shift.steer(view)

    def cancel(self, jobs: frozenset[int] | set[int]) -> None:
        """Somebody wants these jobs cancelled [O5]."""
        if self._shift is not None:
            self._shift.cancel(jobs)

    def lose(self, worker: int) -> None:
        """This identity is dead, or must be taken for dead: stop its handlers at once [C5] [C9]."""
        if self._shift is not None and self._shift.worker == worker:
            self._lost.set()

    def drain(self) -> None:
        """Stop claiming, let running jobs finish for a while, then leave."""
        self._stopping.set()

    def release(self) -> None:
        """Leave now: running jobs are stopped and handed back, uncharged."""
        self._stopping.set()
        self._hurrying.set()

    @property
    def stopping(self) -> bool:
        """Whether it was told to stop."""
        return self._stopping.is_set()

    @property
    def done(self) -> int:
        """How many runs have ended here."""
        return self.record.done

    @property
    def busy(self) -> int:
        """How many jobs run."""
        return 0 if self._shift is None else len(self._shift.running)

    @property
    def stained(self) -> bool:
        """Whether a handler runs on here though its job was taken from it."""
        return self._stained or (self._shift is not None and self._shift.abandoned > 0)

    def _left_running(self, shift: Shift) -> bool:
        """Whether handlers do not stop though they were told to. Their jobs may not go to others while they
        run: where there is a supervisor, it gives them back once this process is gone."""
        running = list(shift.running.values())
        if running:
            self._stained = True
            logger.error("jobs %s do not stop", ", ".join(str(run.job.id) for run in running[:10]))
        return bool(running) and self._supervised

    # -- what runs ask: see windlass.worker.runner.Policies -----------------------------------------------

    @property
    def poison(self) -> int:
        """How many deaths of its workers make a job poison [C8]."""
        return self._settings.poison

    @property
    def lease(self) -> float:
        """Seconds without a heartbeat after which its jobs are others' [C4]."""
        return self._settings.lease

    def backoff(self, queue: str) -> Backoff:
        """How the queue spaces the retries of tasks without a policy of their own [O2]."""
        return self._view.backoff(queue)

    async def throttle(self, queue: str, hint: float | None) -> float:
        """Cool the whole queue [O3]. Here it closes at once; elsewhere the store gives out nothing."""
        delay = await self._store.throttle(queue, hint)
        self.steer(self._view.closed(queue))
        return delay

    # -- the life ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until told to stop."""
        troubles = 0
        self._pulse.start()
        try:
            while not self._stopping.is_set():
                worker = secrets.randbelow(2**62) + 1
                try:
                    await self._store.register(info := self._introduce(worker))
                except StoreError as error:
                    troubles += 1
                    pause = RECONNECT.delay(troubles, random.random())
                    logger.warning("cannot register, next try in %.1f s: %s", pause, error)
                    await self._sleep(pause)
                    continue
                for old in list(self._unretired):
                    await self._retire(old)
                self._started(info)
                if await self._life(worker):
                    troubles = 0
                else:  # without a pause, an error that stays would use up one identity after another
                    troubles += 1
                    await self._sleep(RECONNECT.delay(troubles, random.random()))
        finally:
            self._pulse.stop()
            try:
                await self._runner.close()
            finally:
                await self._teller.close()

    async def _sleep(self, seconds: float) -> None:
        await first(asyncio.sleep(seconds), self._stopping.wait())

    async def _life(self, worker: int) -> bool:
        """One identity from its first beat to its last. False: an error that nobody foresaw ended it."""
        self._lost.clear()
        # Whoever beats for it says with what slots to begin. A supervisor that is stuck says nothing, and
        # jobs claimed under an identity that nobody beats for would be charged a death each lease [C8].
        self._view = View()
        self._shift = shift = Shift(
            self._store,
            worker,
            self._runner,
            self._view,
            board=self._board,
            record=self.record,
        )
        self._host.began(worker)
        self._teller.start(worker)
        claiming = asyncio.create_task(shift.claim_for_ever(), name="windlass claims")
        writing = asyncio.create_task(shift.log.run(), name="windlass outcomes")
        warming = asyncio.create_task(self._warm_for_ever(shift), name="windlass warm")
        broken = False
        try:
            await first(claiming, writing, self._lost.wait(), self._stopping.wait())
            claiming.cancel()
            await asyncio.wait({claiming})
            if self._lost.is_set() or _lost(claiming) or _lost(writing):
                await self._mourn(shift)
            else:
                for task in (claiming, writing):
                    if task.done() and not task.cancelled() and task.exception() is not None:
                        broken = True
                        logger.error("the worker must begin anew", exc_info=task.exception())
                await self._leave(shift)
        finally:
            for task in (claiming, writing, warming):
                task.cancel()
            await asyncio.gather(claiming, writing, warming, return_exceptions=True)
            self._stained = self.stained
            self._shift = None
            self._host.ended(worker)
        return not broken

    async def _warm_for_ever(self, shift: Shift) -> None:
        """Say of throttled queues that they go well again [O3]; a little late is early enough."""
        while True:
            await asyncio.sleep(WARM_EVERY)
            await shift.warm()

    async def _mourn(self, shift: Shift) -> None:
        """The identity is dead: its jobs belong to others, so nothing is written for them."""
        told = f"has lost its lease; {plural(len(shift.running), 'handler')} stopped"
        logger.warning("worker %s %s", self.record.label, told)
        self.record.note("lost", f"the worker {told}")
        await shift.stop(Why.LOST)
        shift.log.drop()
        if self._left_running(shift):
            return
        # If it was given up and not rescued, its jobs need not wait for the lease to run out.
        await self._retire(shift.worker)

    async def _leave(self, shift: Shift) -> None:
        shift.close()
        await self._let_go(shift)
        if not self._hurrying.is_set():
            await first(shift.finish(self._settings.shutdown), self._hurrying.wait(), self._lost.wait())
        if self._lost.is_set():
            return await self._mourn(shift)
        if shift.running:
            logger.info("%d running jobs are handed back, uncharged", len(shift.running))
        await shift.stop(Why.RELEASED)
        try:
            async with asyncio.timeout(RELEASE_TIME):
                await shift.log.flush()
                await shift.warm()
        except (TimeoutError, WorkerLost):
            logger.warning("not every outcome could be written; their jobs are offered again")
        except Exception:
            logger.exception("outcomes could not be written; their jobs are offered again")
        if not self._left_running(shift):
            await self._retire(shift.worker)
        self.record.note("stopped", f"the worker left after {plural(self.done, 'run')}")
        return None

    async def _let_go(self, shift: Shift) -> None:
        """A claim that was under way when we were told to stop may have given us jobs that we never saw: they
        need not wait until everything that runs has ended."""
        try:
            async with asyncio.timeout(RELEASE_TIME):
                await shift.let_go_of_the_unknown()
        except Exception as error:  # noqa: BLE001 - whatever it is, the worker leaves
            logger.debug("what the last claim gave goes back when the worker retires: %s", error)

    async def _retire(self, worker: int) -> None:
        """Give back whatever the identity still holds. Where the store cannot be reached, the next identity
        does it."""
        self._unretired.add(worker)
        try:
            async with asyncio.timeout(RELEASE_TIME):
                await self._store.retire(worker)
        except Exception as error:  # noqa: BLE001 - whatever it is, this process goes on, or ends
            told = "worker %d could not retire; its jobs wait for a rescue: %s"
            logger.warning(told, worker, str(error) or type(error).__name__)
        else:
            self._unretired.discard(worker)

    # -- what it says of itself ---------------------------------------------------------------------------

    def _started(self, info: WorkerInfo) -> None:
        self.record.label = info.label
        serves = f"serves {', '.join(info.queues)}" if info.queues else "serves no queue"
        self.record.note("started", f"process {info.pid} on {info.host} {serves}")

    def _vitals(self) -> Vitals | None:
        shift = self._shift
        if shift is None:
            return None
        running = shift.running
        return self._pulse.feel(running.values(), len(running), sum(self._view.slots.values()))


async def wait_for_store(failures: int, error: StoreUnavailable) -> None:
    """The pause before the next try to open a store that cannot be reached."""
    pause = RECONNECT.delay(failures, random.random())
    logger.warning("cannot open the store, next try in %.1f s: %s", pause, error)
    await asyncio.sleep(pause)


def _lost(task: asyncio.Task[None]) -> bool:
    return task.done() and not task.cancelled() and isinstance(task.exception(), WorkerLost)
