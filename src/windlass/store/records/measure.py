"""Records of measures: rollups [M1], timeline events [M2], what workers
say of themselves [M3], and how the store itself is doing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from windlass.core.rollup import Sample

EventKind = Literal[
    "retry", "dead", "cancelled", "snooze", "throttled", "unknown", "released", "refused", "succeeded",
    "split", "started", "stopped", "lost", "rescued", "leads", "fired", "breaker", "governor", "blocked",
    "operator",
]  # fmt: skip
"""Kinds of events. Of runs: how one ended (succeeded only where every run is to be told of). Of the cluster:
a worker started, stopped or was lost, jobs were rescued, a host leads, a schedule fired, a breaker or
governor acted, a segment cannot be reclaimed. `operator`: somebody did something by hand."""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened, for a timeline."""

    at: float
    kind: EventKind
    text: str = ""
    """In words, at most 500 characters."""
    job: int | None = None
    queue: str = ""
    task: str = ""
    worker: str = ""
    """The label of the worker, or the name of the operator."""
    attempt: int = 0
    ms: float | None = None
    """How long the run took."""


class EventRecord(Event, frozen=True, kw_only=True):
    """An event as it is kept."""

    id: int
    """Later ones have higher numbers."""


class Busy(msgspec.Struct, frozen=True):
    """A job that runs right now."""

    job: int
    task: str
    queue: str
    since: float


class Vitals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a worker process is doing, in its own words [M3]."""

    cpu: float = 0.0
    """The share of one core over the last seconds; 1 is all of it."""
    memory: int = 0
    """Bytes in use."""
    running: int = 0
    """Slots in use."""
    slots: int = 0
    """Slots it has, over all of its queues."""
    jobs: tuple[Busy, ...] = ()
    """The jobs that have run longest, at most 20."""
    lag: float = 0.0
    """Seconds by which its event loop was late, at most, in the last seconds."""
    newest: float | None = None
    """When the latest run of those that it runs began."""


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The report of one process, every two seconds or so."""

    samples: Sequence[Sample] = ()
    events: Sequence[Event] = ()
    vitals: Vitals | None = None


class Rolled(msgspec.Struct, frozen=True):
    """The result of one step of the rollup."""

    folded: int = 0
    """Reports."""
    rows: int = 0
    """Rows that were written."""
    removed: int = 0
    """Rows and events that had outlived their time."""
    more: bool = False


class Counted(msgspec.Struct, frozen=True):
    """The result of one step of counting ends [M7]."""

    claims: int = 0
    """Claims that were looked at for the first time."""
    more: bool = False


class Miscount(msgspec.Struct, frozen=True):
    """Where a count of ends was wrong [M7]."""

    queue: str
    task: str
    kind: str
    counted: int
    found: int
    """The number that the store holds."""


class TaskDepth(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs of a task are ready in a queue [M1]."""

    queue: str
    task: str
    ready: int
    estimate: bool = False
    """Only the first jobs of a long lane were counted."""


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A segment of the logs."""

    no: int
    bytes: int
    state: Literal["open", "closed", "empty"]
    opened_at: float | None = None


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table of the store, or a log over all of its segments."""

    name: str
    bytes: int
    rows: int | None = None
    """As the database estimates it; None where it does not."""
    dead: int | None = None
    """Dead tuples."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The health of the store. What it cannot know is None."""

    store: str
    """Which, and its version: PostgreSQL 18.1, SQLite 3.51.3."""
    bytes: int = 0
    tables: tuple[Table, ...] = ()
    segments: tuple[Segment, ...] = ()
    wal: int | None = None
    """Bytes of write-ahead log since the server was made: what grows in a second is its rate."""
    wal_file: int | None = None
    """On SQLite: the bytes of the file's write-ahead log."""
    cache_hits: int | None = None
    """Pages of the database that were found in the server's cache, and those that were not, since its
    statistics began."""
    cache_misses: int | None = None
    lock_waits: int | None = None
    """How often this process had to wait for another one to finish its write, since it opened the file; only
    SQLite has one writer at a time."""
    connections: int | None = None
    most_connections: int | None = None
    pool: int | None = None
    """Connections this process holds, and how many of them are idle."""
    pool_idle: int | None = None
    oldest_snapshot: float | None = None
    """Seconds for which the oldest snapshot has been held; it keeps dead tuples from being removed."""
    locks_held: float | None = None
    """Seconds for which the oldest open transaction has held lanes or rows that others want, from 5 on; the
    doctor names it."""
    blocked: str | None = None
    """The reason why a segment is not reclaimed, in words."""
    blocked_since: float | None = None
    coordinator_until: float | None = None
    """When the coordinator's term runs out; None where nobody ever led."""
    reports: int = 0
    """Reports not yet rolled up; counted up to 10,000."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Dead jobs of one task whose last failure was of one type [O4]."""

    task: str
    error: str
    """The type of that failure; "" where none is kept: poison, parents."""
    jobs: int
    last_at: float
    """When the last of them died."""
    message: str
    """The message of that one's last failure, or the reason it died of."""


class Causes(msgspec.Struct, frozen=True):
    """Groups of dead jobs by cause, the largest group first."""

    groups: list[Cause]
    looked: int = 0
    """How many dead jobs were looked at: the newest."""
    more: bool = False
    """There are older ones, which were not."""
