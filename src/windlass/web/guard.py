"""The guard: everything that comes in passes here first [M5]. Plain ASGI, so that it costs little.

    headers   is each said once?                                    400
    host      is this request meant for us?                         421
    who       whose credentials does it carry, if we have any?      401, 429, 403
    origin    has a page of ours sent it, or a program?             403, 415
    size      its body, whether it says how long it is or not       413
    time      how long it may take                                  503

The role that an action needs is checked in the action. Without credentials configured only this machine is
served, and only directly: whatever a proxy passes on could come from anywhere. (One that leaves no trace
cannot be seen: where anything stands in front, set credentials.) What goes wrong further in becomes an answer
here: typed, and without the text of a driver or a stack.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.web.answers import dressed, refuse
from windlass.web.logins import Logins
from windlass.web.origin import SAFE, Hosts, from_elsewhere, is_loopback, passed_on
from windlass.web.problems import Invalid, NotFound, Problem, problem_of, timed_out
from windlass.web.texts import NOT_KEPT
from windlass.web.who import Role, Who

Authorize: TypeAlias = Callable[[Request], "Who | Awaitable[Who | None] | None"]
"""Who sends a request, by the means of the app that this one is mounted in; None: nobody it knows."""

OPEN: Final = frozenset({"/healthz", "/readyz"})
"""What anybody may ask; the answer holds no data. Probes call it by whatever address they know."""
ENDLESS: Final = frozenset({"/api/stream"})
"""What may take as long as it likes."""
ONCE: Final = frozenset(
    {"host", "authorization", "origin", "content-type", "content-length", "sec-fetch-site"}
)
"""The headers that nobody may send twice."""
WHO: Final = "windlass.who"
"""Where in the scope the guard leaves who asks."""
_LOCAL: Final = Who("local", Role.OPERATE)


class TooLarge(Problem):
    """A body is longer than allowed."""

    def __init__(self, most: int) -> None:
        super().__init__(413, "too_large", f"the body may have at most {most:,} bytes; send less at once")


class Guard:
    """Stands in front of the app."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        logins: Logins,
        hosts: Iterable[str] = (),
        authorize: Authorize | None = None,
        timeout: float = 5.0,
        max_body: int = 8 * 1024 * 1024,
    ) -> None:
        self._app = app
        self._logins = logins
        self._authorize = authorize
        self._hosts = Hosts(hosts, numbers=bool(logins) or authorize is not None)
        self._timeout = timeout
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        visit = Visit(receive, send, self._max_body)
        path = path_of(scope)
        try:
            if path not in OPEN:
                scope[WHO] = await self._admit(scope)
            await self._within_time(scope, visit, path)
        except Exception as error:  # noqa: BLE001 - the last place where it can become an answer
            problem = problem_of(error, look=scope["method"] in SAFE)
            if not visit.started:
                await self._refuse(scope, visit, path, problem)

    async def _refuse(self, scope: Scope, visit: Visit, path: str, problem: Problem) -> None:
        """Programs are told in JSON, those who were let in by a page, and others, who may not have what a
        page is drawn with, in a line of text. Whoever was not let in does not keep their connection."""
        as_json, stranger = is_api(path), WHO not in scope
        if as_json or stranger:
            last = stranger and scope["http_version"].startswith("1")
            await refuse(visit.send, problem, as_json=as_json, last=last)
            return
        from windlass.web.pages import error_page

        await error_page(Request(scope), problem)(scope, visit.receive, visit.send)

    async def _within_time(self, scope: Scope, visit: Visit, path: str) -> None:
        if path in ENDLESS:
            await self._app(scope, visit.receive, visit.send)
            return
        timing = asyncio.timeout(self._timeout)
        try:
            async with timing:
                await self._app(scope, visit.receive, visit.send)
        except TimeoutError:
            if not timing.expired():
                raise
            raise timed_out(look=scope["method"] in SAFE) from None

    # -- who ----------------------------------------------------------------------------------------------

    async def _admit(self, scope: Scope) -> Who:
        """Who asks. Raises a Problem where they may not."""
        headers = _headers(scope)
        if not self._hosts.allow(headers.get("host")):
            raise Problem(
                421,
                "unknown_host",
                "this server does not answer for that host name; if it should, start it with "
                "--allow-host NAME, set WINDLASS_WEB_HOSTS, or pass hosts=[...] to app.web()",
            )
        who = await self._who(scope, headers)
        if scope["method"] not in SAFE:
            self._check_sender(scope, headers)
        if "\0" in scope["path"]:
            raise NotFound("there is nothing at this address")
        if b"%00" in scope["query_string"]:
            raise Invalid(f"the query {NOT_KEPT}")
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._max_body:
            raise TooLarge(self._max_body)
        return who

    def _check_sender(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """What changes something must come from a page of ours or a program, and say what it brings: a page
        of another site can send a body without a kind, and its browser would not ask us first."""
        if from_elsewhere(headers, self._hosts.scheme(headers.get("host")) or scope.get("scheme", "http")):
            told = (
                "a page of another site may not do this; do it from ours. If TLS ends in front of this "
                "server, name it as https://NAME in WINDLASS_WEB_HOSTS"
            )
            raise Problem(403, "cross_origin", told)
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        if has_body and not headers.get("content-type", "").strip():
            raise Problem(415, "unsupported", "say what the body is: send a Content-Type")

    async def _who(self, scope: Scope, headers: Mapping[str, str]) -> Who:
        if self._authorize is not None:
            found = self._authorize(Request(scope))
            who = await found if inspect.isawaitable(found) else found
            if who is None or who.role is Role.NOBODY:
                raise Problem(403, "forbidden", "the app that serves this page does not let you in here")
            return who
        if not self._logins:
            return self._local(scope, headers)
        return await self._logins.check(headers.get("authorization"), (scope.get("client") or ("", 0))[0])

    def _local(self, scope: Scope, headers: Mapping[str, str]) -> Who:
        """Without credentials: this machine, and nobody on behalf of others."""
        client = scope.get("client")
        direct = not passed_on(headers, scope.get("http_version", "1.1"))
        if client is not None and is_loopback(client[0]) and direct:
            return _LOCAL
        raise Problem(
            403,
            "closed",
            "without credentials only this machine is served, directly; set WINDLASS_WEB_READ and "
            "WINDLASS_WEB_OPERATE to name:secret pairs",
        )


class Visit:
    """One request on its way in and its answer on the way out."""

    __slots__ = ("_left", "_most", "_receive", "_send", "started")

    def __init__(self, receive: Receive, send: Send, most: int) -> None:
        self._receive = receive
        self._send = send
        self._most = most
        self._left = most
        self.started = False

    async def receive(self) -> Message:
        """The next piece of the body. Raises TooLarge, also where nobody said how long it would be."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise TooLarge(self._most)
        return message

    async def send(self, message: Message) -> None:
        """Pass on a piece of the answer; its start gets the headers that each answer carries."""
        if message["type"] == "http.response.start":
            self.started = True
            dressed(message)
        await self._send(message)


def _headers(scope: Scope) -> dict[str, str]:
    """By name. Those that decide who asks, and of whom, may be said once: others on the way may have gone by
    another one than we do."""
    found: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").lower()
        if name in found and name in ONCE:
            raise Invalid(f"the header {name} is sent twice; send it once")
        found[name] = value.decode("latin-1")
    return found


def is_api(path: str) -> bool:
    """Whether a path is the API's, which answers in JSON whatever happens."""
    return path == "/api" or path.startswith("/api/")


def path_of(scope: Scope) -> str:
    """The path below whatever prefix this app is mounted under."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(root) :] if root and path.startswith(root) else path
