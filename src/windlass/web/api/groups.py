"""The endpoints about groups of jobs."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from windlass.core.ids import MAX_ID
from windlass.presentation.groups import GroupShape
from windlass.web.api.endpoint import Call, Nothing, Table


class Members(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which jobs of a group: those behind one of them."""

    after: Annotated[int, msgspec.Meta(ge=0, le=MAX_ID)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 100


class GroupJobs(msgspec.Struct, frozen=True):
    """The ids of jobs of a group, in order. Pass the last on as `after` for the next."""

    jobs: list[str]


class Closed(msgspec.Struct, frozen=True):
    """Whether the group was open."""

    closed: bool


class CancelledGroup(msgspec.Struct, frozen=True):
    """How many jobs of the group were cancelled, or asked to stop."""

    cancelled: int


groups: Final = Table("groups")


@groups.get("/groups/{id}")
async def show_group(call: Call[Nothing, None]) -> GroupShape:
    """Get a group: how many of its jobs are in each state"""
    return await call.service.groups.get(call.principal, call.id)


@groups.get("/groups/{id}/jobs")
async def list_group_jobs(call: Call[Members, None]) -> GroupJobs:
    """List the jobs of a group in the order in which they were added"""
    found = await call.service.groups.jobs(call.principal, call.id, call.query.after, call.query.limit)
    return GroupJobs(found)


@groups.post("/groups/{id}/close")
async def close_group(call: Call[Nothing, None]) -> Closed:
    """Let a group take no more jobs"""
    return Closed(await call.service.groups.close(call.principal, call.id))


@groups.post("/groups/{id}/cancel")
async def cancel_group(call: Call[Nothing, None]) -> CancelledGroup:
    """Cancel a group and its jobs that have not ended"""
    return CancelledGroup(await call.service.groups.cancel(call.principal, call.id))
