"""The page of schedules."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from windlass.web.http.problems import Invalid
from windlass.web.pages.forms import go, read_form
from windlass.web.pages.rendering import principal_of, render
from windlass.web.service.service import Service


async def listing(service: Service, request: Request) -> Response:
    """Every schedule: when it fires next, when it did last."""
    found = await service.schedules.all(principal_of(request))
    return render(request, "schedules.html", section="schedules", schedules=found)


async def act(service: Service, request: Request) -> Response:
    """Run a schedule now, pause, resume or remove it."""
    principal, name, form = principal_of(request), request.path_params["name"], await read_form(request)
    match form.text("do"):
        case "run":
            job = await service.schedules.run(principal, name)
            return go(request, f"/jobs/{job}" if job else "/schedules", "fired" if job else "skipped")
        case "pause":
            await service.schedules.pause(principal, name)
            return go(request, "/schedules", "paused")
        case "resume":
            await service.schedules.resume(principal, name)
            return go(request, "/schedules", "resumed")
        case "remove":
            await service.schedules.remove(principal, name)
            return go(request, "/schedules", "removed")
    raise Invalid("do must be run, pause, resume or remove", "do")
