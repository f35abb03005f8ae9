"""The page of workers: all of them, those of one host, or one."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import Response

from windlass.operations.partial import PartialAnswer
from windlass.operations.workers import list_worker_history, list_workers
from windlass.web.http.problems import Invalid
from windlass.web.pages import charts
from windlass.web.pages.rendering import principal_of, render
from windlass.web.service.service import Service


async def listing(service: Service, request: Request) -> Response:
    """Workers, dead and silent ones first, then by label; and how they did."""
    principal, query = principal_of(request), request.query_params
    label, host = query.get("worker", ""), query.get("host", "")
    if label and host:
        raise Invalid("name a worker or a host, not both", "host")
    found = [
        worker
        for worker in (await service.run(principal, list_workers)).workers
        if (not label or label == (worker.label or worker.id)) and (not host or host == worker.host)
    ]
    found.sort(key=lambda worker: (worker.alive and worker.heartbeat_age <= worker.lease, worker.label))
    chosen = charts.range_named(query.get("range"))
    parts = PartialAnswer(service.store.in_words)
    shown = service.run(principal, list_worker_history, label, host, charts.RANGES[chosen])
    history = await parts.get("charts", shown)
    return render(
        request,
        "workers.html",
        section="workers",
        workers=found,
        label=label,
        host=host,
        range=chosen,
        charts=charts.workers(history.points, time.time(), alone=bool(label)) if history else [],
        missing=parts.missing,
    )
