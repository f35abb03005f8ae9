"""What the service answers with, beyond the shapes of `windlass.presentation`: the same records, with texts
for pages and programs. Times are ISO 8601 in UTC, ids are strings, durations are in seconds unless a name
says ms."""

from __future__ import annotations

from typing import Literal

import msgspec

from windlass.operations.queues import QueueView
from windlass.presentation.events import EventShape
from windlass.presentation.flow import WorkerShape
from windlass.store.records import Finding, Table

Level = Literal["ok", "warning", "error"]


class FindingShape(Finding, frozen=True, kw_only=True):
    """A problem that an operator should know, and what to do about it."""

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
    """The measures of one minute or hour. Percentiles are in milliseconds, null where nothing ran."""

    at: str
    counts: dict[str, int] = {}
    per_second: float = 0.0
    """Jobs that succeeded, per second."""
    failed_per_second: float = 0.0
    """Attempts that failed, per second, whether they are retried or not."""
    ready: float = 0.0
    """Ready jobs, averaged over the samples that found any."""
    oldest: float = 0.0
    """How long the oldest of them had waited, in seconds, averaged likewise."""


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """How long the store took to answer a report, in milliseconds; null where nobody has reported."""

    latency_p50: float | None = None
    latency_p95: float | None = None


class WorkerPoint(Latency, frozen=True, kw_only=True):
    """What the gauges of one worker showed in a minute or longer, or those of several together; null where
    nothing was reported."""

    at: str
    workers: float | None
    """How many they were."""
    cpu: float | None
    """Cores in use, on average."""
    cpu_most: float | None
    """Of the busiest worker, at its highest; likewise below."""
    memory: float | None
    """Bytes in use."""
    memory_most: float | None
    lag: float | None
    """Seconds by which an event loop was late: the average of its worst moments."""
    lag_most: float | None
    running: float | None
    """Slots in use."""
    slots: float | None
    machine_cpu: float | None
    """Of a host: share of all cores of its machine or container, whoever uses them; likewise below."""
    machine_memory: float | None
    machine_total: float | None


class StorePoint(Latency, frozen=True, kw_only=True):
    """What the gauges of the store showed in a minute or longer; null where it has none, or nobody looked."""

    at: str
    bytes: float | None
    wal_per_second: float | None
    wal_file: float | None
    """On SQLite: bytes of the write-ahead log."""
    connections: float | None
    cache_hits: float | None
    """Share of pages that the server found in its cache."""
    lock_waits: float | None
    """On SQLite: how often a minute the coordinator waited for the write of another process."""


class BusyShape(msgspec.Struct, frozen=True):
    """A job that a worker is running."""

    job: str
    task: str
    queue: str
    since: str


class FoundEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Events, the latest first. A page may be short or empty and still have a `before`: one request searches
    a bounded number of events."""

    events: list[EventShape]
    looked: int
    """How many events were searched for it."""
    before: str | None
    """Where the next page starts; null on the last one."""
    back_to: str | None
    """The time of the oldest event that was searched."""


class VitalsShape(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker process reports of itself."""

    at: str | None
    age: float | None
    cpu: float
    """Share of one core: 1 is all of it."""
    memory: int
    running: int
    slots: int
    lag: float
    jobs: list[BusyShape]


class WorkerView(WorkerShape, frozen=True, kw_only=True):
    """A worker, with its state as text."""

    state_text: str
    vitals: VitalsShape | None


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs by state, over all queues."""

    ready: int = 0
    running: int = 0
    scheduled: int = 0
    retrying: int = 0
    dead: int = 0


class Overview(Percentiles, frozen=True, kw_only=True):
    """The health of the cluster at a glance. Percentiles are those of the last five minutes."""

    at: str
    healthy: Level
    findings: list[FindingShape]
    """The worst first."""
    queues: list[QueueView]
    """The worst first."""
    totals: Totals | None = None
    oldest: float | None = None
    """How long the oldest ready job of all queues has waited, in seconds."""
    workers_alive: int | None = None
    workers_lost: int | None = None
    slots: int | None = None
    running: int | None = None
    """Slots in use, as workers report them."""
    succeeded_per_second: float | None = None
    failed_per_second: float | None = None
    spark: list[PointShape] = []
    """Minute by minute, the last hour."""
    events: list[EventShape]
    """The last 20, the latest first."""
    missing: dict[str, str] = {}
    """The parts that could not be read (totals, rates, queues, findings, events, …), each with the error.
    Their fields are null or empty."""


class SegmentShape(msgspec.Struct, frozen=True, kw_only=True):
    """A segment of the logs."""

    no: int
    bytes: int
    state: str
    opened_at: str | None


class Operations(msgspec.Struct, frozen=True, kw_only=True):
    """The health of the store. What it cannot know is null."""

    at: str
    store: str
    latency_ms: float
    """How long it took to answer a small query."""
    bytes: int
    tables: list[Table]
    segments: list[SegmentShape]
    wal: int | None
    wal_per_second: float | None
    wal_file: int | None
    """On SQLite: bytes of the write-ahead log."""
    cache_hits: float | None
    """Share of pages that the server found in its cache, since its statistics began."""
    lock_waits: int | None
    """On SQLite: how often this process waited for the write of another one, since it started."""
    connections: int | None
    most_connections: int | None
    pool: int | None
    pool_idle: int | None
    oldest_snapshot: float | None
    locks_held: float | None
    """How long an open transaction has held lanes or rows that others want, in seconds; 0 where none does."""
    blocked: str | None
    blocked_since: str | None
    coordinator_until: str | None
    leads: bool
    """Whether the cluster has a coordinator now."""
    reports: int
    findings: list[FindingShape]
