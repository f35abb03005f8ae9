"""The endpoints about the whole cluster: overview, workers, events, measures, the store."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from windlass.operations.operation import JobId, Limit, Name, Text, given_id
from windlass.store.records import EventKind
from windlass.web.api.endpoint import Call, Nothing, Table
from windlass.web.service.measures import LONGEST, SHORTEST
from windlass.web.service.shapes import (
    FoundEvents,
    Operations,
    Overview,
    PointShape,
    StorePoint,
    WorkerPoint,
    WorkerView,
)

Last = Annotated[float, msgspec.Meta(ge=SHORTEST, le=LONGEST)]


class Workers(msgspec.Struct, frozen=True):
    """Workers that are alive or still hold jobs."""

    workers: list[WorkerView]


class EventQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which events: of a job, of a queue or all; of one kind or any. With `before`, those with a lower id."""

    queue: Name | None = None
    job: JobId | None = None
    kind: EventKind | None = None
    limit: Limit = 100
    before: JobId | None = None


class Points(msgspec.Struct, frozen=True):
    """Measures in order of time."""

    points: list[PointShape]


class PointQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to measure: a queue, a task in a queue, or everything; and over how many seconds."""

    queue: Name | None = None
    task: Name | None = None
    last: Last = 3600.0


class WorkerHistory(msgspec.Struct, frozen=True):
    """What gauges of workers showed, in order of time."""

    points: list[WorkerPoint]


class StoreHistory(msgspec.Struct, frozen=True):
    """What gauges of the store showed, in order of time."""

    points: list[StorePoint]


class WorkerHistoryQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Whose gauges: a worker's by its label, those of a host, or those of all workers; and over how many
    seconds."""

    worker: Text = ""
    host: Text = ""
    last: Last = 3600.0


class StoreHistoryQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Over how many seconds."""

    last: Last = 3600.0


overview: Final = Table("overview")


@overview.get("/overview")
async def show_overview(call: Call[Nothing, None]) -> Overview:
    """Get the health of the cluster: findings, totals, rates and recent events"""
    return await call.service.overview.get(call.principal)


@overview.get("/workers")
async def list_workers(call: Call[Nothing, None]) -> Workers:
    """List workers with their vitals"""
    return Workers(await call.service.workers.all(call.principal))


@overview.get("/workers/history")
async def list_worker_history(call: Call[WorkerHistoryQuery, None]) -> WorkerHistory:
    """Get CPU, memory, loop lag, slots and store latency of workers over time"""
    asked = call.query
    found = await call.service.workers.history(call.principal, asked.worker, asked.host, asked.last)
    return WorkerHistory(found)


@overview.get("/events")
async def list_events(call: Call[EventQuery, None]) -> FoundEvents:
    """List events, the latest first"""
    asked = call.query
    job = None if asked.job is None else given_id(asked.job)
    before = None if asked.before is None else given_id(asked.before)
    kinds = () if asked.kind is None else (asked.kind,)
    return await call.service.events.find(call.principal, asked.queue, job, asked.limit, before, kinds)


@overview.get("/measures")
async def list_measures(call: Call[PointQuery, None]) -> Points:
    """Get throughput, waits and run times: by the minute up to six hours, by the hour beyond"""
    asked = call.query
    return Points(await call.service.measures.points(call.principal, asked.queue, asked.task, asked.last))


@overview.get("/operations")
async def show_operations(call: Call[Nothing, None]) -> Operations:
    """Get the health of the store"""
    return await call.service.store_health.get(call.principal)


@overview.get("/operations/history")
async def list_store_history(call: Call[StoreHistoryQuery, None]) -> StoreHistory:
    """Get size, WAL, connections, cache hits and latency of the store over time"""
    return StoreHistory(await call.service.store_health.history(call.principal, call.query.last))
