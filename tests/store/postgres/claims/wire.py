"""A client that stops reading: PostgreSQL's protocol on a bare socket, as far as one statement needs it."""

import asyncio
import socket
import struct
from types import TracebackType
from typing import Self
from urllib.parse import unquote, urlsplit


class Wire:
    """A connection that sends a statement and never reads what comes back."""

    def __init__(self, dsn: str) -> None:
        url = urlsplit(dsn)
        self._user, self._password = url.username or "", unquote(url.password or "")
        self._database = url.path.lstrip("/")
        self._socket = socket.socket()
        # A small window, so that the server has to stop soon; it must be set before the connection is made.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.connect((url.hostname, url.port))
        self.pid = 0

    @classmethod
    async def connect(cls, dsn: str) -> Self:
        """Log in with a plain password, as the harness's servers ask for."""
        wire = cls(dsn)
        await asyncio.to_thread(wire._log_in)
        return wire

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, sql: str) -> None:
        """Send a statement."""
        self._message(b"Q", sql.encode() + b"\0")

    def _log_in(self) -> None:
        words = ("user", self._user, "database", self._database, "")
        body = struct.pack("!I", 3 << 16) + b"".join(word.encode() + b"\0" for word in words)
        self._socket.sendall(struct.pack("!I", len(body) + 4) + body)
        while True:
            kind, body = self._answer()
            if kind == b"R" and struct.unpack("!I", body[:4]) == (3,):
                self._message(b"p", self._password.encode() + b"\0")
            elif kind == b"K":
                (self.pid,) = struct.unpack("!I", body[:4])
            elif kind == b"Z":
                return
            elif kind == b"E":
                raise ConnectionRefusedError(body.decode())

    def _message(self, kind: bytes, body: bytes) -> None:
        self._socket.sendall(kind + struct.pack("!I", len(body) + 4) + body)

    def _answer(self) -> tuple[bytes, bytes]:
        kind, length = struct.unpack("!cI", self._exactly(5))
        return kind, self._exactly(length - 4)

    def _exactly(self, n: int) -> bytes:
        data = b""
        while len(data) < n:
            part = self._socket.recv(n - len(data))
            if not part:
                raise ConnectionAbortedError("the server hung up")
            data += part
        return data
