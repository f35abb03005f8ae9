"""The endpoints about parents and their parts."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from windlass.presentation.parents import ParentShape
from windlass.web.api.endpoint import Call, Limit, Nothing, Table
from windlass.web.service.shapes import ParentView, PartView


class ParentQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which parents, and how many of them."""

    active: bool = False
    limit: Limit = 50


class PartQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which parts, by index."""

    start: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 100


class Parents(msgspec.Struct, frozen=True):
    """Parents, the one split last first."""

    parents: list[ParentShape]


class Parts(msgspec.Struct, frozen=True):
    """Parts of a parent, by index."""

    parts: list[PartView]


class ParentChanges(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What can be changed of a parent."""

    parallel: Annotated[int, msgspec.Meta(ge=1, le=100_000)] | None
    """How many of its parts may run at a time; null: any number."""


class Redriven(msgspec.Struct, frozen=True):
    """How many parts run again; a finalizer counts as one."""

    redriven: int


parents: Final = Table("parents")


@parents.get("/parents")
async def list_parents(call: Call[ParentQuery, None]) -> Parents:
    """Jobs that were split into parts, the one split last first"""
    return Parents(await call.service.parents.latest(call.principal, call.query.active, call.query.limit))


@parents.get("/parents/{id}")
async def show_parent(call: Call[Nothing, None]) -> ParentView:
    """One parent: how far it is, and how every part stands"""
    return await call.service.parents.get(call.principal, call.id)


@parents.put("/parents/{id}")
async def set_parent(call: Call[Nothing, ParentChanges]) -> ParentView:
    """Change how many parts of a parent run at a time"""
    return await call.service.parents.set_parallel(call.principal, call.id, call.body.parallel)


@parents.get("/parents/{id}/parts")
async def list_parts(call: Call[PartQuery, None]) -> Parts:
    """Parts of a parent, by index"""
    return Parts(
        await call.service.parents.parts(call.principal, call.id, call.query.start, call.query.limit)
    )


@parents.post("/parents/{id}/redrive")
async def redrive_parent(call: Call[Nothing, None]) -> Redriven:
    """Run again those parts of a parent that are dead or cancelled"""
    return Redriven(await call.service.parents.redrive(call.principal, call.id))
