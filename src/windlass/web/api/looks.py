"""The endpoints that show the whole: overview, workers, events, measures, the store."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from windlass.web.api.endpoint import Call, Limit, Name, Nothing, Table
from windlass.web.bodies import JobId, job_id
from windlass.web.points import LONGEST, SHORTEST
from windlass.web.shapes import Operations, Overview, PointShape, WorkerView
from windlass.words.event_shapes import EventShape


class Workers(msgspec.Struct, frozen=True):
    """Workers that are alive or still hold jobs."""

    workers: list[WorkerView]


class Events(msgspec.Struct, frozen=True):
    """Events, the latest first."""

    events: list[EventShape]


class EventQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which events: of a job, or of a queue, or all; with `before`, those with a lower id."""

    queue: Name | None = None
    job: JobId | None = None
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
async def overview(call: Call[Nothing, None]) -> Overview:
    """One glance: healthy or not, where, since when"""
    return await call.desk.overview(call.who)


@looks.get("/workers")
async def workers(call: Call[Nothing, None]) -> Workers:
    """Workers, and how they are doing"""
    return Workers(await call.desk.workers(call.who))


@looks.get("/events")
async def events(call: Call[EventQuery, None]) -> Events:
    """What happened, the latest first"""
    asked = call.query
    job = None if asked.job is None else job_id(asked.job)
    before = None if asked.before is None else job_id(asked.before)
    return Events(await call.desk.events(call.who, asked.queue, job, asked.limit, before))


@looks.get("/measures")
async def measures(call: Call[PointQuery, None]) -> Points:
    """Throughput, waits and run times: minute by minute up to six hours, hour by hour beyond"""
    asked = call.query
    return Points(await call.desk.measured(call.who, asked.queue, asked.task, asked.last))


@looks.get("/operations")
async def operations(call: Call[Nothing, None]) -> Operations:
    """How the store itself is doing"""
    return await call.desk.operations(call.who)
