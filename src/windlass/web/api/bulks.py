"""The endpoints about operations on many jobs by filter: preview, begin, watch, stop [O6]."""

from __future__ import annotations

from typing import Final

import msgspec

from windlass.bulk import Verb
from windlass.web.api.endpoint import Call, Nothing, Table
from windlass.web.api.jobs import Where
from windlass.web.problems import Invalid
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


class Operations(msgspec.Struct, frozen=True):
    """The operations of this process, the latest first."""

    operations: list[BulkShape]


bulks: Final = Table("bulk")


@bulks.post("/bulk/preview", role=Role.READ)
async def preview(call: Call[Nothing, Where]) -> Counted:
    """Count the jobs that a filter finds, as far as can be counted in a moment"""
    found = await call.desk.preview(call.who, call.body.filter())
    return Counted(found.jobs, found.more)


@bulks.post("/bulk", 202)
async def start(call: Call[Nothing, Wanted]) -> BulkShape:
    """Retry, cancel or delete every job that a filter finds, in the background"""
    where = call.body.where.filter()
    given = any(value is not None for value in msgspec.structs.astuple(where))
    if not given and not call.body.everything:
        raise Invalid('this would be every job there is; filter, or say "everything": true', "everything")
    return await call.desk.start_bulk(call.who, call.body.verb, where)


@bulks.get("/bulk")
async def list_all(call: Call[Nothing, None]) -> Operations:
    """The operations of this process, the latest first"""
    return Operations(await call.desk.bulks(call.who))


@bulks.get("/bulk/{name}")
async def show(call: Call[Nothing, None]) -> BulkShape:
    """How far an operation is"""
    return await call.desk.bulk(call.who, call.name)


@bulks.post("/bulk/{name}/stop")
async def stop(call: Call[Nothing, None]) -> BulkShape:
    """End an operation after its present batch"""
    return await call.desk.stop_bulk(call.who, call.name)
