"""Queues: the list, and one of them with its measures and settings."""

from __future__ import annotations

import time
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from windlass.core import durations
from windlass.store.records import JobFilter, QueueRecord
from windlass.web.desk import Desk
from windlass.web.pages import charts
from windlass.web.pages.forms import Form, go, read_form
from windlass.web.pages.overview import by_time
from windlass.web.pages.rendering import link_name, render, who_asks
from windlass.web.pages.search import write_search
from windlass.web.problems import Invalid, Problem
from windlass.web.shapes import QueueView

_WHOLE: Final = {
    "max_workers": ("Slots over the cluster", "as workers say"),
    "concurrency": ("At most running", "no limit"),
    "max_depth": ("Full at", "never"),
}
_SPANS: Final = {
    "safety_bound": ("End any run after", "1h"),
    "retention": ("Keep succeeded jobs", "as the store"),
    "dead_retention": ("Keep dead jobs", "30d"),
    "backoff_base": ("First retry after", "5s"),
    "backoff_cap": ("Retry at the latest after", "30m"),
}
_DEFAULTS: Final = QueueRecord(name="default")


async def listing(desk: Desk, request: Request) -> Response:
    """Every queue, and the gates that jobs wait at."""
    who = who_asks(request)
    queues = await desk.queues(who)
    return render(request, "queues.html", section="queues", queues=queues, gates=await desk.gates(who, 50))


async def one(desk: Desk, request: Request) -> Response:
    """A queue."""
    return await _show(desk, request)


async def _show(
    desk: Desk, request: Request, form: Form | None = None, problem: Problem | None = None
) -> Response:
    """The page of a queue; with a form that makes no sense, what was typed and what is wrong with it."""
    who, name = who_asks(request), request.path_params["name"]
    queue = await desk.queue(who, name)
    chosen = charts.range_named(request.query_params.get("range"))
    points = await desk.measured(who, queue=name, last=charts.RANGES[chosen])
    return render(
        request,
        "queue.html",
        200 if problem is None else problem.status,
        section="queues",
        queue=queue,
        search=write_search(JobFilter(queue=name)),
        range=chosen,
        charts=charts.measured(points, time.time()),
        fields=_fields(queue, form),
        problem=problem,
        wrong=_wrong(problem),
        events=by_time(await desk.events(who, queue=name, limit=50))[:12],
        marks=await desk.watermarks(who, name, limit=50),
    )


async def act(desk: Desk, request: Request) -> Response:
    """Pause, resume, warm or set a queue."""
    who, name, form = who_asks(request), request.path_params["name"], await read_form(request)
    here = f"/queues/{link_name(name)}"
    match form.text("do"):
        case "pause":
            await desk.pause_queue(who, name)
            return go(request, here, "paused")
        case "resume":
            await desk.resume_queue(who, name)
            return go(request, here, "resumed")
        case "warm":
            await desk.warm_queue(who, name)
            return go(request, here, "warmed")
        case "set":
            return await _set(desk, request, form, here)
    raise Invalid("a queue can be paused, resumed, warmed or set", "do")


async def _set(desk: Desk, request: Request, form: Form, here: str) -> Response:
    who, name = who_asks(request), request.path_params["name"]
    try:
        changes = _changes(await desk.queue(who, name), form)
        if changes:
            await desk.set_queue(who, name, changes)
    except Problem as problem:
        if problem.status != 400:
            raise
        return await _show(desk, request, form, problem)
    return go(request, here, "changed" if changes else "unchanged")


def _fields(queue: QueueView, form: Form | None) -> list[tuple[str, str, str, str]]:
    """Name, title, value and what an empty one means, of each setting of the form; the value is what was
    typed, where something was."""
    now = {name: "" if getattr(queue, name) is None else str(getattr(queue, name)) for name in _WHOLE}
    now |= {name: _span(getattr(queue, name)) for name in _SPANS}
    return [
        (name, title, form.text(name) if form is not None and name in form else now[name], hint)
        for name, (title, hint) in (_WHOLE | _SPANS).items()
    ]


def _wrong(problem: Problem | None) -> str:
    """The setting that is at fault; a store says it in words alone."""
    if problem is None:
        return ""
    return problem.field or next((name for name in _WHOLE | _SPANS if name in problem.message), "")


def _changes(queue: QueueView, form: Form) -> dict[str, Any]:
    """The settings that differ from what they are."""
    given: dict[str, Any] = {name: form.whole(name) for name in _WHOLE if name in form}
    for name in _SPANS:
        if name in form and form.text(name) != _span(getattr(queue, name)):
            try:
                given[name] = durations.seconds(form.text(name)) if form.text(name) else None
            except ValueError as error:
                raise Invalid(f"{_SPANS[name][0].lower()}: {error}", name) from error
    asked = {name: getattr(_DEFAULTS, name) if value is None else value for name, value in given.items()}
    return {name: value for name, value in asked.items() if value != getattr(queue, name)}


def _span(value: float | None) -> str:
    """Seconds as the form writes and reads them: 30d, 1h, 90s."""
    if value is None:
        return ""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if value >= length and value % length == 0:
            return f"{int(value // length)}{unit}"
    return f"{value:g}s"
