"""Writes outcomes back by natural batching: while one flush is in flight, the next one fills. Where flushes
are slow and full, the next one fills a little longer.

A flush that got no answer is sent again under its old number, and the store knows it by that, so an outcome
counts once however often it is sent [C5]. It is sent until it is answered: whether the worker may still
write is decided by the store and by the sender of the worker's heartbeats, not here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Container
from typing import Final

from windlass.core.counts import plural
from windlass.core.retry import Backoff
from windlass.core.states import Kind
from windlass.errors import StoreFull, StoreUnavailable, WorkerLost
from windlass.running.outages import OutageLog
from windlass.store.protocol import Store
from windlass.store.records import ClaimedJob, Fence, Finished, Outcome
from windlass.worker.engine.flush_claims import FlushClaims
from windlass.worker.reports.recorder import Recorder
from windlass.worker.reports.status_memory import StatusMemory

logger: Final = logging.getLogger("windlass.worker")
MAX_BATCH: Final = 2000
ENOUGH: Final = 1000
"""Outcomes for which no others are waited."""

MANY: Final = 16
"""Outcomes in a flush after which more are expected to come with the next."""

SLOW: Final = 0.005
"""Seconds that a flush takes where the server, or the processor, is in demand."""

LONGEST: Final = 0.1
"""Seconds that outcomes wait for others at most."""

RECENT: Final = 0.2
"""Seconds for which a flush tells something about the next one."""

RUN_GATHERS: Final = 0.005
"""Seconds that the outcome of a job waits for those that come behind it in a run of its key, at most."""

PAUSES: Final = Backoff(0.02, 5.0, jitter=0.5)


class OutcomeLog:
    """The outcomes of one worker on their way to the store. `flushed` is called after each flush, and
    `record` counts what was written, by name where a task is one of `tasks`. `more` says whether anything
    runs that may end soon; `no_more` is called when nothing does any more. `memory` notes that the
    store is full."""

    def __init__(
        self,
        store: Store,
        worker: int,
        *,
        flushed: Callable[[], None] = lambda: None,
        record: Recorder | None = None,
        tasks: Container[str] | None = None,
        more: Callable[[], bool] = lambda: True,
        memory: StatusMemory | None = None,
    ) -> None:
        self._status_memory = memory
        self.record: Final = record or Recorder()
        self._tasks = tasks
        self._more = more
        self.leaving = False
        """True if what is released from now on is given up, and not just passed on."""
        self._store = store
        self._worker = worker
        self._flushed = flushed
        self._waiting: list[Outcome] = []
        self._sending: list[Outcome] = []
        self._numbers = 0
        self._number = 0
        self._sent_at = 0.0
        self._ended_at = 0.0
        self._gathers = 0.0
        """How long it is worth waiting for more outcomes."""
        self._filled = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._enough = asyncio.Event()
        self._turn = asyncio.Lock()
        self.flush_claims: FlushClaims | None = None
        """Who takes the jobs that come with the answers."""
        self._withheld = 0
        self._nothing_asked = asyncio.Event()
        self._nothing_asked.set()
        self.refused: int = 0
        self._outages = OutageLog(logger)

    def add(self, outcome: Outcome) -> None:
        """Hand over an outcome; it is on its way as soon as the flush before it is done."""
        self._waiting.append(outcome)
        n = len(self._waiting)
        if n == 1:
            self._filled.set()
        elif n == ENOUGH:
            self._enough.set()

    def add_of_run(self, outcome: Outcome) -> None:
        """Add the outcome of a job that others come behind in a run of its key: it waits a little for theirs,
        and so does what comes meanwhile."""
        if self._waiting or self._sending:
            self.add(outcome)
        else:
            self._waiting.append(outcome)
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(RUN_GATHERS, self._filled.set)

    def add_last_of_run(self, outcome: Outcome) -> None:
        """Add the outcome of the last job of a run: there is nothing to wait for."""
        self.add(outcome)
        self._filled.set()

    def no_more(self) -> None:
        """Nothing runs that could end: there are no more outcomes to wait for."""
        self._enough.set()

    def next_number(self) -> int:
        """The number of a flush: each is given out once, to a batch here or to a handler's transaction."""
        self._numbers += 1
        return self._numbers

    @property
    def settled(self) -> bool:
        """Return whether every outcome has been written."""
        return not self._waiting and not self._sending

    @property
    def unwritten(self) -> set[Fence]:
        """The runs whose outcomes are on their way."""
        return {outcome.job.fence for outcome in (*self._waiting, *self._sending)}

    async def run(self) -> None:
        """Flush for ever. Raises WorkerLost."""
        while True:
            await self._filled.wait()
            await self.flush(gather=True)

    async def flush(self, *, gather: bool = False) -> None:
        """Write the outcomes so far, beginning with a batch that was under way. One call at a time: a second
        one would send the batch of the first."""
        async with self._turn:
            while not self.settled:
                if not self._sending:
                    if gather:
                        await self._gather()
                        if not self._waiting:
                            break  # dropped meanwhile
                    self._number, self._sent_at = self.next_number(), time.monotonic()
                    self._sending, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
                finished = await self._send()
                self._note(finished)
                if self.flush_claims is not None:
                    self.flush_claims.answered(finished)
                self._ended_at = time.monotonic()
                took = self._ended_at - self._sent_at
                self._gathers = min(took, LONGEST) if took > SLOW and len(self._sending) >= MANY else 0.0
                self._sending = []
                self._flushed()
            self._filled.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    async def _gather(self) -> None:
        """Wait for more outcomes, for as long as the last flush took at most, where that was slow and they
        come by the dozen. Many workers on few cores would send many small flushes otherwise, and each
        costs the server half a millisecond and more: 16 on two cores run 1.4 times as many jobs so."""
        if not self._gathers or time.monotonic() - self._ended_at > RECENT:
            return
        if len(self._waiting) < ENOUGH and self._more():
            self._enough.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._gathers):
                    await self._enough.wait()

    def drop(self) -> None:
        """The worker is lost: what was not written is refused from now on, and counted so [C5]."""
        late = [*self._waiting, *self._sending]
        self._waiting, self._sending = [], []
        if late:
            self.too_late(late, "this worker had lost its lease")

    def too_late(self, late: list[Outcome], why: str) -> None:
        """These are not written, but counted as if they had been sent and refused [C5]."""
        self.refused += len(late)
        ended = [outcome for outcome in late if outcome.kind is not Kind.RELEASED]
        ids = {outcome.job.id for outcome in ended}
        self.record.flushed(ended, time.monotonic(), ids, tasks=self._tasks)
        logger.warning("%s arrived too late: %s", plural(len(late), "outcome"), why)

    def refuse(self, job: ClaimedJob) -> None:
        """A write of a handler for this job was refused [C5]."""
        self.refused += 1
        self.record.refused(job)

    @contextlib.asynccontextmanager
    async def no_flush_claims(self) -> AsyncIterator[None]:
        """Let no flush claim jobs: every job that the store has given to this worker is known here."""
        self._withheld += 1
        try:
            await self._nothing_asked.wait()
            yield
        finally:
            self._withheld -= 1

    async def _finish(self, flush_claims: FlushClaims | None) -> Finished:
        room = None if flush_claims is None else flush_claims.ask()
        if flush_claims is None or room is None or self._withheld:
            return await self._store.finish(self._worker, self._number, self._sending)
        self._nothing_asked.clear()
        try:
            return await self._store.finish(self._worker, self._number, self._sending, room)
        except BaseException:
            flush_claims.lost()
            raise
        finally:
            self._nothing_asked.set()  # `flush` takes what came before anybody who waits for this runs

    async def _send(self) -> Finished:
        failures = 0
        while True:
            try:
                finished = await self._finish(self.flush_claims)
                self._outages.recovered("outcomes")
                if failures and self._status_memory is not None:
                    self._status_memory.full(full=False)
                return finished
            except (StoreUnavailable, StoreFull) as error:
                failures += 1
                if isinstance(error, StoreFull) and self._status_memory is not None:
                    self._status_memory.full()
                pause = PAUSES.delay(failures, random.random())
                message = "cannot write %s, next try in %.1f s: %s"
                self._outages.failed("outcomes", message, plural(len(self._sending), "outcome"), pause, error)
            except WorkerLost:
                self.drop()
                raise
            await asyncio.sleep(pause)

    def _note(self, finished: Finished) -> None:
        self.record.flushed(
            self._sending, self._sent_at, finished.refused, leaving=self.leaving, tasks=self._tasks
        )
        if finished.refused:
            self.refused += len(finished.refused)
            logger.warning(
                "%s refused, because these jobs no longer belong to this worker: %s",
                plural(len(finished.refused), "outcome was", "outcomes were"),
                ", ".join(map(str, finished.refused[:10])),
            )
