"""The endpoints about bulk operations: preview, start, watch, stop [O6]."""

from __future__ import annotations

from typing import Final

import msgspec

from windlass.handles.bulk import Verb
from windlass.operations.jobs import Where
from windlass.operations.principal import Role
from windlass.web.api.endpoint import Call, Nothing, Table
from windlass.web.service.shapes import BulkShape


class Wanted(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to do, and to which jobs. To choose every job in the store, leave the filter out and set
    `everything`."""

    verb: Verb
    where: Where
    everything: bool = False


class Counted(msgspec.Struct, frozen=True):
    """How many jobs a filter finds. With `more`, there are at least that many."""

    jobs: int
    more: bool


class Bulks(msgspec.Struct, frozen=True):
    """The bulk operations of this process, the latest first."""

    operations: list[BulkShape]


bulk: Final = Table("bulk")


@bulk.post("/bulk/preview", role=Role.READ)
async def preview_bulk(call: Call[Nothing, Where]) -> Counted:
    """Count the jobs that a filter finds, for up to a second"""
    found = await call.service.bulk.preview(call.principal, call.body.filter())
    return Counted(found.jobs, found.more)


@bulk.post("/bulk", 202)
async def start_bulk(call: Call[Nothing, Wanted]) -> BulkShape:
    """Retry, cancel or delete every job that a filter finds, in the background"""
    wanted = call.body
    return await call.service.bulk.start(
        call.principal, wanted.verb, wanted.where.filter(), everything=wanted.everything
    )


@bulk.get("/bulk")
async def list_bulks(call: Call[Nothing, None]) -> Bulks:
    """List the bulk operations of this process, the latest first"""
    return Bulks(await call.service.bulk.all(call.principal))


@bulk.get("/bulk/{id}")
async def show_bulk(call: Call[Nothing, None]) -> BulkShape:
    """Get the progress of a bulk operation"""
    return await call.service.bulk.get(call.principal, call.path["id"])


@bulk.post("/bulk/{id}/stop")
async def stop_bulk(call: Call[Nothing, None]) -> BulkShape:
    """Stop a bulk operation after its current batch"""
    return await call.service.bulk.stop(call.principal, call.path["id"])
