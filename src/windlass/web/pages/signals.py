"""Jobs that wait for a signal, and the forms that answer them [W2]."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from windlass.operations.signals import SignalBody, list_waits, list_waits_of, send_signal
from windlass.presentation.signals import WrongField, fields_shown, read_fields
from windlass.web.http.problems import Conflict, Invalid
from windlass.web.pages.forms import Form, go
from windlass.web.pages.rendering import principal_of, render
from windlass.web.service.service import Service

LISTED = 50


async def listing(service: Service, request: Request) -> Response:
    """Who waits for what since when."""
    query = request.query_params
    signal, cursor = query.get("signal", "").strip()[:100] or None, query.get("cursor") or None
    found = (await service.run(principal_of(request), list_waits, signal, LISTED, cursor)).waits
    more = found[-1].cursor if len(found) == LISTED else None
    return render(request, "waits.html", section="waits", waits=found, more=more, signal=signal)


async def shown_on(service: Service, request: Request, job: int) -> list[dict[str, Any]]:
    """Return what a job waits for, with the fields of the form that answers it."""
    found = (await service.run(principal_of(request), list_waits_of, job)).waits
    return [{"wait": wait, "fields": fields_shown(wait.shape)} for wait in found[:LISTED]]


async def answer(service: Service, request: Request, job: int, form: Form) -> Response:
    """Send what was filled in."""
    principal, name = principal_of(request), form.text("signal")
    found = (await service.run(principal, list_waits_of, job, name)).waits
    if not found:
        raise Conflict(f"job {job} does not wait for this signal any more; somebody may have answered it")
    try:
        value = read_fields(found[0].shape, form.text)
    except WrongField as wrong:
        raise Invalid(str(wrong), "value") from None
    await service.run(principal, send_signal, job, name, SignalBody(value=value))
    return go(request, f"/jobs/{job}", "signalled")
