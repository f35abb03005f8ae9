"""Serving Mission Control from this process: one server on one loop, and its orderly shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import uvicorn

from windlass.errors import ConfigurationError, StoreUnavailable
from windlass.web.api.stream import LONG
from windlass.web.app import make_web
from windlass.web.http import connection_limits
from windlass.web.http.origin import is_loopback

if TYPE_CHECKING:
    from windlass.app import Windlass

logger: Final = logging.getLogger("windlass.web")
SHUTDOWN_TIME: Final = 3
"""Seconds that requests under way have to end when the server stops."""


class Server(uvicorn.Server):
    """A server for which a signal to stop is no failure. It closes connections that send no request, and ends
    streams, which would not end by themselves, before it waits for requests."""

    def __init__(self, config: uvicorn.Config, on_shutdown: Callable[[], None] = lambda: None) -> None:
        super().__init__(config)
        self._on_shutdown = on_shutdown

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        if counter % connection_limits.SWEEP == 0:
            connection_limits.close_late(self.server_state.connections, asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop."""
        self._on_shutdown()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals that stop it while it serves. They are not raised again afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


def check_exposure(host: str, credentials: Iterable[str]) -> None:
    """Refuse to listen on an address that others can reach without credentials [M5]."""
    if not is_loopback(host) and not any(credentials):
        raise ConfigurationError(
            f"other machines can reach {host}, and no credentials are set: set WINDLASS_WEB_OPERATE and "
            "WINDLASS_WEB_READ to name:secret pairs, or listen on 127.0.0.1"
        )


def make_server(app: Windlass, host: str, port: int, hosts: Sequence[str] = ()) -> Server:
    """A server, not started yet, with the credentials and hosts of the app's settings. `hosts` are further
    names to answer for. Raises ConfigurationError where anybody could use it."""
    settings = app.settings
    check_exposure(host, (*settings.web_read, *settings.web_operate))
    web = make_web(
        app,
        read=settings.web_read,
        operate=settings.web_operate,
        hosts=(*settings.web_hosts, *hosts, host),
        stream=LONG,
    )
    return Server(
        uvicorn.Config(
            web,
            host=host,
            port=port,
            access_log=False,
            log_config=None,
            log_level="warning",
            proxy_headers=False,  # the guard needs the real address of the client
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=SHUTDOWN_TIME,
            timeout_keep_alive=30,
            http=connection_limits.LimitedConnection,
            ws="none",
        ),
        on_shutdown=web.state.end_streams,
    )


async def serve(server: uvicorn.Server, app: Windlass, ready: Callable[[], None]) -> None:
    """Serve until told to stop. `ready` is called once it listens."""

    async def announce() -> None:
        while not server.started:  # noqa: ASYNC110 - it offers no event
            await asyncio.sleep(0.01)
        ready()

    announcing = asyncio.create_task(announce())
    try:
        try:
            async with app:
                await server.serve()
        except StoreUnavailable as error:
            if server.started:
                raise
            logger.warning("the store is away, serving anyway: %s", error)
            await server.serve()
    finally:
        announcing.cancel()
