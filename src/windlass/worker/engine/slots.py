"""The slots of one worker: a claimed job starts, runs, is perhaps told to stop, and its outcome is logged.

What is claimed, and when all of it ends, is decided elsewhere (`claimer`, `worker_session`). Every job passes
through here, so a short one must cost little: no timer, no task and no call that it could do without.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
import random
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from windlass.core.retry import Backoff
from windlass.core.slots import LONG
from windlass.core.states import Kind
from windlass.running.context import Context
from windlass.running.failures import describe
from windlass.running.steps import Steps
from windlass.store.records import DEFAULT_OPTIONS, ClaimedJob, Outcome
from windlass.tasks.task import RegisteredTask
from windlass.worker.engine.assignment import DEFAULT, Assignment
from windlass.worker.engine.capacity import STALE, Capacity
from windlass.worker.engine.feedback import Feedback
from windlass.worker.engine.key_runs import RunWatch, goes_on
from windlass.worker.engine.outcomes import OutcomeLog
from windlass.worker.engine.quarantine import TRUSTED_AFTER, Quarantine
from windlass.worker.engine.spawn import spawner
from windlass.worker.engine.waiting import sleep_until
from windlass.worker.handlers.handler_call import HandlerCall
from windlass.worker.handlers.handler_port import HandlerPort
from windlass.worker.handlers.run import Deadlines, Run, Why
from windlass.worker.handlers.runner import Runner
from windlass.worker.handlers.threads import Call
from windlass.worker.reports.status_memory import StatusMemory

logger: Final = logging.getLogger("windlass.worker")

SAFETY_BOUND: Final = DEFAULT.safety_bound

AT_ONCE: Final = 64
"""Runs of a queue that are begun before others on the loop come first: each may have ended by then."""


class Slots:
    """The running jobs of one worker. `port` is what contexts of handlers talk to, and `changed` is set when
    there may be room to claim for. `memory` notes every start, and `ended` is called with every
    outcome."""

    def __init__(
        self,
        runner: Runner,
        port: HandlerPort,
        log: OutcomeLog,
        capacity: Capacity,
        feedback: Feedback,
        changed: asyncio.Event,
        *,
        memory: StatusMemory | None = None,
        ended: Callable[[Outcome], None] | None = None,
    ) -> None:
        self.running: dict[Run, None] = {}
        """In order, each once. A job may be among them twice: it comes back under another claim while its old
        run, which was lost, has not ended yet [S4]."""
        self.abandoned: int = 0
        """Plain functions that could not be stopped and still run in their threads."""
        self.asked: frozenset[str] = frozenset()
        """Queues with room for which the claim loop waits already: an end of a run need not wake it."""
        self.quarantine: Final = Quarantine(runner.poison)
        self.deadlines: Final = Deadlines(port.loop, self.running, self._overdue)
        self._loop = port.loop
        self._runner = runner
        self._port = port
        self._log = log
        self._capacity = capacity
        self._buffers, self._busy = capacity.buffers, capacity.busy
        self._feedback = feedback
        self._changed = changed
        self._status_memory = memory
        self._ended = ended
        self._bounds: dict[str, float] = {}
        self._context = contextvars.copy_context()
        self._spawn = spawner(port.loop, self._context)
        self._filling: set[str] = set()
        """Queues whose free slots are being filled, or will be in the loop's next turn."""
        self.run_watch: Final = RunWatch(port.loop, capacity.runs, self.running, STALE / 2, self._stuck)
        self._none_runs = asyncio.Event()
        self._has_returned = self._returned  # one object for all calls

    def assign(self, assignment: Assignment) -> None:
        """The settings of queues as they are now."""
        self._bounds = {name: queue.safety_bound for name, queue in assignment.queues.items()}

    # -- starting -----------------------------------------------------------------------------------------

    def fill(self, queue: str) -> None:
        """Start what waits in this queue's buffer while it has free slots."""
        if queue in self._filling:
            return  # a run that ended as soon as it was begun: whoever began it goes on
        self._filling.add(queue)
        buffer, busy, capacity = self._buffers[queue], self._busy, self._capacity
        left = AT_ONCE
        try:
            while (
                left and buffer and busy[queue] < capacity.slots.get(queue, 0) and not self.quarantine.closed
            ):
                left -= 1
                self._start(buffer.popleft())
        finally:
            self._filling.discard(queue)
        if not left and buffer:
            self._fill_later(queue)

    def _fill_later(self, queue: str) -> None:
        self._filling.add(queue)
        self._loop.call_soon(self._go_on, queue)

    def _go_on(self, queue: str) -> None:
        self._filling.discard(queue)
        self.fill(queue)
        self._claim_if_low(queue)

    def _claim_if_low(self, queue: str) -> None:
        """Have more claimed while what was just started runs."""
        if queue not in self.asked and len(self._buffers[queue]) <= self._capacity.low[queue]:
            self._changed.set()

    def admit(self) -> None:
        """A job that has seen its worker die starts once it can take no clean one along [C8]."""
        waits = self.quarantine.waiting
        if waits is None or self._capacity.is_full(waits.queue):
            return
        if self.quarantine.admits({run.job.fence for run in self.running}):
            job = self.quarantine.enter()
            self._start(job)
            self._loop.call_later(TRUSTED_AFTER, self._trust, job)
            self._changed.set()

    def withdraw(self, kind: Kind | None) -> None:
        """Do not start the crashed job that waits; its tokens go back [F1]. `kind` is its outcome; None: it
        is not ours any more."""
        job = self.quarantine.withdraw()
        if job is not None:
            if kind is not None:
                self.hand_back(job, kind)
            if not self.quarantine.closed:
                self._reopen()

    def hand_back(self, job: ClaimedJob, kind: Kind = Kind.RELEASED) -> None:
        """A job that was claimed and not started ends without being charged, and its tokens go back [F1].
        Where it is released, so are all that come behind it in its run."""
        self._feedback.unused(job)
        self.settle(Outcome(job=job, kind=kind))
        if job.run and kind is Kind.RELEASED:
            self._hand_back_behind(job)

    def withhold(self, job: ClaimedJob, needs: str | None) -> None:
        """A job that was claimed and is not put anywhere here goes back, or to workers that have what it
        needs [K14]."""
        self._feedback.unused(job)
        self.settle(Outcome(job=job, kind=Kind.RELEASED, needs=needs))

    def _hand_back_behind(self, job: ClaimedJob) -> None:
        for other in self._capacity.runs.rest_of(job):
            self.hand_back(other)

    def _stuck(self, job: ClaimedJob) -> None:
        """A job takes so long that what waits behind it goes back: others may have slots for it."""
        self._capacity.prefetch[job.queue].stuck()
        self._hand_back_behind(job)

    def _log_of_run(self, job: ClaimedJob) -> Callable[[Outcome], None]:
        return self._log.add_of_run if job in self._capacity.runs else self._log.add_last_of_run

    def _go_on_behind(self, run: Run, outcome: Outcome | None) -> bool:
        """A job of a run has ended, and its slot is for the next one; whether there is one."""
        job = run.job
        if not goes_on(run, outcome):
            self._hand_back_behind(job)
        following = self._capacity.runs.next_of(job)
        if following is not None:
            self._buffers[job.queue].appendleft(following)
        return following is not None

    def _trust(self, job: ClaimedJob) -> None:
        """It has run for a while and its worker lives: others may run beside it."""
        if self.quarantine.leave(job):
            self._reopen()

    def _reopen(self) -> None:
        """Start what waits, and claim again: no crashed job is here any more."""
        for queue in self._buffers:
            self.fill(queue)
        self._changed.set()

    def _start(self, job: ClaimedJob) -> None:
        queue = job.queue
        task = self._runner.tasks.get(job.task)
        limit = self._bounds.get(queue, SAFETY_BOUND)
        own = job.options.timeout
        if own is None and task is not None:
            own = task.timeout
        if own is not None and own < limit:
            limit = own
        context = Context(job, self._port) if task is None else task.context_type(job, self._port)
        began = time.monotonic()
        if job.starts_at > began:
            began = job.starts_at
        stoppable = task is None or task.mode != "thread"
        run = Run(job, context, began, limit, began + limit, stoppable)
        self.running[run] = None
        self._busy[queue] += 1
        if run.deadline < self.deadlines.next:
            self.deadlines.watch(run.deadline)
        if self._status_memory is not None:
            run.place = self._status_memory.enter(job.id, run.deadline)
        if task is not None and task.batch_size > 1:
            self._add_to_batch(run, task)
            run.task = self._spawn(self._run_batch(run, task))
            for other in run.batch or ():
                other.task = run.task
        elif task is not None and (pool := self._runner.pool_for(task, job)) is not None:
            run.call = call = HandlerCall(
                self._has_returned,
                self._context,
                run=run,
                task=task,
                payload=job.payload,
                handler_context=context,
            )
            pool.start(call)
        else:
            run.task = self._spawn(self._run(run))

    def _add_to_batch(self, first: Run, task: RegisteredTask[..., Any]) -> None:
        """Take more jobs of this task out of the buffer, to be run in one call with the first."""
        buffer = self._buffers[first.job.queue]
        others = [job for job in buffer if job.task == first.job.task][: task.batch_size - 1]
        first.batch = [first]
        for job in () if self.quarantine.holds(first.job) else others:
            buffer.remove(job)
            context = task.context_type(job, self._port)
            run = msgspec.structs.replace(first, job=job, context=context, weight=0)
            first.batch.append(run)
            self.running[run] = None
            if self._status_memory is not None:
                run.place = self._status_memory.enter(job.id, run.deadline)

    # -- running ------------------------------------------------------------------------------------------

    async def _run(self, run: Run, call: HandlerCall | None = None) -> None:
        """Run a job to its end; with a `call`, that has ended in its thread, from there on."""
        outcome: Outcome | None = None
        try:
            try:
                if run.job.starts_at:
                    await sleep_until(run.began)
                outcome = await self._runner.run(run.job, run.context, call)
            except asyncio.CancelledError as cancelled:
                outcome = await self._stopped(run, cancelled)
            if run.context._steps is not None:
                await self._end_steps(run, run.context._steps)
            if run.why is not None and outcome is not None and outcome.kind is Kind.RETRY:
                outcome = run.instead(outcome)
            if run.context._emits is not None:
                await run.context._emits.close()
        except Exception as error:  # noqa: BLE001 - see _broken
            outcome = self._broken(run, error)
        finally:
            self._done(run, outcome)

    async def _end_steps(self, run: Run, steps: Steps) -> None:
        """Wait for the steps that the handler has left running: the next attempt would run them beside
        themselves [W1]. Of a run that was told to stop they are cancelled, and threads are left behind, as
        those of plain handlers are: by a cancel only when its time is up. Heartbeats go on meanwhile [C7]."""
        steps.close()
        if run.why is None or (run.why is Why.CANCELLED and not run.stoppable):
            with contextlib.suppress(asyncio.CancelledError):  # told to stop meanwhile
                await steps.ended()
        await steps.stop()
        if run.why is Why.CANCELLED:
            run.stoppable = False
            with contextlib.suppress(asyncio.CancelledError):
                await steps.ended()

    async def _run_batch(self, first: Run, task: RegisteredTask[..., Any]) -> None:
        """As `_run`, for all jobs of a batch."""
        assert first.batch is not None
        runs = first.batch
        outcomes: list[Outcome | None] = []
        try:
            try:
                await sleep_until(max(run.job.starts_at for run in runs))
                ended = await self._runner.run_batch(task, [r.job for r in runs], [r.context for r in runs])
                outcomes += [
                    run.instead(outcome) if run.why is not None and outcome.kind is Kind.RETRY else outcome
                    for run, outcome in zip(runs, ended, strict=True)
                ]
            except asyncio.CancelledError as cancelled:
                outcomes += [await self._stopped(run, cancelled) for run in runs]
            for run in runs:
                if run.context._emits is not None:
                    await run.context._emits.close()
        except Exception as error:  # noqa: BLE001 - see _broken
            outcomes = [self._broken(run, error) for run in runs]
        finally:
            for run, outcome in zip(runs, outcomes or [None] * len(runs), strict=True):
                self._done(run, outcome)

    def _returned(self, call: HandlerCall) -> None:
        """A plain handler has ended in its thread. What went wrong, and what must be awaited, is a task's."""
        run = call.run
        run.call = None  # which leads back to it
        context = run.context
        waits = context._checkpoints is not None or context._emits is not None or context._steps is not None
        if call.error is None and not waits:
            queue = run.job.queue
            if self._buffers[queue] and queue not in self._filling:
                self._fill_later(queue)  # once for all that have ended by now
            try:
                outcome = self._runner.returned(call)
            except Exception as error:  # noqa: BLE001 - see _broken
                outcome = self._broken(run, error)
            self._done(run, outcome)
        else:
            run.task = self._spawn(self._run(run, call))

    def _give_up(self, run: Run, call: Call) -> None:
        """Wait no longer for a plain handler. Where it has ended meanwhile, its outcome is on its way."""
        cancelled = asyncio.CancelledError()
        if call.give_up(cancelled):
            self._note_abandoned(run, cancelled)
            run.task = self._spawn(self._gave_up(run, cancelled))

    async def _gave_up(self, run: Run, cancelled: asyncio.CancelledError) -> None:
        outcome: Outcome | None = None
        try:
            outcome = await self._instead(run, cancelled)
            if run.context._emits is not None:
                await run.context._emits.close()
        except Exception as error:  # noqa: BLE001 - see _broken
            outcome = self._broken(run, error)
        finally:
            self._done(run, outcome)

    def _broken(self, run: Run, error: Exception) -> Outcome:
        """Return the outcome of a run that broke in here: without one its job would stay claimed."""
        logger.error("internal error while running job %d", run.job.id, exc_info=error)
        failure = describe(error, run.job.attempt)
        delay = Backoff().delay(run.job.attempt, random.random())
        return Outcome(job=run.job, kind=Kind.RETRY, delay=delay, error=failure)

    async def _stopped(self, run: Run, cancelled: BaseException) -> Outcome | None:
        """The outcome of a run that was told to stop, and did."""
        self._note_abandoned(run, cancelled)
        return await self._instead(run, cancelled)

    def _note_abandoned(self, run: Run, cancelled: BaseException) -> None:
        if not run.stoppable and getattr(cancelled, "__notes__", None):
            self.abandoned += 1  # the note says where its thread stands

    async def _instead(self, run: Run, cancelled: BaseException) -> Outcome | None:
        if run.why is not Why.TIMEOUT:
            return run.instead(None)
        logger.warning("job %d timed out; its stack:\n%s", run.job.id, run.stack(cancelled))
        return await self._runner.timed_out(run.job, run.context, run.limit, cancelled, run.began)

    # -- the end of a run ---------------------------------------------------------------------------------

    def _done(self, run: Run, outcome: Outcome | None) -> None:
        job = run.job
        queue = job.queue
        del self.running[run]
        if self._status_memory is not None:
            self._status_memory.leave(run.place)
        self._busy[queue] -= run.weight
        if run.weight and run.context._typical and (spent := time.monotonic() - run.began) > 0.0:
            if run.batch is not None:
                spent /= len(run.batch)
            if job.options.part is not None and spent < LONG:
                spent = LONG  # parts are spread over workers [K10]
            self._capacity.prefetch[queue].note(spent)
        if outcome is not None and run.context._ended:
            self._port.ended(outcome)  # written by the handler's own transaction
            if self._ended is not None:
                self._ended(outcome)
        elif outcome is not None and run.why is Why.LOST:
            self._log.too_late([outcome], "their jobs were not this worker's any more")
        elif outcome is not None:
            self.settle(outcome, self._log_of_run(job) if job.run else None)
        followed = job.run > 0 and self._go_on_behind(run, outcome)
        if self.quarantine.closed:
            self._one_less(job)
        else:
            self.fill(queue)
            kept = job.options is not DEFAULT_OPTIONS and not followed and self._is_kept(run, outcome)
            if self._buffers[queue] or not kept:
                self._claim_if_low(queue)
        if not self.running:
            self._log.no_more()
            self._none_runs.set()

    def _one_less(self, job: ClaimedJob) -> None:
        """A run has ended while crashed jobs keep clean ones from starting [C8]."""
        if self.quarantine.leave(job):
            self._reopen()
        else:
            self.admit()
            self._changed.set()

    async def all_ended(self, timeout: float) -> None:
        """Wait until nothing runs, for at most so long."""
        if self.running:
            self._none_runs.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._none_runs.wait()

    def _is_kept(self, run: Run, outcome: Outcome | None) -> bool:
        """Return whether the slot of this run, for which nothing is claimed ahead, waits for a job handed
        over. Other such jobs may come to wait for a slot."""
        flush_claims = self._log.flush_claims
        if flush_claims is None or outcome is None or run.context.ended or run.why is Why.LOST:
            return False
        free = self._capacity.has_free_slot(run.job.queue)  # a job from the buffer may have it by now
        free = run.weight > 0 and free and not self._buffers[run.job.queue]
        return flush_claims.note_end(run.job, free=free)

    def settle(self, outcome: Outcome, add: Callable[[Outcome], None] | None = None) -> None:
        """Have this outcome written; `add` is how the log is given it, if not as most are."""
        if add is None:
            self._log.add(outcome)
        else:
            add(outcome)
        if self._ended is not None:
            self._ended(outcome)
        if not self._feedback.idle:
            self._feedback.run_ended(outcome)

    def stop(self, run: Run, why: Why) -> None:
        """Tell a handler to stop, once [C7]. A plain function is told through its context and cannot be
        stopped, so only its time limit, or the end of its worker, gives up on it."""
        ignored = run.why is Why.CANCELLED and not run.stoppable and why is not Why.CANCELLED
        if run.why is why or (run.why is not None and why is not Why.LOST and not ignored):
            return
        if not ignored or why is Why.LOST:
            run.why = why
        run.context._cancel()
        if why is Why.CANCELLED and not run.stoppable:
            return
        if run.task is None:
            if run.call is not None:
                self._give_up(run, run.call)
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
                if each in self.running:
                    late = Outcome(job=each.job, kind=Kind.RELEASED)  # its time passed before it began
                    self._done(each, late if each.why is Why.TIMEOUT else each.instead(None))

    def _overdue(self, run: Run) -> None:
        members = run.batch or [run]
        # Of a batch, one that is not cancelled: what was said to the others does not end the call.
        self.stop(next((each for each in members if each.why is None), run), Why.TIMEOUT)
