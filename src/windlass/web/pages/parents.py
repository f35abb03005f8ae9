"""Parents: the list, and one of them with the strip of its parts [P10]."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from windlass.operations.parents import (
    MAX_PARALLEL,
    cancel_parent,
    list_parents,
    list_parts,
    rate_in_words,
    redrive_parent,
    set_parent,
    show_parent,
)
from windlass.web.http.problems import Invalid, found_id
from windlass.web.http.queries import choice
from windlass.web.pages.forms import go, read_form
from windlass.web.pages.rendering import principal_of, render
from windlass.web.service.service import Service

_PARTS: Final = 100


async def listing(service: Service, request: Request) -> Response:
    """Parents, the one split last first."""
    active = choice("active", request.query_params.get("active"), ("0", "1")) == "1"
    found = await service.run(principal_of(request), list_parents, active=active, limit=100)
    return render(
        request,
        "parents.html",
        section="parents",
        parents=found.parents,
        active=active,
        rate_text=rate_in_words,
    )


async def one(service: Service, request: Request) -> Response:
    """A parent: its progress, the state of every part, and which parts need attention."""
    principal, id = principal_of(request), found_id(request.path_params["id"])
    start = request.query_params.get("parts", "")
    listed = bool(start)
    if listed and not (start.isascii() and start.isdigit() and len(start) < 10):
        raise Invalid("parts must be the index of a part, a whole number from 0", "parts")
    parts = (await service.run(principal, list_parts, id, int(start), _PARTS)).parts if listed else []
    return render(
        request,
        "parent.html",
        section="parents",
        parent=await service.run(principal, show_parent, id),
        listed=listed,
        start=int(start) if listed else 0,
        parts=parts,
    )


async def act(service: Service, request: Request) -> Response:
    """Redrive or cancel a parent, or change how many of its parts run at a time."""
    principal, id, form = principal_of(request), found_id(request.path_params["id"]), await read_form(request)
    here = f"/parents/{id}"
    match form.text("do"):
        case "parallel":
            await service.run(principal, set_parent, id, form.whole("parallel", 1, MAX_PARALLEL))
            return go(request, here, "changed")
        case "redrive":
            again = (await service.run(principal, redrive_parent, id)).redriven
            return go(request, here, "redriven" if again else "none", again or None)
        case "cancel":
            done = (await service.run(principal, cancel_parent, id)).answer in ("cancelled", "requested")
            return go(request, here, "cancelled" if done else "none", 1 if done else None)
    raise Invalid("do must be redrive, cancel or parallel", "do")
