"""Records as users see them: times are datetimes in UTC, what is kept as JSON is a value, and a worker has
its label.

The store's own records have seconds and JSON text, since that is what the engine compares and hands on. What
a codec has sealed is opened when it is read, not before: a job can be looked at without the key.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar

import msgspec

from windlass.codec import Codec, Purpose, unseal
from windlass.core.cron import Missed, Overlap
from windlass.core.states import Priority, State
from windlass.handles.progress import JobProgress, progress_of
from windlass.running.encoding import decode
from windlass.store.protocol import Store
from windlass.store.records import (
    SIGNAL,
    Failure,
    JobRecord,
    Options,
    ParentRecord,
    PartOf,
    PartRecord,
    ScheduleRecord,
    WorkerRecord,
)
from windlass.store.schedules import Origin, differences, origin

D = TypeVar("D", bound=msgspec.Struct)


class FailureDetails(msgspec.Struct, frozen=True, kw_only=True):
    """One failed attempt; a job keeps the last 32 of them."""

    type: str
    message: str
    traceback: str
    attempt: int
    at: datetime


class PartOfDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of which parent a job is [P4]."""

    parent: int
    index: int
    """From 0; -1 is the finalizer."""
    total: int
    span: Any
    """The span that it covers, as `Part.span` has it; sealed, where a codec sealed it."""
    size: int
    created_at: datetime
    """When the parent was split."""


class JobDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A job in any state, with everything the store knows about it; `job.record()` gives it."""

    id: int
    task: str
    queue: str
    priority: Priority
    state: State
    attempt: int
    deaths: int
    options: Options
    part: PartOfDetails | None
    enqueued_at: datetime
    run_at: datetime | None
    claimed_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    """The label of the worker that runs it or ran it last; its id, where the label is forgotten."""
    claim: int | None
    cancel_requested: bool
    reason: str | None
    errors: tuple[FailureDetails, ...]
    progress: JobProgress
    """How far its handler said it is [P6]; `job.progress()` also tells what the parts of a job have done."""
    _kept: tuple[str, str | None, str | None]
    _codec: Codec | None

    @property
    def payload(self) -> Any:
        """Its arguments as JSON has them: an object of named ones, a list, or an object whose key "*" has a
        list beside the named ones. Raises CodecError when the app's codec cannot read them."""
        return self._read("payload", self._kept[0])

    @property
    def result(self) -> Any:
        """The return value of its task, as JSON has it; None where it has not, or returned nothing. Raises
        CodecError. `job.result()` makes of it what the task's annotation says."""
        return self._read("result", self._kept[1])

    @property
    def checkpoint(self) -> Any:
        """The value that its handler saved last, for the next attempt; None once it has ended. Raises
        CodecError."""
        return self._read("checkpoint", self._kept[2])

    def _read(self, kind: Any, text: str | None) -> Any:
        return None if text is None else decode(unseal(self._codec, text, Purpose(kind, self.task)))

    def __repr__(self) -> str:
        return f"<JobDetails {self.id} of {self.task}: {self.state.value}>"


class StepDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a job that is done, or a sleep or wait of its handler [W1]; `job.steps()` gives it."""

    name: str
    code: str
    """The function that made the result; empty for a sleep, "signal" or "timeout" for a wait that is over."""
    attempt: int
    """The attempt that did it."""
    at: datetime | None
    """When it was kept."""
    wakes_at: datetime | None
    """When a sleep is over that is under way; else None."""
    _kept: tuple[str, str]
    _codec: Codec | None

    @property
    def result(self) -> Any:
        """The return value, as JSON has it; the value of a signal; None for a sleep. Raises CodecError when
        the app's codec cannot read it."""
        task, text = self._kept
        return decode(unseal(self._codec, text, Purpose("signal" if self.code == SIGNAL else "step", task)))


class ParentDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A parent and how far its parts are; `parent.record()` gives it."""

    id: int
    task: str
    queue: str
    state: State
    total: int
    succeeded: int
    dead: int
    cancelled: int
    out: int
    parallel: int | None
    tolerated: int
    size: int
    done: int
    records: int
    final: int | None
    cancel_requested: bool
    reason: str | None
    created_at: datetime
    finished_at: datetime | None


class PartDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a parent [P4]; `parent.parts()` gives it."""

    parent: int
    index: int
    total: int
    span: Any
    size: int
    state: State
    job: int | None
    attempt: int
    done: int
    records: int
    error: str | None
    created_at: datetime


class ScheduleDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it stands; `app.schedules.records()` gives it."""

    name: str
    cron: str
    task: str
    tz: str
    queue: str
    priority: Priority
    options: Options
    missed: Missed
    overlap: Overlap
    grace: float
    jitter: float
    paused: bool
    next_at: datetime | None
    last_at: datetime | None
    last_job: int | None
    skipped: int
    error: str | None
    origin: Origin
    """Where it comes from: `code`; `changed` at run time; `live`: made at run time; or `left`: no worker that
    runs declares it any more."""
    declared_at: datetime | None
    """When a worker whose code declares it has started last."""
    differences: dict[str, str]
    """Where it was changed at run time: what the code says, by field."""
    _kept: str
    _codec: Codec | None

    @property
    def payload(self) -> Any:
        """The arguments of its jobs as JSON has them. Raises CodecError when the app's codec cannot read
        them."""
        return decode(unseal(self._codec, self._kept, Purpose("payload", self.task)))


def moment(at: float) -> datetime:
    """A time of the store as users have it."""
    return datetime.fromtimestamp(at, UTC)


async def job_details(store: Store, job: JobRecord, codec: Codec | None) -> JobDetails:
    """A job as users see it. The store is asked for its worker's label, where it has one."""
    workers = await store.workers() if job.worker is not None else ()
    return details_of(job, codec, workers)


def details_of(job: JobRecord, codec: Codec | None, workers: Iterable[WorkerRecord] = ()) -> JobDetails:
    """A job as users see it."""
    saved = job.checkpoint
    return _made(
        JobDetails,
        job,
        priority=Priority(job.priority),
        options=msgspec.structs.replace(job.options, part=None),
        part=None if job.options.part is None else _part_of(job.options.part),
        worker=None if job.worker is None else worker_label(job.worker, workers),
        errors=tuple(map(_failure, job.errors)),
        progress=progress_of(job, None),
        _kept=(job.payload, job.result, None if saved is None else saved.data),
        _codec=codec,
    )


async def steps_of(store: Store, job: JobRecord, codec: Codec | None) -> list[StepDetails]:
    """The steps of a job as users see them, in the order in which they were kept."""
    steps = await store.steps(job.id)
    now = await store.now() if any(step.left for step in steps) else 0.0
    return [
        _made(
            StepDetails,
            step,
            wakes_at=None if step.left is None or step.left <= 0 else moment(now + step.left),
            _kept=(job.task, step.result),
            _codec=codec,
        )
        for step in steps
    ]


def worker_label(id: int, workers: Iterable[WorkerRecord]) -> str:
    """The label of a worker; its id, where it has none or the store has forgotten it."""
    return next((worker.label for worker in workers if worker.id == id), "") or str(id)


def parent_details(parent: ParentRecord) -> ParentDetails:
    """A parent as users see it."""
    return _made(ParentDetails, parent)


def part_details(part: PartRecord) -> PartDetails:
    """A part as users see it."""
    return _made(PartDetails, part)


def schedule_details(
    schedule: ScheduleRecord, codec: Codec | None, workers: Iterable[WorkerRecord]
) -> ScheduleDetails:
    """A schedule as users see it."""
    return _made(
        ScheduleDetails,
        schedule,
        priority=Priority(schedule.priority),
        origin=origin(schedule, workers),
        differences=differences(schedule),
        _kept=schedule.payload,
        _codec=codec,
    )


def _failure(failure: Failure) -> FailureDetails:
    return _made(FailureDetails, failure)


def _part_of(part: PartOf) -> PartOfDetails:
    return _made(PartOfDetails, part, span=decode(part.span))


def _made(details: type[D], record: msgspec.Struct, **given: Any) -> D:
    """Details of what a record has in common with them, and of what is given. Times are known by name."""
    for name, is_time in _fields(details):
        if name not in given:
            value = getattr(record, name)
            given[name] = moment(value) if is_time and value is not None else value
    return details(**given)


@cache
def _fields(details: type[msgspec.Struct]) -> tuple[tuple[str, bool], ...]:
    return tuple((name, name == "at" or name.endswith("_at")) for name in details.__struct_fields__)
