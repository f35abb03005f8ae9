"""The endpoints about what steers the flow: parents and parts, schedules, budgets, gates."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from windlass.core.rates import per_second
from windlass.web.api.endpoint import Call, Limit, Nothing, Table, Text
from windlass.web.api.queues import given
from windlass.web.problems import Invalid
from windlass.web.shapes import BudgetView, ParentView, PartView, ScheduleView
from windlass.words.flow_shapes import GateShape
from windlass.words.parent_shapes import ParentShape


class ParentQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which parents, and how many of them."""

    active: bool = False
    limit: Limit = 50


class PartQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which parts, by index."""

    start: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 100


class GateQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How many gates."""

    limit: Limit = 100


class Parents(msgspec.Struct, frozen=True):
    """Parents, the one split last first."""

    parents: list[ParentShape]


class Parts(msgspec.Struct, frozen=True):
    """Parts of a parent, by index."""

    parts: list[PartView]


class ParentChanges(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What can be changed of a parent."""

    parallel: Annotated[int, msgspec.Meta(ge=1, le=100_000)]


class Redriven(msgspec.Struct, frozen=True):
    """How many parts run again; a finalizer counts as one."""

    redriven: int


class Schedules(msgspec.Struct, frozen=True):
    """Every schedule, by name."""

    schedules: list[ScheduleView]


class Fired(msgspec.Struct, frozen=True):
    """The job that a schedule made; null where its unique key is parked."""

    job: str | None


class Removed(msgspec.Struct, frozen=True):
    """What is no longer there."""

    removed: str


class Budgets(msgspec.Struct, frozen=True):
    """Every budget, by name."""

    budgets: list[BudgetView]


class Gates(msgspec.Struct, frozen=True):
    """Gates that jobs wait at, the longest wait first."""

    gates: list[GateShape]


class BudgetChanges(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings of a budget; what is left out stays as it is."""

    rate: float | str | UnsetType = UNSET
    """Tokens a second, or a text such as 5000/h."""
    burst: int | UnsetType = UNSET
    key: Text | UnsetType | None = UNSET
    breaker: int | UnsetType = UNSET
    breaker_pause: float | UnsetType = UNSET


class Drain(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """For how many seconds to grant nothing, and of which key; null: of all."""

    pause: Annotated[float, msgspec.Meta(ge=0, le=86_400 * 30)] = 0.0
    key: Text | None = None


flow: Final = Table("flow")


@flow.get("/parents")
async def list_parents(call: Call[ParentQuery, None]) -> Parents:
    """Jobs that were split into parts, the one split last first"""
    return Parents(await call.desk.parents(call.who, call.query.active, call.query.limit))


@flow.get("/parents/{id}")
async def show_parent(call: Call[Nothing, None]) -> ParentView:
    """One parent: how far it is, and how every part stands"""
    return await call.desk.parent(call.who, call.id)


@flow.put("/parents/{id}")
async def set_parent(call: Call[Nothing, ParentChanges]) -> ParentView:
    """Change how many parts of a parent run at a time"""
    return await call.desk.set_parent(call.who, call.id, call.body.parallel)


@flow.get("/parents/{id}/parts")
async def list_parts(call: Call[PartQuery, None]) -> Parts:
    """Parts of a parent, by index"""
    return Parts(await call.desk.parts(call.who, call.id, call.query.start, call.query.limit))


@flow.post("/parents/{id}/redrive")
async def redrive_parent(call: Call[Nothing, None]) -> Redriven:
    """Run again those parts of a parent that are dead or cancelled"""
    return Redriven(await call.desk.redrive(call.who, call.id))


@flow.get("/schedules")
async def list_schedules(call: Call[Nothing, None]) -> Schedules:
    """Every schedule"""
    return Schedules(await call.desk.schedules(call.who))


@flow.post("/schedules/{name}/run")
async def run_schedule(call: Call[Nothing, None]) -> Fired:
    """Fire a schedule now"""
    job = await call.desk.run_schedule(call.who, call.name)
    return Fired(None if job is None else str(job))


@flow.post("/schedules/{name}/pause")
async def pause_schedule(call: Call[Nothing, None]) -> ScheduleView:
    """Fire a schedule no more until it is resumed"""
    return await call.desk.pause_schedule(call.who, call.name)


@flow.post("/schedules/{name}/resume")
async def resume_schedule(call: Call[Nothing, None]) -> ScheduleView:
    """Let a schedule fire again, from its next time on"""
    return await call.desk.resume_schedule(call.who, call.name)


@flow.delete("/schedules/{name}")
async def remove_schedule(call: Call[Nothing, None]) -> Removed:
    """Remove a schedule; while code declares it, a worker that starts brings it back"""
    await call.desk.remove_schedule(call.who, call.name)
    return Removed(call.name)


@flow.get("/budgets")
async def list_budgets(call: Call[Nothing, None]) -> Budgets:
    """Every budget"""
    return Budgets(await call.desk.budgets(call.who))


@flow.put("/budgets/{name}")
async def set_budget(call: Call[Nothing, BudgetChanges]) -> BudgetView:
    """Change a budget while it is in use, or make it"""
    changes: dict[str, Any] = given(call.body)
    if "rate" in changes:
        try:
            changes["rate"] = per_second(changes["rate"])
        except ValueError as error:
            raise Invalid(str(error), "rate") from None
    return await call.desk.set_budget(call.who, call.name, changes)


@flow.post("/budgets/{name}/drain")
async def drain_budget(call: Call[Nothing, Drain]) -> BudgetView:
    """Take all tokens of a budget away"""
    return await call.desk.drain_budget(call.who, call.name, call.body.pause, call.body.key)


@flow.delete("/budgets/{name}")
async def remove_budget(call: Call[Nothing, None]) -> Removed:
    """Remove a budget; jobs that need it wait until it is there again"""
    await call.desk.remove_budget(call.who, call.name)
    return Removed(call.name)


@flow.get("/gates")
async def list_gates(call: Call[GateQuery, None]) -> Gates:
    """Gates that jobs wait at, the longest wait first"""
    return Gates(await call.desk.gates(call.who, call.query.limit))
