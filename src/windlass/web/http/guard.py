"""The guard: every request passes it first [M5]. Plain ASGI, so that it costs little.

    headers     is each sent once?                                   400
    host        is this request meant for us?                        421
    principal   whose credentials does it carry?                     401, 429, 403
    origin      did a page of ours send it, or a program?            403, 415
    size        of its body, announced or not                        413
    time        that it may take                                     503

The service checks the role that an action needs. Without credentials only this machine is served, and only
directly: what a proxy passes on could come from anywhere. (A proxy that leaves no trace cannot be seen: where
one stands in front, set credentials.) Errors from further in become an answer here, typed and without a
driver's text or a traceback.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.handles.signal_links import PATH
from windlass.operations.bodies import NOT_KEPT
from windlass.operations.principal import Principal, Role
from windlass.web.http.answers import refuse, with_common_headers
from windlass.web.http.logins import Logins
from windlass.web.http.origin import SAFE, Hosts, from_elsewhere, is_loopback, passed_on
from windlass.web.http.problems import Invalid, NotFound, Problem, problem_of, timed_out

Authorize: TypeAlias = Callable[[Request], "Principal | Awaitable[Principal | None] | None"]
"""Finds the principal of a request by the means of the app that this one is mounted in; None refuses it."""

OPEN: Final = frozenset({"/healthz", "/readyz"})
"""Open to everybody, by any host name; the answers hold no data."""
OPEN_BELOW: Final = PATH
"""The path of addresses that send one signal: each is a secret of its own [W2]."""
METRICS: Final = "/metrics"
ENDLESS: Final = re.compile(r"/api/(stream|jobs/[^/]+/events)")
"""Without a time limit."""
ONCE: Final = frozenset(
    {"host", "authorization", "origin", "content-type", "content-length", "sec-fetch-site"}
)
"""Headers that may be sent only once."""
PRINCIPAL: Final = "windlass.principal"
"""The key of the scope under which the guard leaves the principal."""
_LOCAL: Final = Principal("local", Role.OPERATE)


class TooLarge(Problem):
    """A body is longer than allowed."""

    def __init__(self, most: int) -> None:
        super().__init__(413, "too_large", f"the body may have at most {most:,} bytes")


class Guard:
    """Checks requests before the app sees them."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        logins: Logins,
        hosts: Iterable[str] = (),
        metrics_hosts: Iterable[str] = (),
        authorize: Authorize | None = None,
        timeout: float = 5.0,
        max_body: int = 8 * 1024 * 1024,
    ) -> None:
        self._app = app
        self._logins = logins
        self._authorize = authorize
        self._hosts = Hosts(hosts, numbers=bool(logins) or authorize is not None)
        self._metrics_hosts = Hosts(metrics_hosts)
        self._timeout = timeout
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        exchange = Exchange(receive, send, self._max_body)
        path = path_of(scope)
        try:
            if path not in OPEN and not path.startswith(OPEN_BELOW):
                scope[PRINCIPAL] = await self._admit(scope)
            await self._within_time(scope, exchange, path)
        except Exception as error:  # noqa: BLE001 - the last place where it can become an answer
            problem = problem_of(error, safe=scope["method"] in SAFE)
            if not exchange.started:
                await self._refuse(scope, exchange, path, problem)

    async def _refuse(self, scope: Scope, exchange: Exchange, path: str, problem: Problem) -> None:
        """Answer with JSON below /api, with a page to those who are authenticated, and with a line of text to
        others, who may not fetch style sheets. Others also lose their connection."""
        as_json, stranger = is_api(path), PRINCIPAL not in scope
        if as_json or stranger:
            last = stranger and scope["http_version"].startswith("1")
            await refuse(exchange.send, problem, as_json=as_json, last=last)
            return
        from windlass.web.pages import error_page

        await error_page(Request(scope), problem)(scope, exchange.receive, exchange.send)

    async def _within_time(self, scope: Scope, exchange: Exchange, path: str) -> None:
        if ENDLESS.fullmatch(path):
            await self._app(scope, exchange.receive, exchange.send)
            return
        timing = asyncio.timeout(self._timeout)
        try:
            async with timing:
                await self._app(scope, exchange.receive, exchange.send)
        except TimeoutError:
            if not timing.expired():
                raise
            raise timed_out(safe=scope["method"] in SAFE) from None

    # -- admission ----------------------------------------------------------------------------------------

    async def _admit(self, scope: Scope) -> Principal:
        """The principal of a request. Raises a Problem where it is refused."""
        headers = _headers(scope)
        host = headers.get("host")
        scraped = path_of(scope) == METRICS and self._metrics_hosts.allow(host)
        if not self._hosts.allow(host) and not scraped:
            raise Problem(
                421,
                "unknown_host",
                "this server does not answer for that host name; to allow it, start the server with "
                "--allow-host NAME, set WINDLASS_WEB_HOSTS (WINDLASS_METRICS_HOSTS for /metrics alone), or "
                "pass hosts=[...] to app.web()",
            )
        principal = await self._identify(scope, headers)
        if scope["method"] not in SAFE:
            self._check_sender(scope, headers)
        if "\0" in scope["path"]:
            raise NotFound("there is nothing at this address")
        if b"%00" in scope["query_string"]:
            raise Invalid(f"the query {NOT_KEPT}")
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._max_body:
            raise TooLarge(self._max_body)
        return principal

    def _check_sender(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """A change must come from a page of ours or a program, and have a Content-Type: a page of another
        site can send a body without one, and its browser would not ask us first."""
        if from_elsewhere(headers, self._hosts.scheme(headers.get("host")) or scope.get("scheme", "http")):
            message = (
                "pages of other sites may not do this. If TLS ends in front of this server, name it as "
                "https://NAME in WINDLASS_WEB_HOSTS"
            )
            raise Problem(403, "cross_origin", message)
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        if has_body and not headers.get("content-type", "").strip():
            raise Problem(415, "unsupported", "send a Content-Type with the body")

    async def _identify(self, scope: Scope, headers: Mapping[str, str]) -> Principal:
        if self._authorize is not None:
            found = self._authorize(Request(scope))
            principal = await found if inspect.isawaitable(found) else found
            if principal is None or principal.role is Role.NOBODY:
                raise Problem(403, "forbidden", "the app that serves this page does not admit you")
            return principal
        if not self._logins:
            return self._local(scope, headers)
        return await self._logins.check(headers.get("authorization"), (scope.get("client") or ("", 0))[0])

    def _local(self, scope: Scope, headers: Mapping[str, str]) -> Principal:
        """Without credentials: this machine only, and no proxies."""
        client = scope.get("client")
        direct = not passed_on(headers, scope.get("http_version", "1.1"))
        if client is not None and is_loopback(client[0]) and direct:
            return _LOCAL
        raise Problem(
            403,
            "closed",
            "without credentials only this machine is served, and no proxies; set WINDLASS_WEB_READ and "
            "WINDLASS_WEB_OPERATE to name:secret pairs",
        )


class Exchange:
    """One request and its response."""

    __slots__ = ("_left", "_most", "_receive", "_send", "started")

    def __init__(self, receive: Receive, send: Send, most: int) -> None:
        self._receive = receive
        self._send = send
        self._most = most
        self._left = most
        self.started: bool = False

    async def receive(self) -> Message:
        """The next piece of the body. Raises TooLarge, also where no length was announced."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise TooLarge(self._most)
        return message

    async def send(self, message: Message) -> None:
        """Pass on a piece of the response, with the common headers in its start."""
        if message["type"] == "http.response.start":
            self.started = True
            with_common_headers(message)
        await self._send(message)


def _headers(scope: Scope) -> dict[str, str]:
    """Headers by name. Those in ONCE may not be repeated: a proxy on the way may have used another value than
    we would."""
    found: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").lower()
        if name in found and name in ONCE:
            raise Invalid(f"the header {name} was sent twice")
        found[name] = value.decode("latin-1")
    return found


def is_api(path: str) -> bool:
    """Return whether a path is the API's, which always answers in JSON."""
    return path == "/api" or path.startswith("/api/")


def path_of(scope: Scope) -> str:
    """The path below whatever prefix this app is mounted under."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(root) :] if root and path.startswith(root) else path
