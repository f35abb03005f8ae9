"""The endpoints about operations on many jobs by filter: preview, begin, watch, stop [O6]."""

from __future__ import annotations

from typing import Final

import msgspec

from windlass.bulk import Verb
from windlass.web.api.endpoint import Call, Nothing, Table
from windlass.web.api.jobs import Where
from windlass.web.shapes import BulkShape
from windlass.web.who import Role


class Wanted(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to do, and to which jobs. Every job there is must be meant: `everything` says so."""

    verb: Verb
    where: Where
    everything: bool = False


class Counted(msgspec.Struct, frozen=True):
    """How many jobs a filter finds; with `more`, at least so many."""

    jobs: int
    more: bool


class Bulks(msgspec.Struct, frozen=True):
    """The operations of this process, the latest first."""

    operations: list[BulkShape]


bulks: Final = Table("bulk")


@bulks.post("/bulk/preview", role=Role.READ)
async def preview_bulk(call: Call[Nothing, Where]) -> Counted:
    """Count the jobs that a filter finds, as far as can be counted in a moment"""
    found = await call.desk.preview(call.who, call.body.filter())
    return Counted(found.jobs, found.more)


@bulks.post("/bulk", 202)
async def start_bulk(call: Call[Nothing, Wanted]) -> BulkShape:
    """Retry, cancel or delete every job that a filter finds, in the background"""
    wanted = call.body
    return await call.desk.start_bulk(
        call.who, wanted.verb, wanted.where.filter(), everything=wanted.everything
    )


@bulks.get("/bulk")
async def list_bulks(call: Call[Nothing, None]) -> Bulks:
    """The operations of this process, the latest first"""
    return Bulks(await call.desk.bulks(call.who))


@bulks.get("/bulk/{id}")
async def show_bulk(call: Call[Nothing, None]) -> BulkShape:
    """How far an operation is"""
    return await call.desk.bulk(call.who, call.path["id"])


@bulks.post("/bulk/{id}/stop")
async def stop_bulk(call: Call[Nothing, None]) -> BulkShape:
    """End an operation after its present batch"""
    return await call.desk.stop_bulk(call.who, call.path["id"])
