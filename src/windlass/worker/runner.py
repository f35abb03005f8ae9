"""One claimed job in, its outcome out [O1]. Knows tasks, hooks and policies, but neither store nor worker.

Whatever a handler does ends here: it returns, raises one of `windlass.signals`, raises anything else, or
cannot even be called because the payload does not fit. Each is an outcome of that job alone. Only
cancellation from outside passes through, since only the caller knows what it means; `timed_out` says what it
is where the caller's reason was the clock.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from windlass.codec import Codec
from windlass.context import Context, entered
from windlass.core.retry import Backoff
from windlass.core.states import Kind
from windlass.core.unknown import GIVE_UP_AFTER, unknown_delay
from windlass.encoding import decode
from windlass.errors import CodecError, StoreError, WindlassError
from windlass.hooks import Hooks
from windlass.signals import Cancelled, Dead, Retry, Snooze, SourceGone, Throttled
from windlass.store.flow import Need
from windlass.store.records import ClaimedJob, Failure, Outcome
from windlass.task import RegisteredTask
from windlass.worker.failures import causes, describe
from windlass.worker.processes import Processes
from windlass.worker.results import keep
from windlass.worker.threads import Threads
from windlass.worker.waiting import cancelled_from_outside

logger = logging.getLogger("windlass.worker")
THROTTLE_DELAY: Final = 60.0
SEALED_DELAY: Final = 60.0
"""Seconds, at least, until a job is tried again that cannot be opened here: a deploy may bring its key or its
codec, and until then its attempts should last."""
MOST_TOLD: Final = 1000

Tasks: TypeAlias = Mapping[str, RegisteredTask[..., Any]]
Observer: TypeAlias = Callable[[ClaimedJob, Outcome, BaseException | None], None]


class Policies(Protocol):
    """What a runner asks about queues, and a shift about deaths and leases."""

    @property
    def poison(self) -> int:
        """How many deaths of its workers make a job poison [C8]."""

    @property
    def lease(self) -> float:
        """Seconds without a heartbeat after which a worker's jobs are others' [C4]."""

    def backoff(self, queue: str) -> Backoff:
        """How the queue spaces the retries of tasks without a policy of their own [O2]."""

    async def throttle(self, queue: str, hint: float | None) -> float:
        """Cool the queue; the answer is the seconds until it resumes [O3]."""


class HandlerThreads(Protocol):
    """Where plain functions run."""

    async def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call one, with this task's context, and await what it returns or raises."""

    def close(self) -> None:
        """No more calls will come."""


class Runner:
    """Runs jobs of known tasks: `async def` ones on this loop, plain ones in threads or processes.

    `observe` is told of every outcome, with the exception behind it if there was one. `interruptible` says
    that a KeyboardInterrupt is the user's and not a handler's.
    """

    def __init__(
        self,
        tasks: Tasks,
        policies: Policies,
        *,
        hooks: Hooks | None = None,
        observe: Observer | None = None,
        processes: Processes | None = None,
        threads: HandlerThreads | None = None,
        interruptible: bool = False,
    ) -> None:
        self.tasks = tasks
        self._policies = policies
        self.poison = policies.poison
        self.lease = policies.lease
        self._hooks = hooks or Hooks()
        self._observe = observe
        self._interruptible = interruptible
        self._unknown_told: set[str] = set()
        self.threads = threads or Threads()
        self.processes = processes or Processes()

    async def close(self) -> None:
        """Let idle threads end and stop the processes."""
        self.threads.close()
        await self.processes.close()

    @property
    def codec(self) -> Codec | None:
        """That of the app whose tasks these are."""
        return next((task.app.codec for task in self.tasks.values()), None)

    @property
    def needs(self) -> dict[str, list[Need]]:
        """What the tasks take of budgets, those that take something [F1]."""
        return {name: needs for name, task in self.tasks.items() if (needs := task.needs)}

    def batches(self) -> dict[str, int]:
        """By queue, how many jobs one of its tasks takes at once, where that is more than one."""
        found: dict[str, int] = {}
        for task in self.tasks.values():
            if task.batch_size > 1:
                found[task.queue] = max(task.batch_size, found.get(task.queue, 1))
        return found

    def task(self, name: str) -> RegisteredTask[..., Any] | None:
        """The task of this name, if its code is here."""
        return self.tasks.get(name)

    async def run(self, job: ClaimedJob, context: Context) -> Outcome:
        """Run one attempt to its end. Raises CancelledError if, and only if, it is cancelled from outside."""
        task = self.tasks.get(job.task)
        if task is None:
            return self._unknown(job)
        began = time.monotonic()
        try:
            if task.mode == "loop" and not self._hooks.middleware:
                # The hot path: no frame that need not be there, since each costs a share of a short job.
                args, kwargs = task.decode(job.payload)
                if task.signature.context is not None:
                    kwargs[task.signature.context] = context
                entered(context)
                value = await task.function(*args, **kwargs)
            else:
                value = await self._call(task, job, context)
            result = None if value is None else keep(value, task)
            outcome = Outcome(job=job, result=result, run_ms=(time.monotonic() - began) * 1000.0)
            if self._observe is not None:
                self._observe(job, outcome, None)
            return outcome
        except asyncio.CancelledError as cancelled:
            if cancelled_from_outside():
                raise
            return await self._raised(task, job, context, cancelled, began)
        except KeyboardInterrupt as interrupt:
            if self._interruptible:
                raise
            return await self._raised(task, job, context, interrupt, began)
        except GeneratorExit as closed:
            if asyncio.current_task() is None:
                raise  # nobody raised it: the loop is gone and takes this run along
            return await self._raised(task, job, context, closed, began)
        except BaseException as error:  # noqa: BLE001 - nobody else sees a job's error
            return await self._raised(task, job, context, error, began)

    async def run_batch(
        self, task: RegisteredTask[..., Any], jobs: Sequence[ClaimedJob], contexts: Sequence[Context]
    ) -> list[Outcome]:
        """Run one attempt of many jobs in one call of their handler, and say how each of them ended. Raises
        CancelledError as `run` does."""
        began = time.monotonic()
        told: dict[int, Any] = {}
        items: list[Any] = []
        places: list[int] = []
        for place, job in enumerate(jobs):
            try:
                args, kwargs = task.decode(job.payload)
            except WindlassError as error:  # the others need not suffer
                told[place] = error
            else:
                items.append(args[0] if args else next(iter(kwargs.values())))
                places.append(place)
        if items:
            try:
                answers = _each(
                    task.name, await self._call_with(task, items, contexts[places[0]]), len(items)
                )
            except asyncio.CancelledError as cancelled:
                if cancelled_from_outside():
                    raise
                answers = [cancelled] * len(items)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt) and self._interruptible:
                    raise
                answers = [error] * len(items)
            told.update(zip(places, answers, strict=True))
        run_ms = (time.monotonic() - began) * 1000.0 / len(jobs)
        began = time.monotonic() - run_ms / 1000.0  # each has its share of the time, however it ended
        outcomes: list[Outcome] = []
        for place, job in enumerate(jobs):
            answer, kept = told[place], None
            try:
                kept = None if isinstance(answer, BaseException) else keep(answer, task)
            except Dead as unfit:  # what it returned cannot be kept
                answer = unfit
            if isinstance(answer, BaseException):
                outcomes.append(await self._raised(task, job, contexts[place], answer, began))
                continue
            outcome = Outcome(job=job, result=kept, run_ms=run_ms)
            if self._observe is not None:
                self._observe(job, outcome, None)
            outcomes.append(outcome)
        return outcomes

    async def _call_with(self, task: RegisteredTask[..., Any], items: list[Any], context: Context) -> Any:
        async def call() -> Any:
            if task.is_async:
                return await task.function(items)
            return await self.threads.run(task.function, items)

        entered(context)
        return await (self._hooks.wrap(context, call) if self._hooks.middleware else call())

    async def timed_out(
        self, job: ClaimedJob, context: Context, limit: float, cancelled: BaseException, began: float
    ) -> Outcome:
        """The outcome of an attempt that its caller ended because it ran too long. `cancelled` is where it
        stood when it was told."""
        error = TimeoutError(f"ran longer than its timeout of {limit:g} s")
        error.__cause__ = cancelled
        return await self._raised(self.tasks[job.task], job, context, error, began)

    async def _call(self, task: RegisteredTask[..., Any], job: ClaimedJob, context: Context) -> Any:
        entered(context)
        if self._hooks.middleware:
            return await self._hooks.wrap(context, lambda: self._handle(task, job, context))
        return await self._handle(task, job, context)

    async def _handle(self, task: RegisteredTask[..., Any], job: ClaimedJob, context: Context) -> Any:
        if task.mode == "process":
            return decode(await self.processes.run(task, task.unsealed(job.payload)))
        args, kwargs = task.decode(job.payload)
        if task.signature.context is not None:
            kwargs[task.signature.context] = context
        if task.mode == "loop":
            return await task.function(*args, **kwargs)
        return await self.threads.run(task.function, *args, **kwargs)

    async def _raised(
        self,
        task: RegisteredTask[..., Any],
        job: ClaimedJob,
        context: Context,
        error: BaseException,
        began: float,
    ) -> Outcome:
        if context.ended:
            logger.warning(
                "%s raised after it had ended in its own transaction: %s", name(job), causes(error)
            )
            return Outcome(job=job)
        outcome = await self._outcome(task, job, error)
        outcome = _with_time(outcome, (time.monotonic() - began) * 1000.0)
        if outcome.error is not None:
            await self._hooks.failed(context, error, outcome)
        if self._observe is not None:
            self._observe(job, outcome, error)
        return outcome

    async def _outcome(
        self, task: RegisteredTask[..., Any], job: ClaimedJob, error: BaseException
    ) -> Outcome:
        match error:
            case Snooze():
                return Outcome(job=job, kind=Kind.SNOOZE, delay=error.delay)
            case Throttled():
                return Outcome(job=job, kind=Kind.THROTTLED, delay=await self._cool(job, error))
            case Cancelled():
                return Outcome(job=job, kind=Kind.CANCELLED)
            case SourceGone():
                logger.info("%s ended well: %s", name(job), error.reason)
                return Outcome(job=job, kind=Kind.SUCCEEDED, forget=True)
            case Dead():
                logger.error("%s is dead: %s", name(job), causes(error), extra=about(job))
                return Outcome(job=job, kind=Kind.DEAD, error=describe(error, job.attempt))
            case _:
                return self._failed(task, job, error)

    async def _cool(self, job: ClaimedJob, error: Throttled) -> float:
        """Cool the whole queue; where that cannot be said to the store, this job waits the flat time [O3]."""
        try:
            delay = await self._policies.throttle(job.queue, error.retry_after)
        except StoreError as trouble:
            delay = max(THROTTLE_DELAY, error.retry_after or 0.0)
            logger.warning(
                "queue %s was throttled, but its settings cannot be read (%s); %s waits %.0f s",
                job.queue,
                trouble,
                name(job),
                delay,
            )
            return delay
        logger.info("%s was throttled; queue %s resumes in %.0f s", name(job), job.queue, delay)
        return delay

    def _failed(self, task: RegisteredTask[..., Any], job: ClaimedJob, error: BaseException) -> Outcome:
        policy = task.retry.backoff if task.has_policy else self._policies.backoff(job.queue)
        delay = _retry_delay(policy, job, error)
        if isinstance(error, Retry) and error.__cause__ is not None:
            error = error.__cause__  # what went wrong, rather than the wish to try again
        if job.attempt >= job.options.max_attempts:
            told = "%s is dead, no attempt is left: %s"
            logger.error(told, name(job), causes(error), extra=about(job))
        else:
            told = "%s failed, next try in %.1f s: %s"
            logger.warning(told, name(job), delay, causes(error), extra=about(job))
        # The store makes the last attempt's retry a death: it alone knows that count for certain.
        return Outcome(job=job, kind=Kind.RETRY, delay=delay, error=describe(error, job.attempt))

    def _unknown(self, job: ClaimedJob) -> Outcome:
        """A task no code here knows may be known to the next deploy: wait for it uncharged, not for ever
        [O4]."""
        since = job.options.unknown_since
        for_how_long = 0.0 if since is None else max(0.0, time.time() - since)
        if for_how_long >= GIVE_UP_AFTER:
            logger.error("%s is dead: no worker knew this task for %.0f s", name(job), for_how_long)
            failure = Failure("UnknownTask", "no worker knows this task", attempt=job.attempt)
            return Outcome(job=job, kind=Kind.DEAD, error=failure)
        if job.task not in self._unknown_told:
            if len(self._unknown_told) >= MOST_TOLD:  # names come from producers: there may be any number
                self._unknown_told.clear()
            self._unknown_told.add(job.task)
            logger.warning("%s waits: this worker does not know task %s", name(job), job.task)
        return Outcome(job=job, kind=Kind.UNKNOWN, delay=unknown_delay(for_how_long))


def _each(task: str, answer: Any, n: int) -> list[Any]:
    """What a batch's handler says of each of its items."""
    if answer is None:
        return [None] * n
    if isinstance(answer, list | tuple) and len(answer) == n:
        return list(answer)
    raise TypeError(
        f"task {task} takes batches: it returns None, or a list with one entry for each of its {n} items, "
        f"not {type(answer).__name__}" + (f" of {len(answer)}" if isinstance(answer, list | tuple) else "")
    )


def name(job: ClaimedJob) -> str:
    """A job as the log names it [O4]."""
    return f"{job.task} on {job.queue}, job {job.id}, attempt {job.attempt} of {job.options.max_attempts}"


def about(job: ClaimedJob) -> dict[str, object]:
    """The same as fields, for logs that machines read [M6]."""
    return {"job": str(job.id), "task": job.task, "queue": job.queue, "attempt": job.attempt}


def _retry_delay(backoff: Backoff, job: ClaimedJob, error: BaseException) -> float:
    if isinstance(error, Retry) and error.after is not None:
        return error.after
    delay = backoff.delay(job.attempt, random.random())
    return max(delay, SEALED_DELAY) if isinstance(error, CodecError) else delay


def _with_time(outcome: Outcome, run_ms: float) -> Outcome:
    return Outcome(
        job=outcome.job,
        kind=outcome.kind,
        delay=outcome.delay,
        error=outcome.error,
        result=outcome.result,
        run_ms=run_ms,
        forget=outcome.forget,
    )
