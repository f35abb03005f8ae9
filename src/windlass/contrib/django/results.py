"""A job as Django's TaskResult: before it is enqueued, while it runs, and whenever somebody asks.

READY is a job that waits, also for its next attempt; RUNNING one that a worker has; FAILED one that is dead
or cancelled. Windlass does not keep who ran earlier attempts, so these stand as "unknown" in worker_ids,
whose length is how Django counts attempts.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, Final

from django.conf import settings
from django.utils import timezone

from windlass.codec import Codec, Purpose, unseal
from windlass.contrib.django.api import TaskError, TaskResult, TaskResultStatus
from windlass.core.states import State
from windlass.running.context import Context
from windlass.running.encoding import decode
from windlass.store.records import Failure, JobRecord
from windlass.tasks.payload import POSITIONALS

UNKNOWN: Final = "unknown"
ENQUEUED: Final = "django.enqueued_at"
"""The header that says when a job was enqueued, as its result has it: one that is looked up later must equal
what `enqueue` returned."""
_STATUS: Final[Mapping[State, Any]] = {
    State.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
    State.DEAD: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
    State.RUNNING: TaskResultStatus.RUNNING,
    State.SPLITTING: TaskResultStatus.RUNNING,
    State.WAITING: TaskResultStatus.RUNNING,
}


def new_result(task: Any, alias: str, args: Sequence[Any], kwargs: Mapping[str, Any], **known: Any) -> Any:
    """The result of a job, with what is known of it; of one that is about to be enqueued that is nothing.
    Raises TypeError for arguments that are not JSON."""
    times = dict.fromkeys(("enqueued_at", "started_at", "finished_at", "last_attempted_at"))
    unknown = {"id": "", "status": TaskResultStatus.READY, "errors": [], "worker_ids": [], **times}
    return TaskResult(task=task, args=list(args), kwargs=dict(kwargs), backend=alias, **unknown | known)


def enqueued(result: Any, job: int, at: datetime) -> None:
    """Its job is in the store, or in the caller's transaction."""
    object.__setattr__(result, "id", str(job))
    object.__setattr__(result, "enqueued_at", at)


def enqueued_at(headers: Mapping[str, str], at: float) -> datetime | None:
    """When a job was enqueued, as its result said then; `at` is when its store says."""
    said = headers.get(ENQUEUED)
    return moment(at) if said is None else datetime.fromisoformat(said)


def running_result(
    task: Any, alias: str, context: Context, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """The result of a job as its own run sees it."""
    now = timezone.now()
    return new_result(
        task,
        alias,
        args,
        kwargs,
        id=str(context.id),
        status=TaskResultStatus.RUNNING,
        enqueued_at=enqueued_at(context.headers, context.enqueued_at.timestamp()),
        started_at=now,
        last_attempted_at=now,
        worker_ids=workers(context.worker, context.attempt),
    )


def kept_result(task: Any, alias: str, job: JobRecord, codec: Codec | None) -> Any:
    """The result of a job as the store knows it. Raises CodecError where it is sealed with another codec."""
    args, kwargs = call_of(unseal(codec, job.payload, Purpose("payload", job.task)))
    begun = [error.at for error in job.errors if error.at]
    if job.claimed_at is not None:
        begun.append(job.claimed_at)
    tried = job.attempt if job.claimed_at is not None else job.attempt - 1
    result = new_result(
        task,
        alias,
        args,
        kwargs,
        id=str(job.id),
        status=_STATUS.get(job.state, TaskResultStatus.READY),
        enqueued_at=enqueued_at(job.options.headers, job.enqueued_at),
        started_at=moment(min(begun, default=None)),
        last_attempted_at=moment(max(begun, default=None)),
        finished_at=moment(job.finished_at),
        errors=[kept_error(error) for error in job.errors],
        worker_ids=workers(job.worker, tried),
    )
    value = job.result and decode(unseal(codec, job.result, Purpose("result", job.task)))
    object.__setattr__(result, "_return_value", value)
    return result


def call_of(payload: str) -> tuple[list[Any], dict[str, Any]]:
    """The positional and the named arguments of a payload; see `windlass.store.records`."""
    found = decode(payload)
    if isinstance(found, list):
        return found, {}
    return found.pop(POSITIONALS, []), found


def workers(worker: int | None, attempts: int) -> list[str]:
    """Who ran the attempts, as far as that is known."""
    if attempts < 1:
        return []
    return [UNKNOWN] * (attempts - 1) + [UNKNOWN if worker is None else str(worker)]


def task_error(error: BaseException) -> Any:
    """An exception as Django keeps it."""
    kind = type(error)
    return TaskError(
        exception_class_path=f"{kind.__module__}.{kind.__qualname__}",
        traceback="".join(traceback.format_exception(error)),
    )


def kept_error(error: Failure) -> Any:
    """A failure as Django keeps it. Windlass names built-in exceptions without their module."""
    path = error.type if "." in error.type else f"builtins.{error.type}"
    return TaskError(exception_class_path=path, traceback=error.traceback or error.message)


def moment(at: float | None) -> datetime | None:
    """A time as Django has it: aware where USE_TZ is on, else the local one without a zone."""
    if at is None:
        return None
    zone: tzinfo = UTC if settings.USE_TZ else timezone.get_default_timezone()
    found = datetime.fromtimestamp(at, zone)
    return found if settings.USE_TZ else found.replace(tzinfo=None)
