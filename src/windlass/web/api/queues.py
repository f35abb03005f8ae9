"""The endpoints about queues and tasks, and their settings."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from windlass.store.records import QUEUE_SETTINGS, QueueRecord
from windlass.web.api.endpoint import Call, Limit, Nothing, Table, Text
from windlass.web.shapes import QueueView, TaskView
from windlass.words.flow_shapes import WatermarkShape


class Queues(msgspec.Struct, frozen=True):
    """Every queue, by name."""

    queues: list[QueueView]


class Tasks(msgspec.Struct, frozen=True):
    """Every task, by name."""

    tasks: list[TaskView]


class Watermarks(msgspec.Struct, frozen=True):
    """The ordering keys of a queue, by key."""

    watermarks: list[WatermarkShape]


class KeyQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which keys, and how many of them."""

    key: Text | None = None
    limit: Limit = 100


class QueueChanges(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings of a queue; what is left out stays as it is, null brings the default back. Times in seconds,
    rates in jobs a second."""

    paused: bool | UnsetType = UNSET
    max_workers: int | UnsetType | None = UNSET
    retention: float | UnsetType | None = UNSET
    dead_retention: float | UnsetType | None = UNSET
    window: int | UnsetType | None = UNSET
    safety_bound: float | UnsetType | None = UNSET
    backoff: bool | UnsetType = UNSET
    backoff_base: float | UnsetType | None = UNSET
    backoff_cap: float | UnsetType | None = UNSET
    cool_base: float | UnsetType | None = UNSET
    cool_cap: float | UnsetType | None = UNSET
    concurrency: int | UnsetType | None = UNSET
    governor: bool | UnsetType = UNSET
    rate_min: float | UnsetType | None = UNSET
    rate_max: float | UnsetType | None = UNSET
    max_depth: int | UnsetType | None = UNSET
    shed_depth: int | UnsetType | None = UNSET
    shed_wait: float | UnsetType | None = UNSET
    shed_latency: float | UnsetType | None = UNSET


assert set(QueueChanges.__struct_fields__) == QUEUE_SETTINGS
_DEFAULTS: Final = QueueRecord(name="default")


class TaskChanges(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings of a task; what is left out stays as it is, null goes back to what the code says."""

    batch: int | UnsetType | None = UNSET
    batch_timeout: float | UnsetType | None = UNSET
    parallel: int | UnsetType | None = UNSET
    concurrency: int | UnsetType | None = UNSET
    key_concurrency: int | UnsetType | None = UNSET


def given(changes: msgspec.Struct) -> dict[str, Any]:
    """What was said, without what was left out."""
    return {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not UNSET}


queues: Final = Table("queues")


@queues.get("/queues")
async def list_queues(call: Call[Nothing, None]) -> Queues:
    """Every queue: its jobs, its oldest wait, who serves it, and its settings"""
    return Queues(await call.desk.queues(call.who))


@queues.get("/queues/{name}")
async def show_queue(call: Call[Nothing, None]) -> QueueView:
    """One queue"""
    return await call.desk.queue(call.who, call.name)


@queues.put("/queues/{name}")
async def set_queue(call: Call[Nothing, QueueChanges]) -> QueueView:
    """Change settings of a queue, or declare it"""
    changes = {
        name: getattr(_DEFAULTS, name) if value is None else value for name, value in given(call.body).items()
    }
    return await call.desk.set_queue(call.who, call.name, changes)


@queues.post("/queues/{name}/pause")
async def pause_queue(call: Call[Nothing, None]) -> QueueView:
    """Give out no more jobs of a queue; what runs may finish"""
    return await call.desk.pause_queue(call.who, call.name)


@queues.post("/queues/{name}/resume")
async def resume_queue(call: Call[Nothing, None]) -> QueueView:
    """Give out jobs of a queue again"""
    return await call.desk.resume_queue(call.who, call.name)


@queues.post("/queues/{name}/warm")
async def warm_queue(call: Call[Nothing, None]) -> QueueView:
    """End the cool-down of a queue that was throttled, now"""
    return await call.desk.warm_queue(call.who, call.name)


@queues.get("/queues/{name}/watermarks")
async def list_watermarks(call: Call[KeyQuery, None]) -> Watermarks:
    """How far the ordering keys of a queue have come"""
    asked = call.query
    return Watermarks(await call.desk.watermarks(call.who, call.name, asked.key, asked.limit))


@queues.get("/tasks")
async def list_tasks(call: Call[Nothing, None]) -> Tasks:
    """Every task: its settings, and what was counted of it"""
    return Tasks(await call.desk.tasks(call.who))


@queues.put("/tasks/{name}")
async def set_task(call: Call[Nothing, TaskChanges]) -> TaskView:
    """Change settings of a task"""
    return await call.desk.set_task(call.who, call.name, given(call.body))
