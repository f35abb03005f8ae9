"""Queues and tasks: their settings in the store, how full a queue is, and what steers a host's workers."""

from __future__ import annotations

import msgspec

from windlass.core.admission import Pressure


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
