"""A job: as it is enqueued, as it is kept, and how it is looked for.

A payload is JSON text: an object of named arguments, an array of positional ones, or an object whose key
`"*"` holds the positional ones beside the named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from windlass.core.states import Priority, State
from windlass.store.fields import Field, JobOptions, OnConflict, Otherwise, entry
from windlass.store.records.parent import PartOf

EnqueueStatus = Literal[
    "enqueued", "scheduled", "held", "skipped", "replaced", "rerun", "repeated", "parked", "on_commit"
]
CancelAnswer = Literal["cancelled", "requested", "finished", "not_found"]
DeleteAnswer = Literal["deleted", "requested", "not_found"]
RetryAnswer = Literal["retried", "unchanged", "not_found"]
ChangeAnswer = Literal["changed", "running", "ended", "part", "not_found"]


class GroupResults(msgspec.Struct, frozen=True):
    """Stands for the results of all jobs of a group [W4]."""

    group: int


class Options(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """The options of a job; stored as JSON, and not at all where all is default. What is an
    option of a job is explained in `JobOptions`."""

    max_attempts: int = 5
    timeout: float | None = None
    unique_key: str | None = None
    fair_key: str | None = None
    ordering_key: str | None = None
    concurrency_key: str | None = None
    key_limit: int = 1
    task_limit: int | None = None
    """How many jobs of its task run at a time, as the code says; its task's setting overrides it [F3]."""
    costs: dict[str, int] = {}
    """Tokens that each run takes of budgets, where its task computes them [F1]."""
    tags: tuple[str, ...] = ()
    headers: dict[str, str] = {}
    trace: str | None = None
    replay_of: int | None = None
    """The job that this one repeats [O6]."""
    unknown_since: float | None = None
    """Written by the store: when a worker first said that it does not know this task [O4]."""
    expires: float | None = None
    expires_at: float | None = None
    """Written by the store: when it expires, until somebody has begun it [E8]."""
    chunked: bool = False
    """A parent to be: while its first run lasts, its state is `splitting`."""
    part: PartOf | None = None
    """Written by the store: set in the jobs of parts and finalizers [P4]."""
    after: tuple[int, ...] = ()
    otherwise: Otherwise = "dead"
    needs: str | None = None
    """The abilities that a worker must have to run it, sorted and with commas between them, "" for none: they
    are part of what its lane is [K14]. None: nobody has said, and whoever knows its task decides."""
    group_end: bool = False
    """It ends a group: it comes after all jobs that are added to it, and waits while it is open [W4]."""
    results: dict[str, int | tuple[int, ...] | GroupResults] = {}
    """Arguments that are results of other jobs: by name, or by place from 0, the ids of those jobs, or their
    group [W4]."""

    def of_replay(self, job: int) -> Options:
        """The options of a job that repeats this one, whose id is given [O6]."""
        return msgspec.structs.replace(
            self, unique_key=None, unknown_since=None, expires_at=None, replay_of=job, after=()
        )

    def of_part(self, part: PartOf) -> Options:
        """The options of a job of this parent: its own, but for what is the parent's alone [P4]."""
        return msgspec.structs.replace(
            self,
            unique_key=None,
            ordering_key=None,  # the parent keeps the place in the order until all of them have ended [F6]
            after=(),
            chunked=False,
            group_end=False,
            replay_of=None,
            unknown_since=None,
            expires=None,
            expires_at=None,
            part=part,
        )


DEFAULT_OPTIONS = Options()


class NewJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job to enqueue. The caller has validated it (see `core.names` and `tasks.payload`)."""

    task: str
    payload: str
    queue: str = "default"
    priority: int = Priority.NORMAL
    delay: float | None = None
    run_at: float | None = None
    options: Options = DEFAULT_OPTIONS
    on_conflict: OnConflict = "skip"
    idempotency_key: str | None = None
    automatic: bool = False
    """Enqueued by a schedule or a reconciler: such a job may be parked [O7]."""


class JobChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a waiting job [E8]; what is None stays. The caller has validated it."""

    queue: str | None = None
    priority: int | None = None
    delay: float | None = None
    run_at: float | None = None
    payload: str | None = None
    options: Mapping[str, Any] = {}
    """New values of some of `Options`, by name; None takes one away."""


_PLAIN: Final = NewJob(task="", payload="")
JOB_OPTIONS: Final[Mapping[str, Field]] = {
    name: entry(name, annotation, getattr(DEFAULT_OPTIONS, name, getattr(_PLAIN, name, None)) or None)
    for name, annotation in JobOptions.__annotations__.items()
}
"""The entries of `JobOptions`, with the defaults that jobs have."""
CARRIED: Final = tuple(each for each in JOB_OPTIONS.values() if each.kept in Options.__struct_fields__)
"""Options that a job carries to its end; the others are columns, or say only how it is enqueued."""


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """The receipt of one enqueued job: its id, or the id of the twin that stands for it; 0 where it was
    parked, or where it is enqueued when the transaction of another database has committed."""

    id: int
    status: EnqueueStatus = "enqueued"
    pressure: float | None = None
    """A hint: how full its queue is, from 0.7 on, where it has a max_depth; slow down [F4]."""


class Failure(msgspec.Struct, frozen=True):
    """One failed attempt, as kept with the job (the last 32 of them)."""

    type: str
    message: str
    traceback: str = ""
    attempt: int = 0
    at: float = 0.0


class Checkpoint(msgspec.Struct, frozen=True):
    """The durable progress of a job: JSON text of the handler's own, and n of m where it said so."""

    data: str
    done: int | None = None
    total: int | None = None
    at: float = 0.0


class Progress(msgspec.Struct, frozen=True):
    """How far a job has said it is, in units of its own, and when that was."""

    done: int | None = None
    total: int | None = None
    at: float = 0.0

    @classmethod
    def of(cls, checkpoint: Checkpoint | None) -> Progress | None:
        """The progress that a checkpoint tells of, if it does."""
        if checkpoint is None or (checkpoint.done is None and checkpoint.total is None):
            return None
        return cls(checkpoint.done, checkpoint.total, checkpoint.at)


class KeptResult(msgspec.Struct, frozen=True):
    """The result that a job has left for those that come after it [W4]."""

    task: str
    state: State
    result: str | None = None
    """JSON text, as `JobRecord.result`."""


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job in any state, with everything the store knows about it."""

    id: int
    task: str
    queue: str
    priority: int
    state: State
    payload: str
    attempt: int
    deaths: int
    options: Options = DEFAULT_OPTIONS
    enqueued_at: float
    run_at: float | None = None
    """When a scheduled or retrying job may run; of one that comes after others its own, if any."""
    claimed_at: float | None = None
    finished_at: float | None = None
    worker: int | None = None
    claim: int | None = None
    cancel_requested: bool = False
    reason: str | None = None
    errors: tuple[Failure, ...] = ()
    result: str | None = None
    checkpoint: Checkpoint | None = None
    """The start of its next attempt; None once it has ended."""
    progress: Progress | None = None
    """How far it is; once it has ended, how far it was [P6]."""


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs to list; what is None does not filter."""

    queue: str | None = None
    task: str | None = None
    state: State | None = None
    tag: str | None = None
    text: str | None = None
    """Text that its payload, as JSON, contains, or, of a dead or retrying job, the last failure kept with it,
    as `TYPE: MESSAGE`. Blanks beside the marks of JSON, as in `": "`, do not count."""
    error: str | None = None
    """The type of the last failure kept with it, "" for none: finds dead and retrying jobs only."""


class Matches(msgspec.Struct, frozen=True):
    """The ids of the jobs that a filter found at one moment, newest first. Where it has a cursor there were
    more, or too little time for all of them."""

    ids: list[int]
    cursor: str | None = None


class Page(msgspec.Struct, frozen=True):
    """One page of a listing, newest first. Pass `cursor` on for the next; None says there is none."""

    jobs: list[JobRecord]
    cursor: str | None = None
    looked: int = 0
    """How many jobs were looked at for it."""
    back_to: float | None = None
    """When the oldest of these was enqueued: how far back the search has come [M3]."""
