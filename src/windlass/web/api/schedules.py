"""The endpoints about schedules."""

from __future__ import annotations

from typing import Final

import msgspec

from windlass.web.api.endpoint import Call, Nothing, Removed, Table
from windlass.web.service.shapes import ScheduleView


class Schedules(msgspec.Struct, frozen=True):
    """Every schedule, by name."""

    schedules: list[ScheduleView]


class Fired(msgspec.Struct, frozen=True):
    """The job that a schedule made; null where its unique key is parked."""

    job: str | None


schedules: Final = Table("schedules")


@schedules.get("/schedules")
async def list_schedules(call: Call[Nothing, None]) -> Schedules:
    """Every schedule"""
    return Schedules(await call.service.schedules.all(call.principal))


@schedules.post("/schedules/{name}/run")
async def run_schedule(call: Call[Nothing, None]) -> Fired:
    """Fire a schedule now"""
    job = await call.service.schedules.run(call.principal, call.name)
    return Fired(None if job is None else str(job))


@schedules.post("/schedules/{name}/pause")
async def pause_schedule(call: Call[Nothing, None]) -> ScheduleView:
    """Fire a schedule no more until it is resumed"""
    return await call.service.schedules.pause(call.principal, call.name)


@schedules.post("/schedules/{name}/resume")
async def resume_schedule(call: Call[Nothing, None]) -> ScheduleView:
    """Let a schedule fire again, from its next time on"""
    return await call.service.schedules.resume(call.principal, call.name)


@schedules.delete("/schedules/{name}")
async def remove_schedule(call: Call[Nothing, None]) -> Removed:
    """Remove a schedule; while code declares it, a worker that starts brings it back"""
    await call.service.schedules.remove(call.principal, call.name)
    return Removed(call.name)
