"""The endpoints about schedules."""

from __future__ import annotations

from typing import Final

import msgspec

from windlass.operations.operation import Removed
from windlass.web.api.endpoint import Call, Nothing, Table
from windlass.web.service.bodies import NewScheduleBody, ScheduleChanges
from windlass.web.service.shapes import ScheduleView


class Schedules(msgspec.Struct, frozen=True):
    """Every schedule, by name."""

    schedules: list[ScheduleView]


class Fired(msgspec.Struct, frozen=True):
    """The job that a schedule enqueued; null where its unique key is parked."""

    job: str | None


schedules: Final = Table("schedules")


@schedules.get("/schedules")
async def list_schedules(call: Call[Nothing, None]) -> Schedules:
    """List schedules"""
    return Schedules(await call.service.schedules.all(call.principal))


@schedules.post("/schedules", 201)
async def add_schedule(call: Call[Nothing, NewScheduleBody]) -> ScheduleView:
    """Add a schedule at run time; it survives deploys, until it is removed"""
    return await call.service.schedules.add(call.principal, call.body)


@schedules.put("/schedules/{name}")
async def change_schedule(call: Call[Nothing, ScheduleChanges]) -> ScheduleView:
    """Change a schedule; the change stays, whatever the code declares, until it is reverted"""
    return await call.service.schedules.change(call.principal, call.name, call.body)


@schedules.post("/schedules/{name}/revert")
async def revert_schedule(call: Call[Nothing, None]) -> ScheduleView:
    """Go back to what the code declares"""
    return await call.service.schedules.revert(call.principal, call.name)


@schedules.post("/schedules/{name}/run")
async def run_schedule(call: Call[Nothing, None]) -> Fired:
    """Fire a schedule now"""
    job = await call.service.schedules.run(call.principal, call.name)
    return Fired(None if job is None else str(job))


@schedules.post("/schedules/{name}/pause")
async def pause_schedule(call: Call[Nothing, None]) -> ScheduleView:
    """Pause a schedule: it does not fire until it is resumed"""
    return await call.service.schedules.pause(call.principal, call.name)


@schedules.post("/schedules/{name}/resume")
async def resume_schedule(call: Call[Nothing, None]) -> ScheduleView:
    """Resume a schedule: it fires again from its next time on"""
    return await call.service.schedules.resume(call.principal, call.name)


@schedules.delete("/schedules/{name}")
async def remove_schedule(call: Call[Nothing, None]) -> Removed:
    """Remove a schedule; while code declares it, the next worker to start brings it back"""
    await call.service.schedules.remove(call.principal, call.name)
    return Removed(call.name)
