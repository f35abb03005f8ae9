"""The slots of one worker: a claimed job starts, runs, is perhaps told to stop, and its outcome is logged.

What is claimed, handed back, or cancelled, and when all of it ends, is decided by the shift. Every job comes
through here, so a short one must cost little: no timer, no task and no call that it could do without.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import time
from collections.abc import Callable
from typing import Any, Final

from windlass.context import Context
from windlass.core.retry import Backoff
from windlass.core.states import Kind
from windlass.store.protocol import Store
from windlass.store.records import ClaimedJob, Fence, Outcome
from windlass.task import RegisteredTask
from windlass.worker.board import Board
from windlass.worker.desk import Desk
from windlass.worker.failures import describe
from windlass.worker.outcomes import OutcomeLog
from windlass.worker.recorder import Recorder
from windlass.worker.room import Room
from windlass.worker.runner import Runner
from windlass.worker.running import Deadlines, Run, Why
from windlass.worker.tally import Tally
from windlass.worker.view import DEFAULT, View
from windlass.worker.ward import SUSPECT_TIME, Ward

logger = logging.getLogger("windlass.worker")

SAFETY_BOUND: Final = DEFAULT.safety_bound


class Slots:
    """What runs in one worker. `total` bounds it over all queues; `board` is told of every start."""

    def __init__(
        self,
        store: Store,
        worker: int,
        runner: Runner,
        view: View,
        *,
        total: int | None,
        board: Board | None,
        ended: Callable[[Outcome], None] | None,
        record: Recorder | None,
    ) -> None:
        self.worker = worker
        self.loop = asyncio.get_running_loop()
        self._needs = runner.needs
        self._tally = Tally(store, self._needs)
        self._look_at(view)
        self.running: dict[Fence, Run] = {}
        """By the fence and not by the job: it may come back under another claim while its old run, which was
        lost, has not ended yet [S4]."""
        self.log = OutcomeLog(
            store,
            worker,
            flushed=self._flushed,
            record=record,
            tasks=runner.tasks,
            more=lambda: bool(self.running),
        )
        self.changed = asyncio.Event()
        self.abandoned = 0
        """Plain functions that could not be stopped and still run in their threads."""
        self._store = store
        self._desk = Desk(store, worker, self.log, self.loop, runner.codec)
        self._runner = runner
        self._total = total
        self._board = board
        self._ended = ended
        self._room = Room(total, runner.batches())
        self._buffers, self._busy = self._room.buffers, self._room.busy
        self._ward = Ward(runner.poison)
        self._deadlines = Deadlines(self.loop, self.running, self._overdue)
        self._asked: frozenset[str] = frozenset()
        self._succeeded: set[str] = set()

    def _look_at(self, view: View) -> None:
        self.view = view
        self._bounds = {name: queue.safety_bound for name, queue in view.queues.items()}
        self._throttled = {name for name, queue in view.queues.items() if queue.throttles}
        self._tally.govern([name for name, queue in view.queues.items() if queue.governor])

    # -- starting -----------------------------------------------------------------------------------------

    def _pump(self, queue: str) -> None:
        """Start what waits in this queue's buffer while it has free slots."""
        buffer = self._buffers[queue]
        slots = self.view.slots.get(queue, 0)
        while buffer and self._busy[queue] < slots and not self._ward.closed:
            self._start(buffer.popleft())

    def _reopen(self) -> None:
        """There are no suspects here any more: start what waits, and claim again."""
        for queue in self._buffers:
            self._pump(queue)
        self.changed.set()

    def _admit(self) -> None:
        """A job that has seen its worker die starts once it can take no innocent one along [C8]."""
        waits = self._ward.waiting
        if waits is None or self._busy[waits.queue] >= self.view.slots.get(waits.queue, 0):
            return
        if self._ward.admits(self.running.keys()):
            job = self._ward.enter()
            self._start(job)
            self.loop.call_later(SUSPECT_TIME, self._trust, job)
            self.changed.set()

    def _trust(self, job: ClaimedJob) -> None:
        """It has run for a while and its worker lives: others may run beside it."""
        if self._ward.leave(job):
            self._reopen()

    def _end_waiting(self, kind: Kind | None) -> None:
        """Nothing comes of the suspect that waits to be started, and its tokens go back [F1]. None: it is not
        ours any more."""
        job = self._ward.withdraw()
        if job is not None:
            if kind is not None:
                self._tally.unused(job)
                self._settle(Outcome(job=job, kind=kind))
            if not self._ward.closed:
                self._reopen()

    def _start(self, job: ClaimedJob) -> None:
        queue = job.queue
        task = self._runner.task(job.task)
        limit = self._bounds.get(queue, SAFETY_BOUND)
        own = job.options.timeout
        if own is None and task is not None:
            own = task.timeout
        if own is not None and own < limit:
            limit = own
        context = Context(job, self._desk) if task is None else task.context_type(job, self._desk)
        run = Run(job, context, time.monotonic(), limit, task is None or task.mode != "thread")
        self.running[run.fence] = run
        self._busy[queue] += 1
        if run.deadline < self._deadlines.next:
            self._deadlines.watch(run.deadline)
        if self._board is not None:
            run.place = self._board.enter(job.id, run.deadline)
        if task is not None and task.batch_size > 1:
            self._fill(run, task)
        run.task = self.loop.create_task(self._run(run) if run.batch is None else self._run_batch(run, task))
        for other in run.batch or ():
            other.task = run.task

    def _fill(self, first: Run, task: RegisteredTask[..., Any] | None) -> None:
        """Take more jobs of this task out of the buffer, to be run in one call with the first."""
        assert task is not None
        buffer = self._buffers[first.job.queue]
        others = [job for job in buffer if job.task == first.job.task][: task.batch_size - 1]
        first.batch = [first]
        for job in () if self._ward.holds(first.job) else others:
            buffer.remove(job)
            run = Run(job, task.context_type(job, self._desk), first.began, first.limit, first.stoppable)
            run.batch, run.weight = first.batch, 0
            first.batch.append(run)
            self.running[run.fence] = run
            if self._board is not None:
                run.place = self._board.enter(job.id, run.deadline)

    # -- running ------------------------------------------------------------------------------------------

    async def _run_batch(self, first: Run, task: RegisteredTask[..., Any] | None) -> None:
        """As `_run`, for all jobs of a batch."""
        assert task is not None
        assert first.batch is not None
        runs = first.batch
        outcomes: list[Outcome | None] = []
        try:
            try:
                ended = await self._runner.run_batch(task, [r.job for r in runs], [r.context for r in runs])
                outcomes += [
                    run.instead(outcome) if run.why is not None and outcome.kind is Kind.RETRY else outcome
                    for run, outcome in zip(runs, ended, strict=True)
                ]
            except asyncio.CancelledError as cancelled:
                outcomes += [await self._stopped(run, cancelled) for run in runs]
        except Exception as error:  # noqa: BLE001 - see _broken
            outcomes = [self._broken(run, error) for run in runs]
        finally:
            for run, outcome in zip(runs, outcomes or [None] * len(runs), strict=True):
                self._done(run, outcome)

    async def _run(self, run: Run) -> None:
        outcome: Outcome | None = None
        try:
            try:
                outcome = await self._runner.run(run.job, run.context)
                if run.why is not None and outcome.kind is Kind.RETRY:
                    outcome = run.instead(outcome)
            except asyncio.CancelledError as cancelled:
                outcome = await self._stopped(run, cancelled)
        except Exception as error:  # noqa: BLE001 - see _broken
            outcome = self._broken(run, error)
        finally:
            self._done(run, outcome)

    def _broken(self, run: Run, error: Exception) -> Outcome:
        """Nobody awaits a run: untold, its job would stay claimed for as long as this worker lives."""
        logger.error("the worker itself failed while it ran job %d", run.job.id, exc_info=error)
        failure = describe(error, run.job.attempt)
        delay = Backoff().delay(run.job.attempt, random.random())
        return Outcome(job=run.job, kind=Kind.RETRY, delay=delay, error=failure)

    async def _stopped(self, run: Run, cancelled: BaseException) -> Outcome | None:
        """The outcome of a run that was told to stop, and did."""
        if not run.stoppable and getattr(cancelled, "__notes__", None):
            self.abandoned += 1  # the note says where its thread stands
        if run.why is not Why.TIMEOUT:
            return run.instead(None)
        logger.warning("the stack of job %d when its time was over:\n%s", run.job.id, run.stack(cancelled))
        return await self._runner.timed_out(run.job, run.context, run.limit, cancelled, run.began)

    # -- the end of a run ---------------------------------------------------------------------------------

    def _done(self, run: Run, outcome: Outcome | None) -> None:
        job = run.job
        queue = job.queue
        del self.running[run.fence]
        if self._board is not None:
            self._board.leave(run.place)
        self._busy[queue] -= run.weight
        if run.weight and run.context._typical:
            self._room.appetites[queue].note((time.monotonic() - run.began) / len(run.batch or (run,)))
        if outcome is not None and run.context.ended:
            self._desk.ended(outcome)  # written by the handler's own transaction
            if self._ended is not None:
                self._ended(outcome)
        elif outcome is not None and run.why is Why.LOST:
            self.log.too_late([outcome], "their jobs were not this worker's any more")
        elif outcome is not None:
            self._settle(outcome)
        if self._ward.closed:
            if self._ward.leave(job):
                self._reopen()
            else:
                self._admit()
                self.changed.set()
        else:
            self._pump(queue)
            if queue not in self._asked and len(self._buffers[queue]) <= self._room.low[queue]:
                self.changed.set()
        if not self.running:
            self.log.no_more()

    def _settle(self, outcome: Outcome) -> None:
        self.log.add(outcome)
        if self._ended is not None:
            self._ended(outcome)
        if not self._tally.idle:
            self._tally.note(outcome)
        if self._throttled and outcome.kind is Kind.SUCCEEDED and outcome.job.queue in self._throttled:
            self._succeeded.add(outcome.job.queue)

    def _stop(self, run: Run, why: Why) -> None:
        """Tell a handler to stop, once [C7]. A plain function is told through its context and cannot be
        stopped, so only its time limit, or the end of its worker, gives up on it."""
        ignored = run.why is Why.CANCELLED and not run.stoppable and why is not Why.CANCELLED
        if run.why is why or (run.why is not None and why is not Why.LOST and not ignored):
            return
        if not ignored or why is Why.LOST:
            run.why = why
        run.context._cancel()
        if run.task is None or (why is Why.CANCELLED and not run.stoppable):
            return
        members = run.batch or [run]
        if why in (Why.CANCELLED, Why.LOST) and any(each.why is None for each in members):
            return  # the others of its batch go on
        for each in members:
            each.why = why if why is Why.LOST else each.why or why
        coroutine: Any = run.task.get_coro()
        unborn = inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
        run.task.cancel()
        if unborn:  # a task that is cancelled before its first step takes none, not even into its `finally`
            for each in members:
                if each.fence in self.running:
                    late = Outcome(job=each.job, kind=Kind.RELEASED)  # its time passed before it began
                    self._done(each, late if each.why is Why.TIMEOUT else each.instead(None))

    def _overdue(self, run: Run) -> None:
        members = run.batch or [run]
        # Of a batch, one that is not cancelled: what was said to the others does not end the call.
        self._stop(next((each for each in members if each.why is None), run), Why.TIMEOUT)

    def _flushed(self) -> None:
        if self._total is not None:
            self.changed.set()
