"""Schedules, budgets and workers."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from windlass.core.rates import per_second
from windlass.web.desk import Desk
from windlass.web.pages.forms import Form, go, read_form
from windlass.web.pages.rendering import render, who_asks
from windlass.web.problems import Invalid


async def schedules(desk: Desk, request: Request) -> Response:
    """Every schedule: when it fires next, when it did last."""
    found = await desk.schedules(who_asks(request))
    return render(request, "schedules.html", section="schedules", schedules=found)


async def act_on_schedule(desk: Desk, request: Request) -> Response:
    """Run a schedule now, pause, resume or remove it."""
    who, name, form = who_asks(request), request.path_params["name"], await read_form(request)
    match form.text("do"):
        case "run":
            job = await desk.run_schedule(who, name)
            return go(request, f"/jobs/{job}" if job else "/schedules", "fired" if job else "skipped")
        case "pause":
            await desk.pause_schedule(who, name)
            return go(request, "/schedules", "paused")
        case "resume":
            await desk.resume_schedule(who, name)
            return go(request, "/schedules", "resumed")
        case "remove":
            await desk.remove_schedule(who, name)
            return go(request, "/schedules", "removed")
    raise Invalid("a schedule can be run, paused, resumed or removed", "do")


async def budgets(desk: Desk, request: Request) -> Response:
    """Every budget, and what it has left."""
    found = await desk.budgets(who_asks(request))
    return render(request, "budgets.html", section="budgets", budgets=found)


async def act_on_budget(desk: Desk, request: Request) -> Response:
    """Set or drain a budget."""
    who, name, form = who_asks(request), request.path_params["name"], await read_form(request)
    match form.text("do"):
        case "set":
            await desk.set_budget(who, name, _settings(form))
            return go(request, "/budgets", "changed")
        case "drain":
            await desk.drain_budget(who, name, form.decimal("pause", 86400.0) or 0.0)
            return go(request, "/budgets", "drained")
    raise Invalid("a budget can be set or drained", "do")


async def workers(desk: Desk, request: Request) -> Response:
    """Every worker: those in trouble first, then by label."""
    found = await desk.workers(who_asks(request))
    found = sorted(found, key=lambda worker: (worker.alive and worker.beat_age <= worker.lease, worker.label))
    return render(request, "workers.html", section="workers", workers=found)


def _settings(form: Form) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    rate = form.text("rate")
    if rate:
        try:
            changes["rate"] = per_second(rate)
        except ValueError as error:
            raise Invalid(f"rate: {error}", "rate") from error
    burst = form.whole("burst", 1)
    if burst is not None:
        changes["burst"] = burst
    if not changes:
        raise Invalid("say which rate or burst it is to have", "rate")
    return changes
