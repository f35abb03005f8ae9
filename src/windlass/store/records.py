"""The values that go into and come out of a store. Times are seconds since the epoch, UTC.

A payload is JSON text: an object of named arguments, an array of positional ones, or an object whose key
`"*"` holds the positional ones beside the named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from windlass.core.admission import Pressure
from windlass.core.states import Kind, Priority, State
from windlass.store.measures import Vitals

OnConflict = Literal["skip", "replace", "reject"]
EnqueueStatus = Literal["enqueued", "scheduled", "held", "skipped", "replaced", "rerun", "repeated", "parked"]
Otherwise = Literal["dead", "cancel", "run"]
CancelAnswer = Literal["cancelled", "requested", "finished", "not_found"]
DeleteAnswer = Literal["deleted", "requested", "not_found"]
RetryAnswer = Literal["retried", "unchanged", "not_found"]


class PartOf(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Which part of which parent a job is [P4]."""

    parent: int
    index: int
    """From 0; -1 is the finalizer."""
    total: int
    """How many parts the parent has."""
    span: str = "null"
    """What the part covers, as JSON; its meaning is the splitter's."""
    size: int = 0
    """How much that is, in the splitter's unit."""
    created_at: float = 0.0
    """When the parent was split."""


class Options(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a job carries besides its payload; stored as JSON, and not at all where all is default."""

    max_attempts: int = 5
    timeout: float | None = None
    unique_key: str | None = None
    fair_key: str | None = None
    ordering_key: str | None = None
    concurrency_key: str | None = None
    key_limit: int = 1
    """How many jobs of its concurrency key run at a time; its task's setting overrides it [F3]."""
    task_limit: int | None = None
    """How many jobs of its task run at a time, as the code says; its task's setting overrides it [F3]."""
    tags: tuple[str, ...] = ()
    headers: dict[str, str] = {}
    trace: str | None = None
    replay_of: int | None = None
    """The job that this one repeats [O6]."""
    unknown_since: float | None = None
    """Written by the store: when a worker first said that it does not know this task [O4]."""
    chunked: bool = False
    """A parent to be: while its first run lasts, its state is `splitting`."""
    part: PartOf | None = None
    """Written by the store: set in the jobs of parts and finalizers [P4]."""
    after: tuple[int, ...] = ()
    """Jobs that must have succeeded before this one is ready [P12]."""
    otherwise: Otherwise = "dead"
    """What becomes of this job where one of them ends in another way."""


DEFAULT_OPTIONS = Options()


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to enqueue. The caller has validated it (see `windlass.core.names` and `windlass.payload`)."""

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


class Receipt(msgspec.Struct, frozen=True):
    """What became of one enqueued job: its id, or the id of the twin that stands for it; 0 where it was
    parked."""

    id: int
    status: EnqueueStatus = "enqueued"
    pressure: float | None = None
    """A hint: how full its queue is, from 0.7 on, where it has a max_depth; slow down [F4]."""


class ClaimedJob(msgspec.Struct, frozen=True, gc=False):
    """One job of a claim. (lane, claim, seq) is its fence; `id` names the job over all its attempts."""

    id: int
    lane: int
    claim: int
    seq: int
    task: str
    payload: str
    queue: str
    priority: int
    attempt: int
    deaths: int
    options: Options
    enqueued_at: float
    ready_at: float = 0.0
    """When this attempt became ready, by the store's clock."""


class Claim(msgspec.Struct, frozen=True):
    """A batch of jobs of one lane, leased to one worker. Its id is the fencing token."""

    id: int
    lane: int
    queue: str
    priority: int
    jobs: list[ClaimedJob]


class Failure(msgspec.Struct, frozen=True):
    """One failed attempt, as kept with the job (the last 32 of them)."""

    type: str
    message: str
    traceback: str = ""
    attempt: int = 0
    at: float = 0.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one claimed attempt ended. `delay` is for the kinds that offer the job again."""

    job: ClaimedJob
    kind: Kind = Kind.SUCCEEDED
    delay: float = 0.0
    error: Failure | None = None
    result: str | None = None
    run_ms: float | None = None
    forget: bool = False
    """SUCCEEDED only: the job's earlier failures are no longer shown [O1]."""


class Finished(msgspec.Struct, frozen=True):
    """The answer to a flush: how many outcomes were recorded, were there already, or were refused [C5]."""

    applied: int = 0
    repeated: int = 0
    refused: tuple[int, ...] = ()


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as it introduces itself. The id is random and never used twice [C5]."""

    id: int
    label: str = ""
    host: str = ""
    pid: int = 0
    queues: tuple[str, ...] = ()
    lease: float = 30.0
    """Seconds without a beat after which observers may take it for dead [C4]."""


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as the store knows it. `beat` counts its heartbeats; observers watch it move."""

    id: int
    label: str
    host: str
    pid: int
    queues: tuple[str, ...]
    alive: bool
    beat: int
    started_at: float
    beat_at: float
    lease: float = 30.0
    vitals: Vitals | None = None
    """How it is doing, in its own words; None before it has told."""
    vitals_at: float | None = None


class Beat(msgspec.Struct, frozen=True):
    """The answer to a heartbeat: which of the worker's running jobs should be cancelled."""

    cancel: frozenset[int] = frozenset()


class Rescued(msgspec.Struct, frozen=True):
    """What a rescue did with the jobs of a dead worker [C8]."""

    offered: int = 0
    deferred: int = 0
    dead: int = 0
    cancelled: int = 0


class Promoted(msgspec.Struct, frozen=True):
    """What one promotion step moved into lanes: due deferred jobs, and keyed jobs admitted in turn [C3]."""

    due: int = 0
    admitted: int = 0
    again: float | None = None
    """Seconds until more can be admitted: when a budget that jobs wait for has its next token [F1]."""


class Checkpoint(msgspec.Struct, frozen=True):
    """The durable progress of a job: JSON text of the handler's own, and n of m where it told."""

    data: str
    done: int | None = None
    total: int | None = None
    at: float = 0.0


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
    options: Options
    enqueued_at: float
    run_at: float | None = None
    claimed_at: float | None = None
    finished_at: float | None = None
    worker: int | None = None
    claim: int | None = None
    cancel_requested: bool = False
    reason: str | None = None
    errors: tuple[Failure, ...] = ()
    result: str | None = None
    checkpoint: Checkpoint | None = None


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs to list; what is None does not filter."""

    queue: str | None = None
    task: str | None = None
    state: State | None = None
    tag: str | None = None
    text: str | None = None
    """What its payload, as JSON text, contains."""
    error: str | None = None
    """The type of the last failure kept with it, "" for none: finds dead and retrying jobs only."""


class Page(msgspec.Struct, frozen=True):
    """One page of a listing, newest first. Pass `cursor` on for the next; None says there is none."""

    jobs: list[JobRecord]
    cursor: str | None = None
    looked: int = 0
    """How many jobs were looked at for it."""
    back_to: float | None = None
    """When the oldest of these was enqueued: how far back the search has come [M3]."""


class Depth(msgspec.Struct, frozen=True):
    """How many jobs of a queue stand where, and for how long the oldest ready one has waited."""

    ready: int = 0
    running: int = 0
    scheduled: int = 0
    retrying: int = 0
    dead: int = 0
    oldest: float | None = None
    offered: int = 0
    """How often a job was put into one of its lanes, since the queue was declared: new ones, retries,
    and those given back. It never falls."""


class QueueRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's settings, and how it stands. None means the default of the store or the worker."""

    name: str
    paused: bool = False
    max_workers: int | None = None
    """Slots of this queue over the whole cluster; None: each worker takes what its flags say [K1]."""
    retention: float | None = None
    dead_retention: float = 30 * 86400.0
    window: int = 100
    safety_bound: float = 3600.0
    """Seconds after which any run of this queue is ended, whatever its task says [C6]."""
    backoff: bool = True
    """Whether retries of tasks without a policy of their own, and cool-downs, wait longer each time [O2]."""
    backoff_base: float = 5.0
    backoff_cap: float = 1800.0
    cool_base: float = 60.0
    """Seconds of the first cool-down after a throttle; of each, where `backoff` is off [O3]."""
    cool_cap: float = 1800.0
    concurrency: int | None = None
    """How many of its jobs run at a time over the whole cluster, exactly; None: as slots allow [F3]."""
    governor: bool = False
    """Whether its rate is found by trying, between rate_min and rate_max jobs a second [F2]."""
    rate_min: float = 1.0
    rate_max: float = 1000.0
    max_depth: int | None = None
    """Backpressure: new jobs are refused when so many are ready [F4]."""
    shed_depth: int | None = None
    """Load shedding: the depth, the wait of the oldest and the store's latency that are too much [F5]."""
    shed_wait: float | None = None
    shed_latency: float | None = None
    throttles: int = 0
    """State, not a setting: cool-downs since the queue last went well for a while [O3]."""
    cooling: float = 0.0
    """State, not a setting: seconds until the queue gives out jobs again."""
    pressure: Pressure = "none"
    """State: soft or full where its depth is, or was until it falls to 60 % [F4]."""
    refused: int = 0
    """State: jobs refused because it was full, since it was declared."""
    shed: int = 0
    """State: jobs shed, since it was declared [F5]."""
    rate: float | None = None
    """State: what its governor allows, in jobs a second [F2]."""
    why: str | None = None
    """State: what its governor last decided."""


QUEUE_SETTINGS = frozenset(QueueRecord.__struct_fields__) - {
    "name", "throttles", "cooling", "pressure", "refused", "shed", "rate", "why",
}  # fmt: skip
"""What `set_queue` may change."""


class Steering(msgspec.Struct, frozen=True):
    """What a host needs to know each second to steer its workers, in one answer [K1] [K2]."""

    queues: dict[str, QueueRecord]
    slots: dict[int, dict[str, int]]
    """Worker → queue → slots, as the coordinator assigned them; only of the workers asked for."""
    serving: dict[str, int]
    """Queue → how many workers that are alive serve it."""


class PartPlan(msgspec.Struct, frozen=True):
    """A part as planned: what it covers (JSON, the splitter's own) and how much that is."""

    span: str
    size: int = 0
    """In the splitter's unit: bytes, numbers, items. The unit of a part's progress."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How a job is split [P4]."""

    parts: Sequence[PartPlan]
    parallel: int = 8
    """How many parts are released at a time [P8]."""
    tolerated: int = 0
    """How many parts may fail while the parent still ends well [P9]."""
    finalizer: bool = False
    """Whether a last job runs once all parts have ended."""


class ParentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A parent and how far its parts are."""

    id: int
    task: str
    queue: str
    state: State
    total: int
    """Parts in all. succeeded + dead + cancelled + out + those not yet released."""
    succeeded: int = 0
    dead: int = 0
    cancelled: int = 0
    out: int = 0
    """Parts that are released and have not ended."""
    parallel: int = 8
    tolerated: int = 0
    size: int = 0
    """The sizes of all parts together."""
    done: int = 0
    """How much of it is done, by what parts have saved."""
    records: int = 0
    """The records done, by what parts have saved."""
    final: int | None = None
    """The finalizer's job, once all parts have ended."""
    cancel_requested: bool = False
    reason: str | None = None
    created_at: float = 0.0
    """When it was split."""
    finished_at: float | None = None


class PartRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a parent [P4]."""

    parent: int
    index: int
    total: int
    span: str
    size: int
    state: State
    """`waiting` before its release, then the state of its job."""
    job: int | None = None
    """The job that runs it, or ran it last."""
    attempt: int = 0
    """Of that job; 0 before its release."""
    done: int = 0
    records: int = 0
    error: str | None = None
    """Type and message of the failure it died of."""
    created_at: float = 0.0


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a task that live in the store; None means what the code says [P6]."""

    name: str
    batch: int | None = None
    """Records a batch."""
    batch_timeout: float | None = None
    """Seconds that one batch may take before it is halved [P7]."""
    parallel: int | None = None
    """How many parts of a parent run at a time, for parents split from now on."""
    concurrency: int | None = None
    """How many of its jobs run at a time over the whole cluster [F3]."""
    key_concurrency: int | None = None
    """How many of its jobs run at a time for each concurrency key [F3]."""


TASK_SETTINGS = frozenset(TaskRecord.__struct_fields__) - {"name"}
"""What `set_task` may change."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that `windlass doctor` looked at, and what to do about it."""

    name: str
    level: Literal["ok", "warning", "error"] = "ok"
    told: str
    advice: str = ""


class Rotation(msgspec.Struct, frozen=True):
    """What one turn of the logs did; `blocked` says in words what kept a segment from being reclaimed."""

    reclaimed: bool = False
    moved: int = 0
    offered_again: int = 0
    removed: int = 0
    blocked: str | None = None


class Expired(msgspec.Struct, frozen=True):
    """What retention removed besides the logs."""

    dead: int = 0
    keys: int = 0
    workers: int = 0
    parents: int = 0
    more: bool = False
    """One bounded step was not enough for something, be it counted here or not."""


class Migration(msgspec.Struct, frozen=True):
    """The schema version before and after `migrate`."""

    before: int
    after: int
