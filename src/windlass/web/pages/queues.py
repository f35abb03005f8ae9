"""Queues: the list, and one of them with its measures and settings."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import Response

from windlass.operations import queues as operations
from windlass.operations.events import find_events
from windlass.operations.measures import list_measures
from windlass.operations.refusals import Refusal
from windlass.store.fields import QueueSettings
from windlass.store.records import JobFilter
from windlass.web.http.problems import Invalid, Problem, problem_of
from windlass.web.pages import charts, settings
from windlass.web.pages.forms import Form, go, read_form
from windlass.web.pages.overview import by_time
from windlass.web.pages.rendering import link_name, principal_of, render
from windlass.web.pages.search import write_search
from windlass.web.service.service import Service


async def listing(service: Service, request: Request) -> Response:
    """Every queue, and the gates that jobs wait at."""
    principal = principal_of(request)
    queues = (await service.run(principal, operations.list_queues)).queues
    gates = (await service.run(principal, operations.list_gates, 50)).gates
    return render(request, "queues.html", section="queues", queues=queues, gates=gates)


async def one(
    service: Service, request: Request, form: Form | None = None, problem: Problem | None = None
) -> Response:
    """The page of a queue; after an invalid form, with what was typed and the error."""
    principal, name = principal_of(request), request.path_params["name"]
    queue = await service.run(principal, operations.show_queue, name)
    chosen = charts.range_named(request.query_params.get("range"))
    measured = await service.run(principal, list_measures, name, last=charts.RANGES[chosen])
    return render(
        request,
        "queue.html",
        200 if problem is None else problem.status,
        section="queues",
        queue=queue,
        search=write_search(JobFilter(queue=name)),
        range=chosen,
        charts=charts.measured(measured.points, time.time()),
        fields=settings.inputs(QueueSettings, queue, form),
        problem=problem,
        wrong=settings.wrong_in(QueueSettings, problem),
        events=by_time((await service.run(principal, find_events, name, limit=50)).events)[:12],
        marks=(await service.run(principal, operations.list_watermarks, name, limit=50)).watermarks,
    )


async def act(service: Service, request: Request) -> Response:
    """Pause, resume, warm or set a queue."""
    principal, name, form = principal_of(request), request.path_params["name"], await read_form(request)
    here = f"/queues/{link_name(name)}"
    do = form.text("do")
    if do == "set":
        return await _set(service, request, form, here)
    others = {
        "pause": (operations.pause_queue, "paused"),
        "resume": (operations.resume_queue, "resumed"),
        "warm": (operations.warm_queue, "warmed"),
    }
    if do not in others:
        raise Invalid("do must be pause, resume, warm or set", "do")
    action, did = others[do]
    await service.run(principal, action, name)
    return go(request, here, did)


async def _set(service: Service, request: Request, form: Form, here: str) -> Response:
    principal, name = principal_of(request), request.path_params["name"]
    try:
        now = await service.run(principal, operations.show_queue, name)
        changes = settings.changes(QueueSettings, now, form)
        if changes:
            await service.run(principal, operations.set_queue, name, changes)
    except (Problem, Refusal) as error:
        problem = problem_of(error)
        if problem.status != 400:
            raise
        return await one(service, request, form, problem)
    return go(request, here, "changed" if changes else "unchanged")
