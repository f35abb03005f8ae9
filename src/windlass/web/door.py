"""The door of the server: what comes before a request is bounded: nobody has said yet who they are [M5].

    head          the bytes of a request's first line and headers      431
    arrival       the time from knocking to the end of a request       closed
    connections   how many there are at once, in all and of one address

Where there are too many connections, the one goes that has sent nothing for longest: of the same address, if
that has its share, else of all. So those who only hold connections lock nobody out. Where all of them are at
work, whoever comes may ask for the health of this process; anything else is told 503.

What a request may bring and take beyond that is the guard's to say.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from windlass.web.answers import refuse
from windlass.web.guard import OPEN
from windlass.web.origin import home_of
from windlass.web.problems import Problem

MOST_HEAD: Final = 64 * 1024
"""Bytes of a head that comes in several pieces; the first piece, of 256 KiB at most, is not counted."""
MOST_CONNECTIONS: Final = 1_000
"""In all, or half of the files that this process may open. One address may have half of that."""
SPARE: Final = 50
"""Further ones, for those who ask for health."""
ARRIVAL: Final = 15.0
"""Seconds that a request has to come in, and a new connection to send one. Between two requests there is
more time; see `timeout_keep_alive`."""
FULL: Final = "too many connections; try again"
SWEEP: Final = 10
"""Who is late is looked for at each so manieth tick of the server, of which there are ten a second."""


class Door(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._in_head = False
        self._head = 0
        self._since: float | None = None
        """Since when a request is awaited or comes in."""
        self._lately = 0.0
        """When something last came in."""
        self._home = ""
        """The address that it counts for."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody knocks."""
        super().connection_made(transport)
        self._since = self._lately = self.loop.time()
        self._home = home_of(self.client[0] if self.client else "")
        self._find_room(_most())

    def _find_room(self, most: int) -> None:
        """Where there are too many, one that is not at work goes; if all are, this one may ask for health."""
        if len(self.connections) <= most // 2:
            return
        everybody = [each for each in self.connections if isinstance(each, Door) and each is not self]
        crowd = [each for each in everybody if each._home == self._home]
        if len(crowd) < most // 2:
            if len(self.connections) <= most:
                return
            crowd = everybody
        idle = [each for each in crowd if each.idle]
        if idle:
            min(idle, key=lambda each: each._lately).transport.close()
        elif len(self.connections) > most + SPARE:
            self._turn_away(HTTPStatus.SERVICE_UNAVAILABLE, FULL, "5")
        else:
            self.app = _ForHealth(self.app)

    @property
    def idle(self) -> bool:
        """Whether it holds its place for nothing: no request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return (cycle is None or cycle.response_complete) and not self.transport.is_closing()

    def data_received(self, data: bytes) -> None:
        """Something comes in. The parser keeps a header until it is whole, so what it gets is counted."""
        was_in_head, self._lately = self._in_head, self.loop.time()
        super().data_received(data)
        if was_in_head and self._in_head:
            self._head += len(data)
            if self._head > MOST_HEAD:
                told = f"the headers may have at most {MOST_HEAD:,} bytes"
                self._turn_away(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, told)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._in_head, self._head, self._since = True, 0, self.loop.time()

    def on_headers_complete(self) -> None:
        """Its head is whole."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """All of it is here."""
        self._since = None
        super().on_message_complete()

    def hang_up_if_late(self, now: float) -> None:
        """Close the connection where a request takes too long to come in."""
        if self._since is not None and now - self._since > ARRIVAL and not self.transport.is_closing():
            self.transport.close()

    def _turn_away(self, status: HTTPStatus, told: str, retry_after: str = "") -> None:
        if self.transport.is_closing():
            return
        text = f"{told}\n".encode()
        head = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            "content-type: text/plain; charset=utf-8",
            f"content-length: {len(text)}",
            *([f"retry-after: {retry_after}"] if retry_after else []),
            "connection: close",
        ]
        self.transport.write("\r\n".join([*head, "", ""]).encode() + text)
        self.transport.close()


class _ForHealth:
    """The app as it is for those who found no room: what anybody may ask, and once."""

    def __init__(self, app: Any) -> None:
        self._app: ASGIApp = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def last(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        if scope["path"] in OPEN:
            await self._app(scope, receive, last)
        else:
            await refuse(last, Problem(503, "busy", FULL, retry_after=5.0), as_json=False)


def _most() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if files == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, files // 2)


def sweep(connections: Iterable[object], now: float) -> None:
    """Hang up on all who are late."""
    for each in list(connections):
        if isinstance(each, Door):
            each.hang_up_if_late(now)
