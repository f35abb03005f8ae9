"""One claimed job in, its outcome out [O1]. Knows tasks and policies, but neither store nor worker.

Whatever a handler does ends here: it returns, raises one of `windlass.signals`, raises anything else, runs
into its timeout, or cannot even be called because the payload does not fit. Each is an outcome of that job
alone. Only cancellation from outside passes through, since only the caller knows what it means.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from windlass.core.retry import Backoff
from windlass.core.states import Kind
from windlass.core.unknown import GIVE_UP_AFTER, unknown_delay
from windlass.encoding import encode
from windlass.errors import EnqueueError
from windlass.signals import Dead, Retry, Snooze, SourceGone, Throttled
from windlass.store.records import ClaimedJob, Failure, Outcome
from windlass.task import RegisteredTask
from windlass.worker.failures import causes, describe
from windlass.worker.threads import Threads

logger = logging.getLogger("windlass.worker")
THROTTLE_DELAY: Final = 60.0
THROTTLE_CAP: Final = 1800.0
MAX_UNKNOWN: Final = 10_000

Tasks: TypeAlias = Mapping[str, RegisteredTask[..., Any]]
Observer: TypeAlias = Callable[[ClaimedJob, Outcome, BaseException | None], None]


class Runner:
    """Runs jobs of known tasks, `async def` ones on this loop and plain ones in threads.

    `observe` is told of every outcome, with the exception behind it if there was one.
    """

    def __init__(self, tasks: Tasks, threads: Threads, observe: Observer | None = None) -> None:
        self._tasks = tasks
        self._threads = threads
        self._observe = observe
        self._unknown_since: dict[int, float] = {}
        self._unknown_told: set[str] = set()

    async def run(self, job: ClaimedJob) -> Outcome:
        """Run one attempt to its end. Raises CancelledError if, and only if, it is cancelled from outside."""
        task = self._tasks.get(job.task)
        if task is None:
            return self._unknown(job)
        began = time.monotonic()
        error: BaseException | None = None
        try:
            outcome = await self._attempt(task, job)
        except asyncio.CancelledError as cancelled:
            if _cancelled_from_outside():
                raise
            error, outcome = cancelled, self._failed(task, job, cancelled)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as raised:  # noqa: BLE001 - nobody else sees a job's error
            error, outcome = raised, self._outcome(task, job, raised)
        outcome = _with_time(outcome, (time.monotonic() - began) * 1000)
        if self._observe is not None:
            self._observe(job, outcome, error)
        return outcome

    async def _attempt(self, task: RegisteredTask[..., Any], job: ClaimedJob) -> Outcome:
        args, kwargs = task.signature.decode(job.payload)
        limit = task.timeout if job.options.timeout is None else job.options.timeout
        scope = asyncio.timeout(limit)
        try:
            async with scope:
                if task.is_async:
                    value = await task.function(*args, **kwargs)
                else:
                    value = await self._threads.run(task.function, *args, **kwargs)
        except TimeoutError as late:
            if not scope.expired():  # the handler's own
                raise
            # The cancellation beneath knows where the handler stood.
            raise TimeoutError(f"ran longer than its timeout of {limit:g} s") from late.__cause__
        try:
            result = None if value is None else encode(value)
        except EnqueueError as error:
            # It ran to its end: trying again would only repeat what it did.
            raise Dead(f"its return value cannot be kept: it {error}") from error
        return Outcome(job=job, kind=Kind.SUCCEEDED, result=result)

    def _outcome(self, task: RegisteredTask[..., Any], job: ClaimedJob, error: BaseException) -> Outcome:
        match error:
            case Snooze():
                return Outcome(job=job, kind=Kind.SNOOZE, delay=error.delay)
            case Throttled():
                delay = min(max(THROTTLE_DELAY, error.retry_after or 0.0), THROTTLE_CAP)
                return Outcome(job=job, kind=Kind.THROTTLED, delay=delay)
            case SourceGone():
                logger.info("%s ended well: %s", _name(job), error.reason)
                return Outcome(job=job, kind=Kind.SUCCEEDED)
            case Dead():
                logger.error("%s is dead: %s", _name(job), causes(error))
                return Outcome(job=job, kind=Kind.DEAD, error=describe(error, job.attempt))
            case _:
                return self._failed(task, job, error)

    def _failed(self, task: RegisteredTask[..., Any], job: ClaimedJob, error: BaseException) -> Outcome:
        delay = _retry_delay(task.retry.backoff, job, error)
        if isinstance(error, Retry) and error.__cause__ is not None:
            error = error.__cause__  # what went wrong, rather than the wish to try again
        if job.attempt >= job.options.max_attempts:
            logger.error("%s is dead, no attempt is left: %s", _name(job), causes(error))
        else:
            logger.warning("%s failed, next try in %.1f s: %s", _name(job), delay, causes(error))
        # The store makes the last attempt's retry a death: it alone knows that count for certain.
        return Outcome(job=job, kind=Kind.RETRY, delay=delay, error=describe(error, job.attempt))

    def _unknown(self, job: ClaimedJob) -> Outcome:
        """A task no code here knows may be known to the next deploy: wait for it uncharged, not for ever
        [O4]."""
        now = time.monotonic()
        while len(self._unknown_since) >= MAX_UNKNOWN:
            self._unknown_since.pop(next(iter(self._unknown_since)))
        for_how_long = now - self._unknown_since.setdefault(job.id, now)
        if for_how_long >= GIVE_UP_AFTER:
            logger.error("%s is dead: no worker knew this task for %.0f s", _name(job), for_how_long)
            failure = Failure("UnknownTask", "no worker knows this task", attempt=job.attempt)
            return Outcome(job=job, kind=Kind.DEAD, error=failure)
        if job.task not in self._unknown_told:
            self._unknown_told.add(job.task)
            logger.warning("%s waits: this worker does not know task %s", _name(job), job.task)
        return Outcome(job=job, kind=Kind.UNKNOWN, delay=unknown_delay(for_how_long))


def _retry_delay(backoff: Backoff, job: ClaimedJob, error: BaseException) -> float:
    if isinstance(error, Retry) and error.after is not None:
        return error.after
    return backoff.delay(job.attempt, random.random())


def _cancelled_from_outside() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _with_time(outcome: Outcome, run_ms: float) -> Outcome:
    return Outcome(
        job=outcome.job,
        kind=outcome.kind,
        delay=outcome.delay,
        error=outcome.error,
        result=outcome.result,
        run_ms=run_ms,
    )


def _name(job: ClaimedJob) -> str:
    return f"{job.task} on {job.queue}, job {job.id}, attempt {job.attempt} of {job.options.max_attempts}"
