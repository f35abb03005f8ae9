"""The door of the server: what comes before a request is bounded: nobody has said yet who they are [M5].

    head          the bytes of a request's first line and headers      431
    arrival       the time from knocking to the end of a request       closed
    connections   how many there are at once                           503

What a request may bring and take beyond that is the guard's to say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD: Final = 64 * 1024
"""Bytes of a head that comes in several pieces; the first piece, of 256 KiB at most, is not counted."""
MOST_CONNECTIONS: Final = 1_000
ARRIVAL: Final = 15.0
"""Seconds that a request has to come in, and a new connection to send one. Between two requests there is
more time; see `timeout_keep_alive`."""
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

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody knocks."""
        super().connection_made(transport)
        self._since = self.loop.time()
        if len(self.connections) > MOST_CONNECTIONS:
            self._turn_away(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections; try again", "5")

    def data_received(self, data: bytes) -> None:
        """Something comes in. The parser keeps a header until it is whole, so what it gets is counted."""
        was_in_head = self._in_head
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


def sweep(connections: Iterable[object], now: float) -> None:
    """Hang up on all who are late."""
    for each in list(connections):
        if isinstance(each, Door):
            each.hang_up_if_late(now)
