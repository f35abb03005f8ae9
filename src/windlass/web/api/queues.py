"""The endpoints about queues, their gates and ordering keys, and tasks."""

from __future__ import annotations

from typing import Final

import msgspec

from windlass.operations.operation import Limit, Text
from windlass.presentation.flow import GateShape, WatermarkShape
from windlass.store.fields import QueueSettings, TaskRecord
from windlass.web.api.changes import QueueChanges, TaskChanges, given
from windlass.web.api.endpoint import Call, Nothing, Table
from windlass.web.service.shapes import QueueView, TaskView


class Queues(msgspec.Struct, frozen=True):
    """Every queue, by name."""

    queues: list[QueueView]


class Tasks(msgspec.Struct, frozen=True):
    """Every task, by name."""

    tasks: list[TaskView]


class Watermarks(msgspec.Struct, frozen=True):
    """The ordering keys of a queue, by key."""

    watermarks: list[WatermarkShape]


class Gates(msgspec.Struct, frozen=True):
    """Gates with waiting jobs, the longest wait first."""

    gates: list[GateShape]


class KeyQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which keys, and how many of them."""

    key: Text | None = None
    limit: Limit = 100


class GateQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How many gates."""

    limit: Limit = 100


queues: Final = Table("queues")


@queues.get("/queues")
async def list_queues(call: Call[Nothing, None]) -> Queues:
    """List queues: their jobs, oldest wait, workers and settings"""
    return Queues(await call.service.queues.all(call.principal))


@queues.get("/queues/{name}")
async def show_queue(call: Call[Nothing, None]) -> QueueView:
    """Get a queue"""
    return await call.service.queues.get(call.principal, call.name)


@queues.put("/queues/{name}")
async def set_queue(call: Call[Nothing, QueueChanges]) -> QueueView:
    """Change the settings of a queue, or declare it"""
    return await call.service.queues.set(call.principal, call.name, given(QueueSettings, call.body))


@queues.post("/queues/{name}/pause")
async def pause_queue(call: Call[Nothing, None]) -> QueueView:
    """Pause a queue; running jobs finish"""
    return await call.service.queues.pause(call.principal, call.name)


@queues.post("/queues/{name}/resume")
async def resume_queue(call: Call[Nothing, None]) -> QueueView:
    """Resume a queue"""
    return await call.service.queues.resume(call.principal, call.name)


@queues.post("/queues/{name}/warm")
async def warm_queue(call: Call[Nothing, None]) -> QueueView:
    """End the cool-down of a throttled queue now"""
    return await call.service.queues.warm(call.principal, call.name)


@queues.get("/queues/{name}/watermarks")
async def list_watermarks(call: Call[KeyQuery, None]) -> Watermarks:
    """List the watermarks of a queue's ordering keys"""
    asked = call.query
    return Watermarks(await call.service.queues.watermarks(call.principal, call.name, asked.key, asked.limit))


@queues.get("/gates")
async def list_gates(call: Call[GateQuery, None]) -> Gates:
    """List gates with waiting jobs, the longest wait first"""
    return Gates(await call.service.queues.gates(call.principal, call.query.limit))


@queues.get("/tasks")
async def list_tasks(call: Call[Nothing, None]) -> Tasks:
    """List tasks: their settings and counts"""
    return Tasks(await call.service.tasks.all(call.principal))


@queues.put("/tasks/{name}")
async def set_task(call: Call[Nothing, TaskChanges]) -> TaskView:
    """Change the settings of a task"""
    return await call.service.tasks.set(call.principal, call.name, given(TaskRecord, call.body))
