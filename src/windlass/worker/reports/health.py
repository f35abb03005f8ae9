"""A tiny HTTP server for orchestrators: `/healthz` says that the process lives, `/readyz` that it can run
jobs [M6].

It answers GET and HEAD, one request a connection, and nothing else; it is meant for probes, not for people.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Final

from windlass.errors import ConfigurationError

REQUEST_TIME: Final = 5.0
REASONS: Final = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


def parse_address(text: str) -> tuple[str, int]:
    """`127.0.0.1:8080`, `[::1]:8080` or `8080`, which is on loopback."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) < 65536:
        raise ConfigurationError(f"{text!r} is no address; write HOST:PORT, such as 127.0.0.1:8080")
    return host.strip("[]") or "127.0.0.1", int(port)


class Health:
    """The server. `ready` is asked with each probe: whether jobs can be run, and what to show about it."""

    def __init__(self, ready: Callable[[], tuple[bool, dict[str, object]]]) -> None:
        self._ready = ready
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; the answer is the port, which is another one where 0 was asked for."""
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=8192)
        except OSError as error:
            raise ConfigurationError(f"the health server cannot listen on {host}:{port}: {error}") from error
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(
            OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(REQUEST_TIME):
                head = await reader.readuntil(b"\r\n\r\n")
                method, _, rest = head.decode("latin-1").partition(" ")
                code, body = self._answer(method, rest.partition(" ")[0].partition("?")[0])
                text = json.dumps(body).encode()
                writer.write(
                    f"HTTP/1.1 {code} {REASONS[code]}\r\nContent-Type: application/json\r\n"
                    f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n".encode()
                    + (b"" if method == "HEAD" else text)
                )
                await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    def _answer(self, method: str, path: str) -> tuple[int, dict[str, object]]:
        if method not in ("GET", "HEAD"):
            return 405, {"error": "only GET is answered here"}
        if path == "/healthz":
            return 200, {"status": "alive"}
        if path == "/readyz":
            ready, details = self._ready()
            return (200 if ready else 503), {"status": "ready" if ready else "not ready", **details}
        return 404, {"error": "there is /healthz and /readyz"}
