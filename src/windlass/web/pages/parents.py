"""Parents: the list, and one of them with the strip of its parts [P10]."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from windlass.operations.jobs import cancel_jobs
from windlass.presentation.parents import ParentShape
from windlass.web.http.problems import Invalid
from windlass.web.http.queries import choice
from windlass.web.pages import figures
from windlass.web.pages.forms import go, read_form
from windlass.web.pages.rendering import principal_of, render
from windlass.web.service.checks import found_id
from windlass.web.service.service import Service

_PARTS: Final = 100


async def listing(service: Service, request: Request) -> Response:
    """Parents, the one split last first."""
    active = choice("active", request.query_params.get("active"), ("0", "1")) == "1"
    parents = await service.parents.latest(principal_of(request), active=active, limit=100)
    return render(
        request, "parents.html", section="parents", parents=parents, active=active, rate_text=rate_text
    )


async def one(service: Service, request: Request) -> Response:
    """A parent: its progress, the state of every part, and which parts need attention."""
    principal, id = principal_of(request), found_id(request.path_params["id"])
    start = request.query_params.get("parts", "")
    listed = bool(start)
    if listed and not (start.isascii() and start.isdigit() and len(start) < 10):
        raise Invalid("parts must be the index of a part, a whole number from 0", "parts")
    return render(
        request,
        "parent.html",
        section="parents",
        parent=await service.parents.get(principal, id),
        listed=listed,
        start=int(start) if listed else 0,
        parts=await service.parents.parts(principal, id, int(start), _PARTS) if listed else [],
    )


async def act(service: Service, request: Request) -> Response:
    """Redrive or cancel a parent, or change how many of its parts run at a time."""
    principal, id, form = principal_of(request), found_id(request.path_params["id"]), await read_form(request)
    here = f"/parents/{id}"
    match form.text("do"):
        case "parallel":
            parallel = form.whole("parallel", 1, 100_000)
            await service.parents.set_parallel(principal, id, parallel)
            return go(request, here, "changed")
        case "redrive":
            again = await service.parents.redrive(principal, id)
            return go(request, here, "redriven" if again else "none", again or None)
        case "cancel":
            answers = (await service.run(principal, cancel_jobs, [id])).answers
            done = answers[str(id)] in ("cancelled", "requested")
            return go(request, here, "cancelled" if done else "none", 1 if done else None)
    raise Invalid("do must be redrive, cancel or parallel", "do")


def rate_text(parent: ParentShape) -> str:
    """In records where parts count them; else in units of size, whatever those are, or in parts."""
    progress = parent.progress
    if parent.records and progress.records_per_second is not None:
        return f"{figures.number(progress.records_per_second)} records/s"
    if progress.per_second is None:
        return figures.NONE
    return f"{figures.number(progress.per_second)} {'units' if progress.unit == 'size' else 'parts'}/s"
