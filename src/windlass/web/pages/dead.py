"""Dead jobs by what they died of."""

from __future__ import annotations

from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from windlass.core.states import State
from windlass.operations.bulk import list_bulks
from windlass.operations.jobs import CauseShape, list_causes, list_dead
from windlass.operations.queues import list_queues
from windlass.store.records import JobFilter
from windlass.web.pages.jobs import LISTED
from windlass.web.pages.rendering import principal_of, render
from windlass.web.pages.search import MAX_SEARCH, write_search
from windlass.web.service.service import Service

_GROUPS: Final = 20


class Group(NamedTuple):
    """Dead jobs of one task with one type of error, and the search that finds them."""

    cause: CauseShape
    search: str | None
    """None where it would be too long to be one."""


async def listing(service: Service, request: Request) -> Response:
    """Dead jobs, the newest first, and what all of them died of."""
    principal, query = principal_of(request), request.query_params
    queue, task, cursor = (query.get(name, "").strip() or None for name in ("queue", "task", "cursor"))
    where = JobFilter(queue=queue, task=task, state=State.DEAD)
    found = await service.run(principal, list_dead, queue, task, limit=LISTED, cursor=cursor)
    causes = await service.run(principal, list_causes, queue, task)
    return render(
        request,
        "dead.html",
        section="dead",
        found=found,
        causes=causes,
        groups=[_group(each, queue) for each in causes.groups[:_GROUPS]],
        names=[each.name for each in (await service.run(principal, list_queues)).queues],
        queue=queue,
        task=task,
        cursor=cursor,
        search=write_search(where),
        bulks=(await service.run(principal, list_bulks)).operations[:5],
        back=f"/dead?{request.url.query}",
    )


def _group(cause: CauseShape, queue: str | None) -> Group:
    search = write_search(JobFilter(queue=queue, task=cause.task, state=State.DEAD, error=cause.error))
    return Group(cause, search if len(search) <= MAX_SEARCH else None)
