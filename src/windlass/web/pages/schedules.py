"""The page of schedules, with forms to make one and to change one."""

from __future__ import annotations

import json
from typing import Any, Final, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from windlass.core.cron import Missed, Overlap
from windlass.web.http.problems import Invalid
from windlass.web.pages.forms import Form, go, read_form
from windlass.web.pages.rendering import principal_of, render
from windlass.web.pages.settings import Input
from windlass.web.service.bodies import NewScheduleBody, ScheduleChanges
from windlass.web.service.service import Service
from windlass.web.service.shapes import ScheduleView

_CHANGED: Final = ("cron", "tz", "missed", "overlap", "grace", "jitter")
_TITLES: Final = {"cron": "When", "tz": "Time zone", "missed": "Missed fires", "overlap": "Overlap"}
_HINTS: Final = {"cron": "0 9 * * MON-FRI, or @every 10s", "tz": "UTC", "grace": "60", "jitter": "0"}
_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "missed": ("latest", "skip", "all"),
    "overlap": get_args(Overlap),
}
assert set(_CHOICES["missed"]) == set(get_args(Missed))


async def listing(service: Service, request: Request) -> Response:
    """Every schedule: when it fires next, when it did last, and where it comes from."""
    found = await service.schedules.all(principal_of(request))
    return render(request, "schedules.html", section="schedules", schedules=found, inputs=inputs)


async def add(service: Service, request: Request) -> Response:
    """Make a schedule."""
    form = await read_form(request)
    job = {"task": form.text("task"), "kwargs": _arguments(form)}
    if form.text("queue"):
        job["queue"] = form.text("queue")
    given = {name: form.text(name) for name in _CHANGED if form.text(name)}
    body = _read({"name": form.text("name"), "job": job, **given}, NewScheduleBody)
    await service.schedules.add(principal_of(request), body)
    return go(request, "/schedules", "added")


async def act(service: Service, request: Request) -> Response:
    """Run a schedule now; pause, resume, change, revert or remove it."""
    principal, name, form = principal_of(request), request.path_params["name"], await read_form(request)
    do, schedules = form.text("do"), service.schedules
    if do == "run":
        job = await schedules.run(principal, name)
        return go(request, f"/jobs/{job}" if job else "/schedules", "fired" if job else "skipped")
    if do == "set":
        changes = await _changes(service, request, name, form)
        if changes:
            await schedules.change(principal, name, _read(changes, ScheduleChanges))
        return go(request, "/schedules", "changed" if changes else "unchanged")
    others = {
        "pause": (schedules.pause, "paused"),
        "resume": (schedules.resume, "resumed"),
        "revert": (schedules.revert, "reverted"),
        "remove": (schedules.remove, "removed"),
    }
    if do not in others:
        raise Invalid("do must be run, pause, resume, set, revert or remove", "do")
    action, did = others[do]
    await action(principal, name)
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
    """What a form changes. What it leaves empty stays."""
    found = await service.schedules.all(principal_of(request))
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
