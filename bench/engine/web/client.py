"""A bare HTTP/1.1 client on one kept connection: so little of it that the server is what is measured.

It sends a request, waits for the whole answer, and may then send the next. It trusts the server: this is no
client for the world.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple, cast

_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"\r\ncontent-length:"
_LAST_CHUNK: Final = b"0\r\n\r\n"


class Answer(NamedTuple):
    """What came back."""

    status: int
    body: bytes


class Line(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._held = bytearray()
        self._waiting: asyncio.Future[Answer] | None = None
        self._streams = False
        self.received = 0
        """Messages of a stream so far."""

    @classmethod
    async def open(cls, host: str, port: int) -> Line:
        """Connect."""
        _, line = await asyncio.get_running_loop().create_connection(cls, host, port)
        return line

    async def ask(self, request: bytes) -> Answer:
        """Send a request and wait for its answer. Raises ConnectionError."""
        assert self._transport is not None
        assert self._waiting is None
        if self._transport.is_closing():
            raise ConnectionResetError("the server has closed the connection")
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await self._waiting
        finally:
            self._waiting = None

    def listen(self, request: bytes) -> None:
        """Ask for a stream of events, and count what comes until the connection is closed."""
        assert self._transport is not None
        self._streams = True
        self._transport.write(request)

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own does not derive from it

    def connection_lost(self, error: Exception | None) -> None:
        """See asyncio."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error or ConnectionResetError("the server hung up"))

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        if self._streams:
            self.received += data.count(b"\ndata:")
            return
        self._held += data
        answer = _read(self._held)
        if answer is not None and self._waiting is not None and not self._waiting.done():
            self._held.clear()
            self._waiting.set_result(answer)


def get(path: str, accept: str = "*/*") -> bytes:
    """A request for a page or a call."""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: {accept}\r\n\r\n".encode()


def post(path: str, body: bytes) -> bytes:
    """A request that sends JSON."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _read(held: bytearray) -> Answer | None:
    """The answer, once all of it is there."""
    end = held.find(_END)
    if end < 0:
        return None
    head, body = bytes(held[:end]).lower() + b"\r\n", held[end + len(_END) :]
    status = int(head[9:12])
    found = head.find(_LENGTH)
    if found >= 0:
        start = found + len(_LENGTH)
        whole = len(body) >= int(head[start : head.index(b"\r\n", start)])
    else:
        whole = status in (204, 304) or body.endswith(_LAST_CHUNK)
    return Answer(status, bytes(body)) if whole else None
