"""The page of workers: all of them, those of one host, or one."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from windlass.operations.workers import list_workers
from windlass.web.http.problems import Invalid
from windlass.web.pages.rendering import principal_of, render
from windlass.web.service.service import Service


async def listing(service: Service, request: Request) -> Response:
    """Workers, dead and silent ones first, then by label."""
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
    return render(request, "workers.html", section="workers", workers=found, label=label, host=host)
