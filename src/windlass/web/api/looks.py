"""The endpoints that show the whole: overview, workers, events, measures, the store."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from windlass.store.measures import EventKind
from windlass.web.api.endpoint import Call, Limit, Name, Nothing, Table
from windlass.web.bodies import JobId
from windlass.web.ids import given_id
from windlass.web.points import LONGEST, SHORTEST
from windlass.web.shapes import FoundEvents, Operations, Overview, PointShape, WorkerView


class Workers(msgspec.Struct, frozen=True):
    """Workers that are alive or still hold jobs."""

    workers: list[WorkerView]


class EventQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which events: of a job, or of a queue, or all, of one kind or any; with `before`, those with a lower
    id."""

    queue: Name | None = None
    job: JobId | None = None
    kind: EventKind | None = None
    limit: Limit = 100
    before: JobId | None = None


class Points(msgspec.Struct, frozen=True):
    """What was measured, in order of time."""

    points: list[PointShape]


class PointQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Of what: a queue, a task in a queue, or everything; over the last so many seconds."""

    queue: Name | None = None
    task: Name | None = None
    last: Annotated[float, msgspec.Meta(ge=SHORTEST, le=LONGEST)] = 3600.0


looks: Final = Table("looks")


@looks.get("/overview")
async def show_overview(call: Call[Nothing, None]) -> Overview:
    """One glance: healthy or not, where, since when"""
    return await call.desk.overview(call.who)


@looks.get("/workers")
async def list_workers(call: Call[Nothing, None]) -> Workers:
    """Workers, and how they are doing"""
    return Workers(await call.desk.workers(call.who))


@looks.get("/events")
async def list_events(call: Call[EventQuery, None]) -> FoundEvents:
    """What happened, the latest first"""
    asked = call.query
    job = None if asked.job is None else given_id(asked.job)
    before = None if asked.before is None else given_id(asked.before)
    kinds = () if asked.kind is None else (asked.kind,)
    return await call.desk.find_events(call.who, asked.queue, job, asked.limit, before, kinds)


@looks.get("/measures")
async def list_measures(call: Call[PointQuery, None]) -> Points:
    """Throughput, waits and run times: minute by minute up to six hours, hour by hour beyond"""
    asked = call.query
    return Points(await call.desk.measured(call.who, asked.queue, asked.task, asked.last))


@looks.get("/operations")
async def show_operations(call: Call[Nothing, None]) -> Operations:
    """How the store itself is doing"""
    return await call.desk.operations(call.who)
