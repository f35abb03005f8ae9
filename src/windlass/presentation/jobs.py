"""Jobs as JSON, and what jobs died of: the keys that scripts, the API and the pages rely on. Ids are strings,
times ISO 8601.

The schemas of the OpenAPI document are made from these shapes. `…_as_json` is what commands print.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from windlass.core.states import Priority
from windlass.presentation.text import Shape, iso, parsed, plain, shaped
from windlass.presentation.waiting import worker_name
from windlass.store.fields import Field, Unit
from windlass.store.records import CARRIED, Causes, Failure, JobRecord, Options, PartOf, WorkerRecord

Labels: TypeAlias = Mapping[int, str]
"""What people call workers, by their ids."""


class FailureShape(msgspec.Struct, frozen=True):
    """One failed attempt."""

    type: str
    message: str
    traceback: str
    attempt: int
    at: str | None

    @classmethod
    def of(cls, error: Failure) -> FailureShape:
        """The failure as JSON has it."""
        return cls(error.type, error.message, error.traceback, error.attempt, iso(error.at))


class CheckpointShape(msgspec.Struct, frozen=True):
    """What the handler of a job has saved for its next attempt."""

    data: Any
    at: str | None


class JobProgressShape(msgspec.Struct, frozen=True):
    """How far a job is, or was when it ended, in units of its handler [P6]."""

    done: int | None
    total: int | None
    at: str | None


class PartOfShape(msgspec.Struct, frozen=True):
    """Which part of which parent a job is [P4]."""

    parent: str
    index: int
    total: int
    span: Any
    size: int
    created_at: str | None

    @classmethod
    def of(cls, part: PartOf) -> PartOfShape:
        """The part as JSON has it."""
        return cls(
            str(part.parent), part.index, part.total, parsed(part.span), part.size, iso(part.created_at)
        )


class _JobShape(msgspec.Struct, frozen=True, kw_only=True):
    """A job with everything the store knows about it."""

    id: str
    task: str
    queue: str
    priority: str
    state: str
    reason: str | None
    attempt: int
    max_attempts: int
    deaths: int
    payload: Any
    result: Any
    errors: list[FailureShape]
    checkpoint: CheckpointShape | None
    progress: JobProgressShape | None
    enqueued_at: str | None
    run_at: str | None
    claimed_at: str | None
    finished_at: str | None
    worker: str | None
    worker_label: str | None
    claim: str | None
    cancel_requested: bool
    replay_of: str | None
    chunked: bool
    part: PartOfShape | None


_LISTS: Final[Mapping[Unit, Any]] = {"ids": list[str], "tags": list[str], "headers": dict[str, str]}


def _type(field: Field) -> Any:
    if field.unit in _LISTS:
        return _LISTS[field.unit]
    return field.kind if field.default is not None and not field.beside else field.kind | None


if TYPE_CHECKING:
    JobShape: TypeAlias = _JobShape
else:
    JobShape = msgspec.defstruct(
        "JobShape",
        [(field.kept, _type(field)) for field in CARRIED],
        bases=(_JobShape,),
        module=__name__,
        namespace={"__doc__": _JobShape.__doc__},
        frozen=True,
        kw_only=True,
    )


class JobsShape(msgspec.Struct, frozen=True):
    """A page of jobs; `cursor` is what the next one is asked for with, null where there is none."""

    jobs: list[JobShape]
    cursor: str | None


def labels_of(workers: Iterable[WorkerRecord]) -> Labels:
    """What people call these workers: their labels, else where they run."""
    return {worker.id: worker_name(worker) for worker in workers}


def job_shape(job: JobRecord, labels: Labels) -> JobShape:
    """The job as JSON has it."""
    return JobShape(**job_fields(job, labels))


def job_fields(job: JobRecord, labels: Labels) -> dict[str, Any]:
    """What a JobShape, or one that says more, is made of."""
    options = job.options
    return {
        "id": str(job.id),
        "task": job.task,
        "queue": job.queue,
        "priority": priority_name(job.priority),
        "state": str(job.state),
        "reason": job.reason,
        "attempt": job.attempt,
        "deaths": job.deaths,
        "payload": parsed(job.payload),
        "result": parsed(job.result),
        "errors": [FailureShape.of(error) for error in job.errors],
        "checkpoint": _checkpoint(job),
        "progress": None if job.progress is None else shaped(JobProgressShape, job.progress),
        "enqueued_at": iso(job.enqueued_at),
        "run_at": iso(job.run_at),
        "claimed_at": iso(job.claimed_at),
        "finished_at": iso(job.finished_at),
        "worker": id_text(job.worker),
        "worker_label": None if job.worker is None else labels.get(job.worker),
        "claim": id_text(job.claim),
        "cancel_requested": job.cancel_requested,
        "replay_of": id_text(options.replay_of),
        "chunked": options.chunked,
        "part": None if options.part is None else PartOfShape.of(options.part),
    } | {field.kept: _value(field, options) for field in CARRIED}


def _value(field: Field, options: Options) -> Any:
    value = getattr(options, field.kept)
    if field.beside and not getattr(options, field.beside):
        return None
    return [str(each) for each in value] if isinstance(value, tuple) else value


def options_shown(job: Options | JobShape) -> Iterator[tuple[Field, str, Any]]:
    """The options that a page about a job has lines for, with a title: those that are not as by default, and
    those beside them. Its attempts are shown with the one that it is at."""
    for field in CARRIED:
        value = getattr(job, field.kept)
        said = getattr(job, field.beside) if field.beside else value not in (None, field.default)
        if said and value and field.unit != "attempts":
            yield field, field.kept.replace("_", " "), value


def priority_name(priority: int) -> str:
    """urgent, high, normal or low."""
    return Priority(priority).name.lower()


def id_text(number: int | None) -> str | None:
    """An id as JSON has it."""
    return None if number is None else str(number)


def _checkpoint(job: JobRecord) -> CheckpointShape | None:
    kept = job.checkpoint
    return None if kept is None else CheckpointShape(parsed(kept.data), iso(kept.at))


def job_as_json(job: JobRecord, labels: Labels) -> Shape:
    """A job with everything the store knows about it."""
    return plain(job_shape(job, labels))


def failure_as_json(error: Failure) -> Shape:
    """One failed attempt."""
    return plain(FailureShape.of(error))


def listing_as_json(jobs: Sequence[JobRecord], cursor: str | None, labels: Labels) -> Shape:
    """A page of jobs; `cursor` is what --cursor takes for the next one."""
    shapes = [job_shape(job, labels) for job in jobs]
    return plain(JobsShape(shapes, None if cursor is None else wrap(cursor)))


class CauseShape(msgspec.Struct, frozen=True, kw_only=True):
    """Dead jobs of one task whose last failure was of one type; "" where none is kept: poison, parents."""

    task: str
    error: str
    jobs: int
    last_at: str
    message: str
    """Of the one that died last: what its last failure said, or the reason it died of."""


class CausesShape(msgspec.Struct, frozen=True, kw_only=True):
    """What jobs died of, the largest group first."""

    groups: list[CauseShape]
    looked: int
    """How many dead jobs were looked at: the newest."""
    more: bool
    """There are older ones, which were not."""


def causes_shape(causes: Causes) -> CausesShape:
    """What jobs died of, as JSON has it."""
    groups = [
        CauseShape(
            task=group.task,
            error=group.error,
            jobs=group.jobs,
            last_at=iso(group.last_at) or "",
            message=group.message,
        )
        for group in causes.groups
    ]
    return CausesShape(groups=groups, looked=causes.looked, more=causes.more)


def causes_as_json(causes: Causes) -> Shape:
    """What jobs died of, as commands print it."""
    return plain(causes_shape(causes))


def wrap(cursor: str) -> str:
    """A store's cursor as one word that no shell takes apart."""
    return base64.urlsafe_b64encode(cursor.encode()).decode().rstrip("=")


def unwrap(word: str) -> str:
    """The store's cursor again. Raises ValueError for a word that no listing gave."""
    return base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_", validate=True).decode()
