"""Bulk operations: preview, confirm, progress [O6]."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from windlass.core.counts import plural
from windlass.core.states import State
from windlass.operations.bulk import Wanted, preview_bulk, settle_bulk, show_bulk, start_bulk, stop_bulk
from windlass.operations.jobs import Where
from windlass.operations.walks import CAP
from windlass.presentation.text import capped
from windlass.store.records import JobFilter
from windlass.web.http.problems import Invalid
from windlass.web.pages.forms import go, read_form
from windlass.web.pages.jobs import MEANS, verb_named
from windlass.web.pages.rendering import principal_of, render
from windlass.web.pages.search import read_search
from windlass.web.service.service import Service


async def preview(service: Service, request: Request) -> Response:
    """How many jobs a search finds, and a button to confirm."""
    verb, text = verb_named(request.query_params.get("verb", "")), request.query_params.get("q", "").strip()
    where = read_search(text)
    asked = Where(**msgspec.structs.asdict(where))
    count = await service.run(principal_of(request), preview_bulk, asked)
    return render(
        request,
        "bulk/new.html",
        section="dead" if where.state is State.DEAD else "jobs",
        verb=verb,
        q=text,
        means=MEANS[verb],
        everything=where == JobFilter(),
        count=count.jobs,
        count_text=_count_text(count.jobs, count.more),
        note="Counting stopped early. The operation covers every job that matches." if count.more else "",
    )


async def start(service: Service, request: Request) -> Response:
    """Start the operation and redirect to its progress."""
    form = await read_form(request)
    verb, where = verb_named(form.text("verb")), read_search(form.text("q"))
    everything = form.text("everything") == "1"
    principal = principal_of(request)
    asked = Where(**msgspec.structs.asdict(where))
    begun = await service.run(principal, start_bulk, Wanted(verb=verb, where=asked, everything=everything))
    await service.run(principal, settle_bulk, begun.id)  # else the page says "Running, 0 of 31"
    return go(request, f"/bulk/{begun.id}")


async def progress(service: Service, request: Request) -> Response:
    """The progress of a bulk operation."""
    bulk = await service.run(principal_of(request), show_bulk, request.path_params["id"])
    return render(request, "bulk/page.html", section="jobs", bulk=bulk)


async def stop(service: Service, request: Request) -> Response:
    """Stop it."""
    form = await read_form(request)
    if form.text("do") != "stop":
        raise Invalid("a bulk operation can only be stopped: send do=stop", "do")
    bulk = await service.run(principal_of(request), stop_bulk, request.path_params["id"])
    return go(request, f"/bulk/{bulk.id}", "stopped")


def _count_text(count: int, more: bool) -> str:
    if not more:
        return plural(count, "job")
    return f"{capped(CAP)} jobs" if count >= CAP else f"{count:,} or more jobs"
