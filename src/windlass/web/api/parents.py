"""The endpoints about parents and their parts."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from windlass.operations.operation import Limit
from windlass.presentation.parents import ParentShape
from windlass.web.api.endpoint import Call, Nothing, Table
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
    """Parents, newest first."""

    parents: list[ParentShape]


class Parts(msgspec.Struct, frozen=True):
    """Parts of a parent, by index."""

    parts: list[PartView]


class ParentChanges(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The settings of a parent that can be changed."""

    parallel: Annotated[int, msgspec.Meta(ge=1, le=100_000)] | None
    """How many of its parts may run at a time; null: any number."""


class Redriven(msgspec.Struct, frozen=True):
    """How many parts will run again; a finalizer counts as one."""

    redriven: int


parents: Final = Table("parents")


@parents.get("/parents")
async def list_parents(call: Call[ParentQuery, None]) -> Parents:
    """List parents, newest first"""
    return Parents(await call.service.parents.latest(call.principal, call.query.active, call.query.limit))


@parents.get("/parents/{id}")
async def show_parent(call: Call[Nothing, None]) -> ParentView:
    """Get a parent: its progress, and the state of every part"""
    return await call.service.parents.get(call.principal, call.id)


@parents.put("/parents/{id}")
async def set_parent(call: Call[Nothing, ParentChanges]) -> ParentView:
    """Change how many parts of a parent run at a time"""
    return await call.service.parents.set_parallel(call.principal, call.id, call.body.parallel)


@parents.get("/parents/{id}/parts")
async def list_parts(call: Call[PartQuery, None]) -> Parts:
    """List parts of a parent, by index"""
    return Parts(
        await call.service.parents.parts(call.principal, call.id, call.query.start, call.query.limit)
    )


@parents.post("/parents/{id}/redrive")
async def redrive_parent(call: Call[Nothing, None]) -> Redriven:
    """Run the dead and cancelled parts of a parent again"""
    return Redriven(await call.service.parents.redrive(call.principal, call.id))
