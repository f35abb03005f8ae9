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
    do, schedules = form.text("do"), service.schedules
    if do == "run":
        job = await schedules.run(principal, name)
        return go(request, f"/jobs/{job}" if job else "/schedules", "fired" if job else "skipped")
    others = {
        "pause": (schedules.pause, "paused"),
        "resume": (schedules.resume, "resumed"),
        "remove": (schedules.remove, "removed"),
    }
    if do not in others:
        raise Invalid("do must be run, pause, resume or remove", "do")
    action, did = others[do]
    await action(principal, name)
    return go(request, "/schedules", did)
