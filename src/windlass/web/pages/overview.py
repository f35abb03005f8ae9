"""Overview, operations and events: how everything is, how the store is, what has happened."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from windlass.operations.bulk import BulkShape, list_bulks
from windlass.operations.events import EventView, find_events
from windlass.operations.measures import list_measures
from windlass.operations.overview import show_overview
from windlass.operations.partial import PartialAnswer
from windlass.operations.queues import list_queues
from windlass.operations.store_health import show_store_health
from windlass.store.records import EventKind
from windlass.web.http.problems import found_id
from windlass.web.http.queries import choice
from windlass.web.pages import charts, figures
from windlass.web.pages.findings import place_of
from windlass.web.pages.rendering import principal_of, render
from windlass.web.service.service import Service

_EVENTS: Final = 100
_LARGEST: Final = 10
KINDS: Final[dict[str, tuple[EventKind, ...]]] = {
    "operators": ("operator",),
    "dead": ("dead",),
    "retries": ("retry",),
    "lost workers": ("lost", "rescued", "refused"),
    "throttles": ("throttled", "breaker", "governor"),
    "workers": ("started", "stopped", "leads", "released"),
    "schedules": ("fired",),
    "cancels": ("cancelled",),
    "others": ("snooze", "unknown", "split", "succeeded", "blocked"),
}
"""The groups that events are looked at by; together they are all kinds."""


async def overview(service: Service, request: Request) -> Response:
    """Healthy or not, where, since when."""
    principal = principal_of(request)
    chosen = charts.range_named(request.query_params.get("range"))
    parts = PartialAnswer(service.store.in_words)
    points = service.run(principal, list_measures, last=charts.RANGES[chosen])
    seen, measured = await asyncio.gather(service.run(principal, show_overview), parts.get("charts", points))
    return render(
        request,
        "overview.html",
        section="overview",
        overview=seen,
        queues=seen.queues[:15],
        problems=[finding for finding in seen.findings if finding.level != "ok"],
        events=by_time(seen.events)[:8],
        place_of=place_of,
        bulks=await under_way(service, request),
        range=chosen,
        charts=charts.measured(measured.points, time.time())[:4] if measured else [],
        missing={**seen.missing, **parts.missing},
    )


async def operations(service: Service, request: Request) -> Response:
    """The health of the store."""
    principal = principal_of(request)
    seen = await service.run(principal, show_store_health)
    dead = [table.dead for table in seen.tables if table.dead is not None]
    return render(
        request,
        "operations.html",
        section="operations",
        ops=seen,
        largest=_LARGEST,
        place_of=place_of,
        bulks=await under_way(service, request),
        dead_tuples=sum(dead) if dead else None,
    )


async def events(service: Service, request: Request) -> Response:
    """Events of all queues or one, of all kinds or some."""
    principal, query = principal_of(request), request.query_params
    before, queue = query.get("before"), query.get("queue") or None
    kind = choice("kind", query.get("kind"), KINDS)
    names = [each.name for each in (await service.run(principal, list_queues)).queues]
    found = await service.run(
        principal,
        find_events,
        queue,
        limit=_EVENTS,
        before=found_id(before) if before else None,
        kinds=KINDS.get(kind, ()),
    )
    return render(
        request,
        "events.html",
        section="events",
        found=found,
        events=by_time(found.events),
        kinds=KINDS,
        kind=kind,
        queue=queue,
        names=names,
    )


def by_time(events: Iterable[EventView]) -> list[EventView]:
    """The latest first. Workers report every two seconds, so ids alone are not in order of time."""
    return sorted(
        events, key=lambda event: (figures.moment(event.at) or 0.0, int(event.id or 0)), reverse=True
    )


async def under_way(service: Service, request: Request) -> list[BulkShape]:
    """Operations on many jobs that have not ended."""
    found = await service.run(principal_of(request), list_bulks)
    return [bulk for bulk in found.operations if bulk.state == "running"]
