"""A job as it is shown: one view for its page, its command, the API and Django's admin, and a shorter one for
listings. Ids are strings, times ISO 8601."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from windlass.core.flow.gates import budget_of
from windlass.core.states import FINISHED, State
from windlass.operations.events import EventView, timeline
from windlass.operations.groups import GroupShape, group_of
from windlass.operations.operation import Ops
from windlass.operations.parents import ParentShape
from windlass.presentation.cluster_state import ClusterState
from windlass.presentation.jobs import priority_name
from windlass.presentation.retries import retrying_of
from windlass.presentation.steps import StepShape, step_shapes
from windlass.presentation.text import iso, one_line, parsed, shaped, shared
from windlass.presentation.waiting import state_in_words, why_it_waits, worker_name
from windlass.store.fields import Field, Unit
from windlass.store.records import (
    CARRIED,
    BudgetRecord,
    Failure,
    JobRecord,
    Options,
    PartOf,
    QueueRecord,
    WorkerRecord,
)

Labels: TypeAlias = Mapping[int, str]
"""Labels of workers, by their ids."""
MAX_EVENTS: Final = 200
LISTED: Final = 4_000
"""Characters of a payload, a result or a checkpoint that are worth showing in a listing."""


class FailureShape(msgspec.Struct, frozen=True):
    """One failed attempt."""

    type: str
    message: str
    traceback: str
    attempt: int
    at: str | None

    @classmethod
    def of(cls, error: Failure) -> FailureShape:
        """Return the view of a failure."""
        return shaped(cls, error)


class CheckpointShape(msgspec.Struct, frozen=True):
    """A checkpoint, which a job's handler has saved for its next attempt."""

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
        """Return the view of a part."""
        return shaped(cls, part, span=parsed(part.span))


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
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
    _Carried: TypeAlias = _Stored
else:
    _Carried = msgspec.defstruct(
        "_Carried",
        [(field.kept, _type(field)) for field in CARRIED],
        bases=(_Stored,),
        module=__name__,
        frozen=True,
        kw_only=True,
    )


class _Shown(_Carried, frozen=True, kw_only=True):
    state_text: str
    """The state; `retrying (2 tries)` where it is retried [M4]."""
    why: str | None
    """Why it does not run, null where it runs or has ended [M4]."""


class ListedJob(_Shown, frozen=True, kw_only=True):
    """A job in a listing: of its errors only the last, without traceback."""

    cut: bool = False
    """True if payload, result or checkpoint was too long for a listing and left out; get the job instead."""

    @classmethod
    def of(cls, job: JobRecord, state: ClusterState, labels: Labels, now: float) -> ListedJob:
        """Return the view of a record, never a large one."""
        kept = {name: _short(getattr(job, name)) for name in ("payload", "result")}
        checkpoint = job.checkpoint
        if checkpoint is not None and len(checkpoint.data) > LISTED:
            checkpoint = msgspec.structs.replace(checkpoint, data="null")
        cut = any(kept[name] != getattr(job, name) for name in kept) or checkpoint is not job.checkpoint
        errors = tuple(
            msgspec.structs.replace(error, traceback="", message=error.message[:LISTED])
            for error in job.errors[-1:]
        )
        short = msgspec.structs.replace(job, errors=errors, checkpoint=checkpoint, **kept)
        return cls(**_fields(short, state, labels, now), cut=cut)

    def about(self) -> str:
        """Return what a line about it says: why it waits, or what went wrong."""
        last = self.errors[-1] if self.errors else None
        message = one_line(f"{last.type}: {last.message}", 60) if last else ""
        if self.state in FINISHED:
            return message or self.reason or ""
        if self.state == State.RETRYING:  # what went wrong says more than that it waits for its time
            return self.reason or message
        return self.why or self.reason or message


class JobView(_Shown, frozen=True, kw_only=True):
    """A job, why it waits, and its timeline."""

    running_since: str | None
    """When its current run started; null where it does not run."""
    deadline: str | None
    """The deadline of that run: from the timeout of the job or its task, or the queue's limit."""
    timeline: list[EventView]
    """Its events, the earliest first."""
    parent: ParentShape | None
    """The job as a parent, where it was split. If it is a part, see `part`."""
    group: GroupShape | None
    """The group that it ends."""
    steps: list[StepShape]
    """Its newest steps and sleeps, oldest first [W1]."""

    @classmethod
    async def of(cls, ops: Ops, job: JobRecord) -> JobView:
        """Return everything about a job: its state, why it waits, what has happened to it."""
        store, state, now = ops.store, await ops.state(), await ops.now()
        budgets = await store.budgets() if budget_of(job.reason) is not None else None
        # Any job may be a parent: one enqueued by name does not know that its task is chunked.
        parent = None if job.options.part is not None else await store.parent(job.id)
        retrying = {} if parent is None else await retrying_of(store, [parent])
        task = ops.app.tasks.get(job.task)
        began = running_since(job, state.workers)
        limit = time_limit(job, state.queue(job.queue), None if task is None else task.timeout)
        fields = _fields(job, state, labels_of(state.workers), now, budgets)
        events = await store.events(job=job.id, limit=MAX_EVENTS)
        return cls(
            **fields,
            running_since=iso(began),
            deadline=None if began is None else iso(began + limit),
            timeline=timeline(job, events, fields["worker_label"]),
            parent=None
            if parent is None
            else ParentShape.of(parent, (now, parent), retrying=retrying.get(job.id)),
            group=await group_of(store, job),
            steps=step_shapes(await store.steps(job.id), now),
        )


def labels_of(workers: Iterable[WorkerRecord]) -> Labels:
    """Return what people call these workers: their labels, else where they run."""
    return {worker.id: worker_name(worker) for worker in workers}


def running_since(job: JobRecord, workers: Iterable[WorkerRecord]) -> float | None:
    """Return when the present run of a job began: as its worker says, else when it was claimed."""
    if job.state not in (State.RUNNING, State.SPLITTING):
        return None
    busy = (each for worker in workers if worker.vitals is not None for each in worker.vitals.jobs)
    return next((each.since for each in busy if each.job == job.id), job.claimed_at)


def time_limit(job: JobRecord, queue: QueueRecord, timeout: float | None) -> float:
    """Return the seconds a run of a job may take; `timeout` is its task's, where its code is known [C6]."""
    return queue.time_limit(job.options.timeout if job.options.timeout is not None else timeout)


def options_shown(job: _Stored) -> Iterator[tuple[Field, str, Any]]:
    """Return the options that a page about a job has lines for, with a title: those that are not as by
    default, and those beside them. Its attempts are shown with the one that it is at."""
    for field in CARRIED:
        value = getattr(job, field.kept)
        said = getattr(job, field.beside) if field.beside else value not in (None, field.default)
        if said and value and field.unit != "attempts":
            yield field, field.kept.replace("_", " "), value


def _fields(
    job: JobRecord,
    state: ClusterState,
    labels: Labels,
    now: float,
    budgets: Iterable[BudgetRecord] | None = None,
) -> dict[str, Any]:
    """Return what both views are made of."""
    options, checkpoint = job.options, job.checkpoint
    queue, serving = state.view.queues.get(job.queue), state.view.serving.get(job.queue, 0)
    return shared(
        _Shown,
        job,
        options,
        priority=priority_name(job.priority),
        payload=parsed(job.payload),
        result=parsed(job.result),
        errors=[FailureShape.of(error) for error in job.errors],
        checkpoint=checkpoint and shaped(CheckpointShape, checkpoint, data=parsed(checkpoint.data)),
        progress=job.progress and shaped(JobProgressShape, job.progress),
        worker_label=None if job.worker is None else labels.get(job.worker),
        part=options.part and PartOfShape.of(options.part),
        state_text=state_in_words(job),
        why=why_it_waits(job, queue, serving, now, state.workers, budgets),
        **{field.kept: _value(field, options) for field in CARRIED},
    )


def _value(field: Field, options: Options) -> Any:
    value = getattr(options, field.kept)
    if field.beside and not getattr(options, field.beside):
        return None
    return [str(each) for each in value] if isinstance(value, tuple) else value


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= LISTED else "null"
