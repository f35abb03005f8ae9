"""The ASGI app: guard, API, metrics, health and pages put together. It can be mounted under any prefix."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, request_response
from starlette.types import ASGIApp

from windlass.errors import StoreUnavailable, WindlassError
from windlass.metrics.prometheus import CONTENT_TYPE, Exposition
from windlass.operations.principal import Role
from windlass.web import pages
from windlass.web.api.job_stream import JobStream
from windlass.web.api.openapi import document
from windlass.web.api.routing import ENDPOINTS, Api
from windlass.web.api.stream import SHORT, Stream
from windlass.web.http.answers import encode, problem_body
from windlass.web.http.credentials import Credentials
from windlass.web.http.guard import METRICS, PRINCIPAL, Authorize, Guard, is_api, path_of
from windlass.web.http.logins import Logins
from windlass.web.http.problems import Problem
from windlass.web.http.queries import read_query
from windlass.web.pages import signal_links
from windlass.web.service.service import Service
from windlass.web.service.ticker import Ticker

if TYPE_CHECKING:
    from windlass.app import Windlass

logger: Final = logging.getLogger("windlass.web")
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
TIMEOUT: Final = 5.0
MAX_BODY: Final = 8 * 1024 * 1024
_CODES: Final = {404: "not_found", 405: "method_not_allowed"}


def make_web(
    app: Windlass,
    *,
    read: Iterable[str] = (),
    operate: Iterable[str] = (),
    hosts: Iterable[str] = (),
    authorize: Authorize | None = None,
    timeout: float = TIMEOUT,
    max_body: int = MAX_BODY,
    stream: float = SHORT,
) -> Starlette:
    """The ASGI app of an app's Mission Control.

    `read` and `operate` are name:secret pairs; without any, only this machine is served. `hosts` are the
    names to answer for besides loopback. With `authorize`, the app that this is mounted in says who asks. A
    request may take `timeout` seconds and bring `max_body` bytes. A stream of events ends after `stream`
    seconds and is opened again: a server that cannot tell it to end waits for that when it stops."""
    service = Service(app)

    @contextlib.asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        """A store on the server's own loop, where this app is the one that is served; mounted ones have no
        life of their own, and their calls hop."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(app)
            except StoreUnavailable as error:
                logger.warning("the store is away, serving anyway: %s", error)
            stack.push_async_callback(service.close)
            yield

    ticker, logins = Ticker(service), Logins(Credentials(read, operate))
    others: dict[str, ASGIApp] = {
        "/stream": Stream(ticker, longest=stream),
        "/jobs/{id}/events": JobStream(service.streams, ticker, longest=stream),
        "/openapi.json": request_response(_openapi),
    }
    web = Starlette(
        routes=_routes(app, service, logins),
        middleware=[
            Middleware(
                Guard,
                logins=logins,
                hosts=hosts,
                metrics_hosts=app.settings.metrics_hosts,
                authorize=authorize,
                timeout=timeout,
                max_body=max_body,
            ),
            Middleware(Api, service=service, others=others),
        ],
        exception_handlers={HTTPException: _refused},
        lifespan=life,
    )
    web.router.redirect_slashes = False  # an address is what it is; the redirect would name a host
    web.state.end_streams = ticker.close
    return web


def _routes(app: Windlass, service: Service, logins: Logins) -> list[BaseRoute]:
    return [
        Route(METRICS, _metrics(service, logins), methods=["GET"]),
        Route("/healthz", _healthz, methods=["GET"]),
        Route("/readyz", _readyz(service), methods=["GET"]),
        signal_links.route(app),
        *pages.routes(service),
    ]


async def _openapi(request: Request) -> Response:
    """The document. It is no secret, but whoever is let in nowhere need not read it."""
    request.scope[PRINCIPAL].require(Role.READ)
    read_query(request.scope["query_string"], ())
    root = str(request.scope.get("root_path", "")) or "/"
    return Response(encode(document(ENDPOINTS, server=root)), media_type="application/json")


def _metrics(service: Service, logins: Logins) -> Endpoint:
    exposition = Exposition(service.store.ask, logins=logins.refused)

    async def metrics(request: Request) -> Response:
        request.scope[PRINCIPAL].require(Role.READ)
        read_query(request.scope["query_string"], ())
        return Response(await exposition.text(), headers={"content-type": CONTENT_TYPE})

    return metrics


async def _healthz(_: Request) -> Response:
    """This process answers."""
    return Response(b'{"ok":true}', media_type="application/json")


def _readyz(service: Service) -> Endpoint:
    async def readyz(_: Request) -> Response:
        """The store answers."""
        try:
            await service.store.shared("ready", 1.0, lambda store: store.now())
        except (WindlassError, OSError, TimeoutError):
            return Response(b'{"ok":false}', 503, {"retry-after": "2"}, "application/json")
        return Response(b'{"ok":true}', media_type="application/json")

    return readyz


async def _refused(request: Request, error: Exception) -> Response:
    """Answer what the router refuses: no such address, or not for this method."""
    assert isinstance(error, HTTPException)
    message = "there is nothing at this address" if error.status_code == 404 else error.detail.lower()
    problem = Problem(error.status_code, _CODES.get(error.status_code, "invalid"), message)
    headers = dict(error.headers or {})
    if is_api(path_of(request.scope)):
        return Response(problem_body(problem), problem.status, headers, "application/json")
    if PRINCIPAL not in request.scope:  # nobody has said who they are, and what is open to all has no pages
        return Response(f"{message}\n", problem.status, headers, "text/plain")
    page = pages.error_page(request, problem)
    page.headers.update(headers)
    return page
