"""The page of workers."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from windlass.web.pages.rendering import principal_of, render
from windlass.web.service.service import Service


async def listing(service: Service, request: Request) -> Response:
    """Every worker: dead and silent ones first, then by label."""
    found = await service.workers.all(principal_of(request))
    found = sorted(found, key=lambda worker: (worker.alive and worker.beat_age <= worker.lease, worker.label))
    return render(request, "workers.html", section="workers", workers=found)
