"""The page of schedules, with forms to make one and to change one."""

from __future__ import annotations

import json
from typing import Any, Final, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from windlass.core.cron import Missed, Overlap
from windlass.operations.operation import Operation
from windlass.operations.schedules import (
    NewScheduleBody,
    ScheduleChanges,
    ScheduleView,
    add_schedule,
    change_schedule,
    list_schedules,
    pause_schedule,
    remove_schedule,
    resume_schedule,
    revert_schedule,
    run_schedule,
)
from windlass.web.http.problems import Invalid
from windlass.web.pages.forms import Form, go, read_form
from windlass.web.pages.rendering import principal_of, render
from windlass.web.pages.settings import Input
from windlass.web.service.service import Service

_CHANGED: Final = ("cron", "tz", "missed", "overlap", "grace", "jitter")
_TITLES: Final = {"cron": "When", "tz": "Time zone", "missed": "Missed fires", "overlap": "Overlap"}
_HINTS: Final = {"cron": "0 9 * * MON-FRI, or @every 10s", "tz": "UTC", "grace": "60", "jitter": "0"}
_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "missed": ("latest", "skip", "all"),
    "overlap": get_args(Overlap),
}
assert set(_CHOICES["missed"]) == set(get_args(Missed))
_ACTIONS: Final[dict[str, tuple[Operation[..., Any], str]]] = {
    "pause": (pause_schedule, "paused"),
    "resume": (resume_schedule, "resumed"),
    "revert": (revert_schedule, "reverted"),
    "remove": (remove_schedule, "removed"),
}
"""The act of each button, and how it is told."""


async def listing(service: Service, request: Request) -> Response:
    """Every schedule: when it fires next, when it did last, and where it comes from."""
    found = (await service.run(principal_of(request), list_schedules)).schedules
    return render(request, "schedules.html", section="schedules", schedules=found, inputs=inputs)


async def add(service: Service, request: Request) -> Response:
    """Make a schedule."""
    form = await read_form(request)
    job = {"task": form.text("task"), "kwargs": _arguments(form)}
    if form.text("queue"):
        job["queue"] = form.text("queue")
    given = {name: form.text(name) for name in _CHANGED if form.text(name)}
    body = _read({"name": form.text("name"), "job": job, **given}, NewScheduleBody)
    await service.run(principal_of(request), add_schedule, body)
    return go(request, "/schedules", "added")


async def act(service: Service, request: Request) -> Response:
    """Run a schedule now; pause, resume, change, revert or remove it."""
    principal, name, form = principal_of(request), request.path_params["name"], await read_form(request)
    do = form.text("do")
    if do == "run":
        job = (await service.run(principal, run_schedule, name)).job
        return go(request, f"/jobs/{job}" if job else "/schedules", "fired" if job else "skipped")
    if do == "set":
        changes = await _changes(service, request, name, form)
        if changes:
            await service.run(principal, change_schedule, name, _read(changes, ScheduleChanges))
        return go(request, "/schedules", "changed" if changes else "unchanged")
    if do not in _ACTIONS:
        raise Invalid("do must be run, pause, resume, set, revert or remove", "do")
    action, did = _ACTIONS[do]
    await service.run(principal, action, name)
    return go(request, "/schedules", did)


def inputs(schedule: ScheduleView | None = None) -> list[Input]:
    """The inputs for what a schedule does when, as it is now."""
    return [
        Input(
            name=name,
            title=_TITLES.get(name, f"{name.capitalize()}, seconds"),
            value="" if schedule is None else _text(getattr(schedule, name)),
            hint=_HINTS.get(name, ""),
            choices=_CHOICES.get(name, ()),
        )
        for name in _CHANGED
    ]


async def _changes(service: Service, request: Request, name: str, form: Form) -> dict[str, Any]:
    """Return what a form changes. What it leaves empty stays."""
    found = (await service.run(principal_of(request), list_schedules)).schedules
    now = next((each for each in found if each.name == name), None)
    return {
        field: form.text(field)
        for field in _CHANGED
        if form.text(field) and form.text(field) != _text(getattr(now, field, None))
    }


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _arguments(form: Form) -> dict[str, Any]:
    try:
        found = json.loads(form.text("kwargs") or "{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Invalid('arguments: write a JSON object of named ones, as in {"region": "eu"}', "kwargs")
    return found


def _read(given: dict[str, Any], kind: type[Any]) -> Any:
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise Invalid(str(error)) from None
