"""What the service answers with, beyond the shapes of `windlass.presentation`: the same records, with texts
for pages and programs. Times are ISO 8601 in UTC, ids are strings, durations are in seconds unless a name
says ms."""

from __future__ import annotations

from typing import Literal

import msgspec

from windlass.presentation.events import EventShape
from windlass.presentation.flow import BudgetShape, QueueShape, ScheduleShape, WorkerShape
from windlass.presentation.jobs import JobShape
from windlass.presentation.parents import ParentShape, PartShape
from windlass.store.fields import TaskRecord
from windlass.store.records import EnqueueStatus, Finding, Table

Level = Literal["ok", "warning", "error"]


class FindingShape(Finding, frozen=True, kw_only=True):
    """Something that an operator should know, and what to do about it."""

    since: str | None = None
    """Since when, as far as the store knows."""


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """How long jobs waited and ran, in milliseconds; null where nothing ran."""

    wait_p50: float | None = None
    wait_p95: float | None = None
    wait_p99: float | None = None
    run_p50: float | None = None
    run_p95: float | None = None
    run_p99: float | None = None


class PointShape(Percentiles, frozen=True, kw_only=True):
    """What was measured in one minute or hour. Percentiles are milliseconds, null where nothing ran."""

    at: str
    counts: dict[str, int] = {}
    per_second: float = 0.0
    """Jobs that succeeded, in a second."""
    failed_per_second: float = 0.0
    """Attempts that failed (to be tried again, or for good), in a second."""
    ready: float = 0.0
    """Jobs that were ready, on average over the looks that found any."""
    oldest: float = 0.0
    """Seconds for which the oldest of them had waited, likewise."""


class QueueView(QueueShape, frozen=True, kw_only=True):
    """A queue, and how it stands in words."""

    state_text: str
    """What keeps it from giving out jobs: paused; throttled, resumes in 12 s; waits for tokens."""
    load_text: str
    """That, and what limits it or turns jobs away."""
    per_minute: float | None = None
    """Jobs that succeeded in a minute, over the last one or two; null before anything was measured."""


class ListedJob(JobShape, frozen=True, kw_only=True):
    """A job in a listing: of its errors only the last, without traceback."""

    state_text: str
    """The state; `retrying (2 tries)` where it is tried again [M4]."""
    cut: bool = False
    """Payload, result or checkpoint are too long for a listing and left out; look the job up."""


class ListedJobs(msgspec.Struct, frozen=True, kw_only=True):
    """A page of jobs, newest first. It may be short or empty and still have a cursor."""

    jobs: list[ListedJob]
    cursor: str | None
    looked: int
    """How many jobs were looked at for it."""
    back_to: str | None
    """How far back the search has come [M3]."""


class PartView(PartShape, frozen=True, kw_only=True):
    """A part, and its state in words."""

    state_text: str


class ParentView(ParentShape, frozen=True, kw_only=True):
    """A parent with its parts: `strip` has one letter for each, or for several where there are more than
    2,000 (then that of the worst of them); see `letters` for what they mean."""

    strip: str
    strip_parts: int
    """How many parts the strip covers; fewer than there are where there are very many."""
    strip_each: int
    """How many parts a letter stands for."""
    letters: dict[str, str]
    """Letter → state."""
    states: dict[str, int]
    """State → how many of the parts that the strip covers."""
    needing: list[PartView]
    """Some of those that need attention, the most urgent first."""


class JobView(JobShape, frozen=True, kw_only=True):
    """A job, why it waits, and what has happened to it."""

    state_text: str
    why: str | None
    """Why it does not run, null where it runs or has ended [M4]."""
    running_since: str | None
    """When its present run began; null where it does not run."""
    deadline: str | None
    """When that is ended at the latest, by the timeout of the job or its task, or by its queue's bound."""
    worker_label: str | None
    timeline: list[EventShape]
    """What happened to it, the earliest first."""
    parent: ParentShape | None
    """The job as a parent, where it was split; whose part it is says `part`."""


class BusyShape(msgspec.Struct, frozen=True):
    """A job that a worker runs right now."""

    job: str
    task: str
    queue: str
    since: str


class FoundEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Events, the latest first. There may be few or none and still be a `before`: only so many are looked at
    in one go."""

    events: list[EventShape]
    looked: int
    """How many events were looked at for it."""
    before: str | None
    """Goes on from here; null where these are the last."""
    back_to: str | None
    """When the oldest of those looked at happened."""


class VitalsShape(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker process is doing, in its own words."""

    at: str | None
    age: float | None
    cpu: float
    """Of one core: 1 is all of it."""
    memory: int
    running: int
    slots: int
    lag: float
    jobs: list[BusyShape]


class WorkerView(WorkerShape, frozen=True, kw_only=True):
    """A worker, and how it is doing."""

    state_text: str
    vitals: VitalsShape | None


class BudgetView(BudgetShape, frozen=True, kw_only=True):
    """A budget, and what keeps it from granting."""

    state_text: str


class ScheduleView(ScheduleShape, frozen=True, kw_only=True):
    """A schedule, and when it fires next."""

    state_text: str
    upcoming: list[str]
    """The next few times it fires for."""


class TaskView(TaskRecord, frozen=True, kw_only=True):
    """A task: its settings in the store, what the code of this app says, and what was counted of it."""

    known: bool
    """Whether the app that serves this page has its code."""
    queue: str | None
    ready: int
    estimate: bool
    """Only the first jobs of a long queue were counted."""
    counts: dict[str, int]
    """Since the store was made."""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs stand where, over all queues."""

    ready: int = 0
    running: int = 0
    scheduled: int = 0
    retrying: int = 0
    dead: int = 0


class Overview(Percentiles, frozen=True, kw_only=True):
    """One glance: healthy or not, where, since when. Percentiles are those of the last five minutes."""

    at: str
    healthy: Level
    findings: list[FindingShape]
    """The worst first."""
    queues: list[QueueView]
    """The worst first."""
    totals: Totals | None = None
    oldest: float | None = None
    """Seconds for which the oldest ready job of all queues has waited."""
    workers_alive: int | None = None
    workers_lost: int | None = None
    slots: int | None = None
    running: int | None = None
    """Slots in use, as workers say."""
    succeeded_per_second: float | None = None
    failed_per_second: float | None = None
    spark: list[PointShape] = []
    """Minute by minute, the last hour."""
    events: list[EventShape]
    """The last 20, the latest first."""
    missing: dict[str, str] = {}
    """The parts that could not be had (totals, rates, queues, findings, events, …), and what is wrong with
    them: their fields are null or empty."""


class SegmentShape(msgspec.Struct, frozen=True, kw_only=True):
    """A segment of the logs."""

    no: int
    bytes: int
    state: str
    opened_at: str | None


class Operations(msgspec.Struct, frozen=True, kw_only=True):
    """How the store itself is doing. What it cannot know is null."""

    at: str
    store: str
    latency_ms: float
    """How long it took to answer a small question just now."""
    bytes: int
    tables: list[Table]
    segments: list[SegmentShape]
    wal: int | None
    wal_per_second: float | None
    connections: int | None
    most_connections: int | None
    pool: int | None
    pool_idle: int | None
    oldest_snapshot: float | None
    locks_held: float | None
    """Seconds for which an open transaction has held lanes or rows that others want; 0 where none does."""
    blocked: str | None
    blocked_since: str | None
    coordinator_until: str | None
    leads: bool
    """Whether somebody leads the cluster now."""
    reports: int
    findings: list[FindingShape]


class ReceiptShape(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an enqueued job: its id, or the id of the twin that stands for it; null where it was
    parked."""

    id: str | None
    status: EnqueueStatus
    pressure: float | None = None
    """How full its queue is, from 0.7 on: slow down [F4]."""


class BulkShape(msgspec.Struct, frozen=True, kw_only=True):
    """An operation on many jobs that goes on in the background of this process [O6]."""

    id: str
    verb: Literal["retry", "cancel", "delete"]
    where: dict[str, str]
    by: str
    """Who began it."""
    state: Literal["running", "done", "stopped", "failed"]
    done: int
    """Jobs that were dealt with so far."""
    expected: int | None
    """How many there were at its beginning; null where they were too many to count."""
    answers: dict[str, int]
    error: str | None
    started_at: str
    ended_at: str | None
