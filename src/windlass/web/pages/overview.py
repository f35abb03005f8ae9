"""Overview, operations and events: how everything is, how the store is, what has happened."""

from __future__ import annotations

import time
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from windlass.web.desk import Desk
from windlass.web.pages import charts
from windlass.web.pages.forms import job_id
from windlass.web.pages.rendering import render, who_asks

_EVENTS: Final = 100


async def overview(desk: Desk, request: Request) -> Response:
    """Healthy or not, where, since when."""
    who = who_asks(request)
    chosen = charts.range_named(request.query_params.get("range"))
    seen = await desk.overview(who)
    points = await desk.measured(who, last=charts.RANGES[chosen])
    return render(
        request,
        "overview.html",
        section="overview",
        overview=seen,
        queues=seen.queues[:15],
        problems=[finding for finding in seen.findings if finding.level != "ok"],
        range=chosen,
        charts=charts.measured(points, time.time())[:4],
    )


async def operations(desk: Desk, request: Request) -> Response:
    """How the store itself is doing."""
    seen = await desk.operations(who_asks(request))
    dead = [table.dead for table in seen.tables if table.dead is not None]
    return render(
        request,
        "operations.html",
        section="operations",
        ops=seen,
        dead_tuples=sum(dead) if dead else None,
    )


async def events(desk: Desk, request: Request) -> Response:
    """What was notable, of all queues or one."""
    who, query = who_asks(request), request.query_params
    before = query.get("before")
    queues = await desk.queues(who)
    queue = query.get("queue") or None
    found = await desk.events(who, queue=queue, limit=_EVENTS, before=None if not before else job_id(before))
    return render(
        request,
        "events.html",
        section="events",
        events=found,
        limit=_EVENTS,
        queue=queue,
        names=[each.name for each in queues],
    )
