"""Dead jobs by what they died of, and operations on many jobs: preview, confirm, progress [O6]."""

from __future__ import annotations

from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from windlass.bulk import CAP
from windlass.core.states import State
from windlass.store.records import JobFilter
from windlass.web.desk import Desk
from windlass.web.pages.forms import go, read_form
from windlass.web.pages.jobs import LISTED, MEANS, verb_named
from windlass.web.pages.rendering import render, who_asks
from windlass.web.pages.search import MOST, read_search, write_search
from windlass.web.problems import Invalid
from windlass.words.cause_shapes import CauseShape
from windlass.words.text import capped, plural

_GROUPS: Final = 20


class Group(NamedTuple):
    """Dead jobs of one task with one type of error, and the search that finds them."""

    cause: CauseShape
    search: str | None
    """None where it would be too long to be one."""


async def listing(desk: Desk, request: Request) -> Response:
    """Dead jobs, the newest first, and what all of them died of."""
    who, query = who_asks(request), request.query_params
    queue, task, cursor = (query.get(name, "").strip() or None for name in ("queue", "task", "cursor"))
    found = await desk.dead(who, queue, task, LISTED, cursor)
    causes = await desk.causes(who, queue, task)
    return render(
        request,
        "dead.html",
        section="dead",
        found=found,
        causes=causes,
        groups=[_group(each, queue) for each in causes.groups[:_GROUPS]],
        names=[each.name for each in await desk.queues(who)],
        queue=queue,
        task=task,
        cursor=cursor,
        search=write_search(JobFilter(queue=queue, task=task, state=State.DEAD)),
        bulks=(await desk.bulks(who))[:5],
        back=f"/dead?{request.url.query}",
    )


async def preview(desk: Desk, request: Request) -> Response:
    """How many jobs a search finds, and whether to go on."""
    verb, text = verb_named(request.query_params.get("verb", "")), request.query_params.get("q", "").strip()
    where = read_search(text)
    count = await desk.preview(who_asks(request), where)
    return render(
        request,
        "bulk_new.html",
        section="dead" if where.state is State.DEAD else "jobs",
        verb=verb,
        q=text,
        means=MEANS[verb],
        everything=where == JobFilter(),
        count=count.jobs,
        count_text=_count_text(count.jobs, count.more),
        note="Counting was broken off; all that match are meant, however many." if count.more else "",
    )


async def start(desk: Desk, request: Request) -> Response:
    """Begin, and go on to the page that shows how far it is."""
    form = await read_form(request)
    verb, where = verb_named(form.text("verb")), read_search(form.text("q"))
    everything = form.text("everything") == "1"
    begun = await desk.start_bulk(who_asks(request), verb, where, everything=everything)
    return go(request, f"/bulk/{begun.id}")


async def progress(desk: Desk, request: Request) -> Response:
    """How far an operation on many jobs is."""
    bulk = await desk.bulk(who_asks(request), request.path_params["id"])
    return render(request, "bulk.html", section="jobs", bulk=bulk)


async def stop(desk: Desk, request: Request) -> Response:
    """Stop it."""
    form = await read_form(request)
    if form.text("do") != "stop":
        raise Invalid("an operation can be stopped", "do")
    bulk = await desk.stop_bulk(who_asks(request), request.path_params["id"])
    return go(request, f"/bulk/{bulk.id}", "stopped")


def _group(cause: CauseShape, queue: str | None) -> Group:
    search = write_search(JobFilter(queue=queue, task=cause.task, state=State.DEAD, error=cause.error))
    return Group(cause, search if len(search) <= MOST else None)


def _count_text(count: int, more: bool) -> str:
    if not more:
        return plural(count, "job")
    return f"{capped(CAP)} jobs" if count >= CAP else f"{count:,} or more jobs"
