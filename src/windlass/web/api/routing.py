"""From method and path to an endpoint and its answer. Paths without a name in them are found in one step:
programs that enqueue thousands of jobs a second come through here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.operations.budgets import budgets
from windlass.operations.bulk import bulk
from windlass.operations.events import events
from windlass.operations.groups import groups
from windlass.operations.jobs import jobs
from windlass.operations.measures import measures
from windlass.operations.new_jobs import new_jobs
from windlass.operations.overview import overview
from windlass.operations.parents import parents
from windlass.operations.queues import queues
from windlass.operations.schedules import schedules
from windlass.operations.signals import signals
from windlass.operations.store_health import store_health
from windlass.operations.tasks import tasks
from windlass.operations.workers import workers
from windlass.web.api.derived import endpoints
from windlass.web.api.endpoint import Call, Endpoint, query_of, read_body
from windlass.web.http.answers import answer, encode, problem_body, problem_headers
from windlass.web.http.guard import PRINCIPAL, path_of
from windlass.web.http.problems import NotFound, Problem, problem_of
from windlass.web.service.service import Service

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *endpoints(new_jobs),
    *endpoints(jobs),
    *endpoints(bulk),
    *endpoints(queues),
    *endpoints(tasks),
    *endpoints(parents),
    *endpoints(groups),
    *endpoints(schedules),
    *endpoints(signals),
    *endpoints(budgets),
    *endpoints(overview),
    *endpoints(workers),
    *endpoints(events),
    *endpoints(measures),
    *endpoints(store_health),
)
PREFIX: Final = "/api"
READS: Final = ("GET", "HEAD")
_PIECE: Final = re.compile(r"\\{(\w+)\\}")


class Gone(Exception):
    """The client closed the connection before it had sent everything."""


class Api:
    """The endpoints, below /api, and what `others` show there: whole apps by their path. Everything else is
    the app's behind it. It stands before the router: to walk through that costs more than all that is done
    here."""

    def __init__(self, app: ASGIApp, *, service: Service, others: Mapping[str, ASGIApp]) -> None:
        self._app = app
        self._service = service
        self._others = [(_pattern(path), other) for path, other in others.items()]
        self._plain: dict[str, dict[str, Endpoint]] = {}
        self._named: dict[re.Pattern[str], dict[str, Endpoint]] = {}
        self._decoders: dict[int, msgspec.json.Decoder[Any]] = {}
        for endpoint in ENDPOINTS:
            self._add(endpoint)

    def _add(self, endpoint: Endpoint) -> None:
        if endpoint.body is not None:
            self._decoders[id(endpoint)] = msgspec.json.Decoder(endpoint.body)
        if "{" not in endpoint.path:
            self._plain.setdefault(endpoint.path, {})[endpoint.method] = endpoint
            return
        self._named.setdefault(_pattern(endpoint.path), {})[endpoint.method] = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = path_of(scope) if scope["type"] == "http" else ""
        if not path.startswith(PREFIX + "/"):
            await self._app(scope, receive, send)
            return
        path = path.removeprefix(PREFIX)
        other = self._other(path) if scope["method"] in READS else None
        if other is not None:
            await other(scope, receive, send)
            return
        await self._answer(path, scope, receive, send)

    async def _answer(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            endpoint, names = self._find(scope["method"], path)
            scope[PRINCIPAL].require(endpoint.role)  # before its body is read; the action checks it again
            call = Call(
                self._service,
                scope[PRINCIPAL],
                names,
                query_of(endpoint, scope["query_string"]),
                await self._body(endpoint, scope, receive),
            )
            body = encode(await endpoint.handler(call))
        except Gone:
            return
        except Exception as error:  # noqa: BLE001 - each becomes an answer of its own
            problem = problem_of(error, safe=scope["method"] in READS)
            headers = problem_headers(problem)
            if isinstance(error, NotAllowed):
                headers.append((b"allow", error.allowed.encode()))
            await answer(send, problem.status, problem_body(problem), headers=headers)
        else:
            await answer(send, endpoint.status, body)

    def _find(self, method: str, path: str) -> tuple[Endpoint, dict[str, str]]:
        methods = self._plain.get(path)
        names: dict[str, str] = {}
        if methods is None:
            for pattern, found in self._named.items():
                if match := pattern.fullmatch(path):
                    methods, names = found, match.groupdict()
                    break
        if methods is None and self._other(path) is not None:
            raise NotAllowed(method, READS)
        if methods is None:
            raise NotFound("there is no such endpoint; /api/openapi.json lists them all")
        endpoint = methods.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            raise NotAllowed(method, methods)
        return endpoint, names

    def _other(self, path: str) -> ASGIApp | None:
        return next((other for pattern, other in self._others if pattern.fullmatch(path)), None)

    async def _body(self, endpoint: Endpoint, scope: Scope, receive: Receive) -> Any:
        if endpoint.body is None:
            return None
        kind = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
        decoder, body = self._decoders[id(endpoint)], await read_all(receive)
        if not body and not endpoint.needs_body:
            return decoder.decode(b"{}")
        return read_body(decoder, kind.decode("latin-1"), body)


def _pattern(path: str) -> re.Pattern[str]:
    """Return the pattern of the paths that a path with {names} in it stands for."""
    return re.compile(_PIECE.sub(r"(?P<\1>[^/]+)", re.escape(path)))


class NotAllowed(Problem):
    """The path exists, but not for this method."""

    def __init__(self, method: str, allowed: Iterable[str]) -> None:
        self.allowed: Final = ", ".join(allowed)
        super().__init__(405, "method_not_allowed", f"{method[:20]} is not for this; {self.allowed} is")


async def read_all(receive: Receive) -> bytes:
    """The whole body. Raises Gone when the client has disconnected."""
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        body: bytes = message.get("body", b"")
        return body
    pieces = []
    while True:
        if message["type"] == "http.disconnect":
            raise Gone
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(pieces)
        message = await receive()
