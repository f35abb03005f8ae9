"""Dead jobs by what they died of, and operations on many jobs: preview, confirm, progress [O6]."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, cast

from starlette.requests import Request
from starlette.responses import Response

from windlass.bulk import CAP, Verb
from windlass.core.states import State
from windlass.store.records import JobFilter
from windlass.web.desk import Desk
from windlass.web.pages.forms import go, read_form
from windlass.web.pages.jobs import LISTED, MEANS
from windlass.web.pages.rendering import render, who_asks
from windlass.web.pages.search import read_search, write_search
from windlass.web.problems import Invalid
from windlass.web.shapes import ListedJob
from windlass.words.text import capped, plural

_GROUPS: Final = 20


class Group(NamedTuple):
    """Dead jobs of one task with one type of error."""

    task: str
    error: str
    jobs: int
    example: str
    last: str | None
    search: str


async def listing(desk: Desk, request: Request) -> Response:
    """Dead jobs, the newest first."""
    who, query = who_asks(request), request.query_params
    queue, task, cursor = (query.get(name, "").strip() or None for name in ("queue", "task", "cursor"))
    found = await desk.dead(who, queue, task, LISTED, cursor)
    return render(
        request,
        "dead.html",
        section="dead",
        found=found,
        groups=_groups(found.jobs, queue),
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
    verb, text = _verb(request.query_params.get("verb", "")), request.query_params.get("q", "").strip()
    where = read_search(text)
    count = await desk.preview(who_asks(request), where)
    return render(
        request,
        "bulk_new.html",
        section="dead" if where.state is State.DEAD else "jobs",
        verb=verb,
        q=text,
        means=MEANS[verb],
        count=count.jobs,
        count_text=_count_text(count.jobs, count.more),
        note="Counting was broken off; all that match are meant, however many." if count.more else "",
    )


async def start(desk: Desk, request: Request) -> Response:
    """Begin, and go on to the page that shows how far it is."""
    form = await read_form(request)
    verb, where = _verb(form.text("verb")), read_search(form.text("q"))
    begun = await desk.start_bulk(who_asks(request), verb, where)
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


def _groups(jobs: Iterable[ListedJob], queue: str | None) -> list[Group]:
    """Those of one page: the store counts no errors, and a page never makes it."""
    grouped: dict[tuple[str, str], list[ListedJob]] = {}
    for job in jobs:
        grouped.setdefault((job.task, job.errors[-1].type if job.errors else job.reason or "–"), []).append(
            job
        )
    groups = [
        Group(
            task=task,
            error=error,
            jobs=len(found),
            example=found[0].errors[-1].message if found[0].errors else "",
            last=max(filter(None, (job.finished_at for job in found)), default=None),
            search=write_search(JobFilter(queue=queue, task=task, state=State.DEAD)),
        )
        for (task, error), found in grouped.items()
    ]
    return sorted(groups, key=lambda group: -group.jobs)[:_GROUPS]


def _verb(word: str) -> Verb:
    if word not in MEANS:
        raise Invalid("jobs can be retried, cancelled or deleted", "verb")
    return cast("Verb", word)


def _count_text(count: int, more: bool) -> str:
    if not more:
        return plural(count, "job")
    return f"{capped(CAP)} jobs" if count >= CAP else f"{count:,} or more jobs"
