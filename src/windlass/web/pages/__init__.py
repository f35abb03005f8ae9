"""Mission Control's pages: every view an address, rendered by the server, looked at and acted on without a
script; scripts only keep them live and draw charts [M3].

    request ─▶ handler (`overview`, `queues`, `jobs`, …) ─▶ service ─▶ shapes ─▶ template

A form posts to the address of what it changes, and the answer leads back to a page: reloading that does
nothing a second time. `PAGES` says which role each address needs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route

from windlass.operations.principal import Role
from windlass.web.http.problems import problem_of
from windlass.web.http.queries import read_query
from windlass.web.pages import (
    budgets,
    bulk,
    dead,
    jobs,
    overview,
    parents,
    queues,
    schedules,
    signals,
    tasks,
    workers,
)
from windlass.web.pages.done import NOTICE
from windlass.web.pages.errors import error_page
from windlass.web.pages.rendering import READ_ONLY, principal_of
from windlass.web.pages.search import NAMES
from windlass.web.pages.static import Files
from windlass.web.service.service import Service

__all__ = ["PAGES", "error_page", "routes"]


class Page(NamedTuple):
    """One page or one form: its address, its method, the role it needs and what answers it."""

    path: str
    method: str
    role: Role
    handler: Callable[[Service, Request], Awaitable[Response]]
    query: tuple[str, ...] = ()
    """The parameters that it reads, besides those of the notice."""


_GET: Final = ("GET", Role.READ)
_POST: Final = ("POST", Role.OPERATE)

PAGES: Final = (
    Page("/", *_GET, overview.overview, ("range",)),
    Page("/queues", *_GET, queues.listing),
    Page("/queues/{name}", *_GET, queues.one, ("range",)),
    Page("/queues/{name}", *_POST, queues.act),
    Page("/jobs", *_GET, jobs.listing, ("q", "cursor", *NAMES, "text")),
    Page("/jobs/act", *_POST, jobs.act_on_ticked),
    Page("/jobs/{id}", *_GET, jobs.one),
    Page("/jobs/{id}", *_POST, jobs.act_on_one),
    Page("/waits", *_GET, signals.listing, ("signal", "cursor")),
    Page("/parents", *_GET, parents.listing, ("active",)),
    Page("/parents/{id}", *_GET, parents.one, ("parts",)),
    Page("/parents/{id}", *_POST, parents.act),
    Page("/tasks", *_GET, tasks.listing),
    Page("/tasks/{name}", *_POST, tasks.act),
    Page("/schedules", *_GET, schedules.listing),
    Page("/schedules", *_POST, schedules.add),
    Page("/schedules/{name}", *_POST, schedules.act),
    Page("/budgets", *_GET, budgets.listing),
    Page("/budgets/{name}", *_POST, budgets.act),
    Page("/workers", *_GET, workers.listing, ("worker", "host")),
    Page("/dead", *_GET, dead.listing, ("queue", "task", "cursor")),
    Page("/bulk/new", *_GET, bulk.preview, ("verb", "q")),
    Page("/bulk/new", *_POST, bulk.start),
    Page("/bulk/{id}", *_GET, bulk.progress),
    Page("/bulk/{id}", *_POST, bulk.stop),
    Page("/operations", *_GET, overview.operations),
    Page("/events", *_GET, overview.events, ("queue", "kind", "before")),
)


def routes(service: Service) -> list[BaseRoute]:
    """The pages, and the files they need, which hold nothing secret."""
    by_path: dict[str, dict[str, Page]] = {}
    for page in PAGES:
        by_path.setdefault(page.path, {})[page.method] = page
    pages = [
        Route(path, partial(_answer, service, methods), methods=list(methods))
        for path, methods in by_path.items()
    ]
    return [*pages, Mount("/static", Files(), name="static")]


async def _answer(service: Service, methods: dict[str, Page], request: Request) -> Response:
    """Answer with the page, or with one that says what is wrong. The service checks the role again; here it
    is checked before the form is read, so that nobody is told what is wrong with a form they may not send."""
    request.scope[READ_ONLY] = lambda: service.store.read_only
    page = methods["GET" if request.method == "HEAD" else request.method]
    try:
        principal_of(request).require(page.role)
        read_query(request.scope["query_string"], (*page.query, *NOTICE))
        return await page.handler(service, request)
    except Exception as error:  # noqa: BLE001 - `problem_of` logs what nobody foresaw
        return error_page(request, problem_of(error, safe=page.method == "GET"))
