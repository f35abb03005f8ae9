"""The outcome of an attempt that did not succeed: an ending says it, any other exception is a failure,
and a task that no code here knows waits for a deploy [O1] [O4]. Decides and logs; the runner calls the hooks.
"""

from __future__ import annotations

import logging
import random
import time
from typing import Any, Final, Protocol

from windlass.core.retry import GIVE_UP_AFTER, Backoff, unknown_delay
from windlass.core.states import Kind
from windlass.endings import Cancelled, Dead, Retry, Snooze, SourceGone, Throttled
from windlass.errors import CodecError, RemoteError, StoreError, WaitTimedOut
from windlass.running.failures import causes, describe
from windlass.running.steps import Suspended, ungrouped
from windlass.store.records import ClaimedJob, Failure, Outcome
from windlass.tasks.task import RegisteredTask

logger: Final = logging.getLogger("windlass.worker")
THROTTLE_DELAY: Final = 60.0
SEALED_DELAY: Final = 60.0
"""Seconds, at least, until a job is tried again that cannot be opened here: a deploy may bring its key or its
codec, and until then its attempts should last."""
MAX_LOGGED: Final = 1000


class Policies(Protocol):
    """The policies of queues, and of a worker session about deaths and leases."""

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


class ErrorOutcomes:
    """Turns what handlers raise into outcomes, for one worker."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._unknown_logged: set[str] = set()

    async def outcome(self, task: RegisteredTask[..., Any], job: ClaimedJob, error: BaseException) -> Outcome:
        """The outcome of an attempt that raised this."""
        error = ungrouped(error)
        match error:
            case Snooze() | Suspended():
                waits_for = error.signals if isinstance(error, Suspended) else None
                return Outcome(job=job, kind=Kind.SNOOZE, delay=error.delay, signals=waits_for)
            case Throttled():
                return Outcome(job=job, kind=Kind.THROTTLED, delay=await self._cool(job, error))
            case Cancelled():
                return Outcome(job=job, kind=Kind.CANCELLED)
            case SourceGone():
                logger.info("%s ended early as succeeded: %s", name(job), error.reason)
                return Outcome(job=job, kind=Kind.SUCCEEDED, forget=True)
            case Dead():
                logger.error("%s is dead: %s", name(job), causes(error), extra=about(job))
                return Outcome(job=job, kind=Kind.DEAD, error=describe(error, job.attempt))
            case _:
                return self._failed(task, job, error)

    def unknown_task(self, job: ClaimedJob) -> Outcome:
        """A task no code here knows may be known to the next deploy: wait for it uncharged, not for ever
        [O4]."""
        since = job.options.unknown_since
        for_how_long = 0.0 if since is None else max(0.0, time.time() - since)
        if for_how_long >= GIVE_UP_AFTER:
            logger.error("%s is dead: no worker knew this task for %.0f s", name(job), for_how_long)
            failure = Failure("UnknownTask", "no worker knows this task", attempt=job.attempt)
            return Outcome(job=job, kind=Kind.DEAD, error=failure)
        if job.task not in self._unknown_logged:
            if len(self._unknown_logged) >= MAX_LOGGED:  # names come from producers: there may be any number
                self._unknown_logged.clear()
            self._unknown_logged.add(job.task)
            logger.warning("%s waits: this worker has no task %s", name(job), job.task)
        return Outcome(job=job, kind=Kind.UNKNOWN, delay=unknown_delay(for_how_long))

    async def _cool(self, job: ClaimedJob, error: Throttled) -> float:
        """Cool the whole queue; where that cannot be said to the store, this job waits the flat time [O3]."""
        try:
            delay = await self._policies.throttle(job.queue, error.retry_after)
        except StoreError as away:
            delay = max(THROTTLE_DELAY, error.retry_after or 0.0)
            logger.warning(
                "queue %s was throttled, but its settings cannot be read (%s); %s waits %.0f s",
                job.queue,
                away,
                name(job),
                delay,
            )
            return delay
        logger.info("%s was throttled; queue %s resumes in %.0f s", name(job), job.queue, delay)
        return delay

    def _failed(self, task: RegisteredTask[..., Any], job: ClaimedJob, error: BaseException) -> Outcome:
        reason = _refusal(task, error)
        if reason is not None:
            logger.error("%s is dead, %s: %s", name(job), reason, causes(error), extra=about(job))
            return Outcome(job=job, kind=Kind.DEAD, error=describe(error, job.attempt), reason=reason)
        policy = task.retry.backoff if task.has_policy else self._policies.backoff(job.queue)
        delay = _retry_delay(policy, job, error)
        if isinstance(error, Retry) and error.__cause__ is not None:
            error = error.__cause__  # what went wrong, rather than the wish to try again
        if job.attempt >= job.options.max_attempts:
            message = "%s is dead, no attempt is left: %s"
            logger.error(message, name(job), causes(error), extra=about(job))
        else:
            message = "%s failed, next try in %.1f s: %s"
            logger.warning(message, name(job), delay, causes(error), extra=about(job))
        # The store makes the last attempt's retry a death: it alone knows that count for certain.
        return Outcome(job=job, kind=Kind.RETRY, delay=delay, error=describe(error, job.attempt))


def name(job: ClaimedJob) -> str:
    """A job as the log names it [O4]."""
    return f"{job.task} on {job.queue}, job {job.id}, attempt {job.attempt} of {job.options.max_attempts}"


def about(job: ClaimedJob) -> dict[str, object]:
    """Return the fields that name a job in logs that machines read [M6]."""
    return {"job": str(job.id), "task": job.task, "queue": job.queue, "attempt": job.attempt}


def _refusal(task: RegisteredTask[..., Any], error: BaseException) -> str | None:
    """Why this error is not retried, mostly by the task's policy; None: it is [O9]. A handler that asks for
    another attempt gets it, and a payload that cannot be opened here is no error of the handler's."""
    if isinstance(error, WaitTimedOut):
        return f"signal {error.signal} did not come in time"  # nor will it on another attempt [W2]
    if isinstance(error, Retry | CodecError):
        return None
    if isinstance(error, RemoteError):
        return error.not_retried  # its class was known over there
    return task.retry.rules.refusal(error)


def _retry_delay(backoff: Backoff, job: ClaimedJob, error: BaseException) -> float:
    if isinstance(error, Retry) and error.after is not None:
        return error.after
    delay = backoff.delay(job.attempt, random.random())
    return max(delay, SEALED_DELAY) if isinstance(error, CodecError) else delay
