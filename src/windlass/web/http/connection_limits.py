"""Limits on connections, before a request is complete and anybody is authenticated [M5].

    head          bytes of a request's first line and headers                431
    arrival       time from the connection to the end of its request         closed
    reading       time in which a client takes nothing of its answer         closed
    connections   how many there are at once, in all and per address

Where there are too many, the connection that has been silent longest is closed: of the same address if that
has its share, else of all. So nobody can lock others out by holding connections. Where all of them are busy,
a new one may ask for the health of this process; anything else gets a 503.

The guard limits what a request may bring and how long it may take.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from windlass.web.http.answers import refuse
from windlass.web.http.guard import OPEN
from windlass.web.http.origin import network_of
from windlass.web.http.problems import Problem

MAX_HEAD: Final = 64 * 1024
"""Bytes of a head that arrives in several pieces; the first piece, at most 256 KiB, is not counted."""
MAX_CONNECTIONS: Final = 1_000
"""In all; fewer where this process may open fewer than twice as many files. One address may have half."""
SPARE: Final = 50
"""More of them, for health checks."""
ARRIVAL: Final = 15.0
"""Seconds that a request has to arrive, and a new connection to send one. Between two requests there is more
time; see `timeout_keep_alive`."""
READING: Final = 30.0
"""Seconds after which a client that has taken nothing of what waits for it is given up."""
FULL: Final = "too many connections; try again"
SWEEP: Final = 10
"""Ticks of the server, of which there are ten a second, between two searches for late connections."""


class LimitedConnection(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._in_head = False
        self._head = 0
        self._since: float | None = None
        """Since when a request is awaited or arriving."""
        self._lately = 0.0
        """When something last arrived."""
        self._network = ""
        """The network it counts for; see `network_of`."""
        self._unread = 0
        """Bytes of its answers that waited for the client at the last look."""
        self._read = 0.0
        """When there last were none, or fewer than before."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        self._since = self._lately = self._read = self.loop.time()
        self._network = network_of(self.client[0] if self.client else "")
        self._make_room(_max_connections())

    def _make_room(self, most: int) -> None:
        """Where there are too many, close an idle one. If all are busy, this one may only ask for health."""
        if len(self.connections) <= most // 2:
            return
        others = [
            each for each in self.connections if isinstance(each, LimitedConnection) and each is not self
        ]
        crowd = [each for each in others if each._network == self._network]
        if len(crowd) < most // 2:
            if len(self.connections) <= most:
                return
            crowd = others
        idle = [each for each in crowd if each.idle]
        if idle:
            min(idle, key=lambda each: each._lately).transport.close()
        elif len(self.connections) > most + SPARE:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, FULL, "5")
        else:
            self.app = _HealthOnly(self.app)

    @property
    def idle(self) -> bool:
        """Return whether no request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return (cycle is None or cycle.response_complete) and not self.transport.is_closing()

    def data_received(self, data: bytes) -> None:
        """Data arrives. The parser buffers a header until it is complete, so its bytes are counted here."""
        was_in_head, self._lately = self._in_head, self.loop.time()
        super().data_received(data)
        if was_in_head and self._in_head:
            self._head += len(data)
            if self._head > MAX_HEAD:
                message = f"the headers may have at most {MAX_HEAD:,} bytes"
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, message)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._in_head, self._head, self._since = True, 0, self.loop.time()

    def on_headers_complete(self) -> None:
        """Its head is complete."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """All of it has arrived."""
        self._since = None
        super().on_message_complete()

    def close_if_late(self, now: float) -> None:
        """Close the connection where a request takes too long to arrive, or the client does not read."""
        if self._since is not None and now - self._since > ARRIVAL and not self.transport.is_closing():
            self.transport.close()
        before, self._unread = self._unread, self.transport.get_write_buffer_size()
        if not self._unread or self._unread < before:
            self._read = now
        elif now - self._read > READING:
            self.transport.abort()  # closing would wait until all is read

    def _refuse(self, status: HTTPStatus, message: str, retry_after: str = "") -> None:
        if self.transport.is_closing():
            return
        text = f"{message}\n".encode()
        head = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            "content-type: text/plain; charset=utf-8",
            f"content-length: {len(text)}",
            *([f"retry-after: {retry_after}"] if retry_after else []),
            "connection: close",
        ]
        self.transport.write("\r\n".join([*head, "", ""]).encode() + text)
        self.transport.close()


class _HealthOnly:
    """The app for connections beyond the limit: health checks only, one request each."""

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


def _max_connections() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if files == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, files // 2)


def close_late(connections: Iterable[object], now: float) -> None:
    """Close all connections that are late."""
    for each in list(connections):
        if isinstance(each, LimitedConnection):
            each.close_if_late(now)
