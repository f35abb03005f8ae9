"""Serving Mission Control from this process: one server on one loop, which ends in good order."""

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
from windlass.web import door
from windlass.web.api.stream import LONG
from windlass.web.app import make_web
from windlass.web.origin import is_loopback

if TYPE_CHECKING:
    from windlass.app import Windlass

logger = logging.getLogger("windlass.web")
FAREWELL: Final = 3
"""Seconds that requests under way have to end once the server is told to stop."""


class Server(uvicorn.Server):
    """A server that takes a signal for what it is: being told to stop is no failure. It hangs up on those who
    never ask, and has streams, which would never end by themselves, end before it waits for requests."""

    def __init__(self, config: uvicorn.Config, farewell: Callable[[], None] = lambda: None) -> None:
        super().__init__(config)
        self._farewell = farewell

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        if counter % door.SWEEP == 0:
            door.sweep(self.server_state.connections, asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Told to stop."""
        self._farewell()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """While it serves, the signals that end it are its own; once it has stopped they are not raised
        again."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


def check_door(host: str, credentials: Iterable[str]) -> None:
    """Refuse to listen where strangers could come in, with nobody to be told apart from them [M5]."""
    if not is_loopback(host) and not any(credentials):
        raise ConfigurationError(
            f"{host} can be reached from elsewhere, and no credentials are set: set WINDLASS_WEB_OPERATE and "
            "WINDLASS_WEB_READ to name:secret pairs, or listen on 127.0.0.1"
        )


def make_server(app: Windlass, host: str, port: int, hosts: Sequence[str] = ()) -> Server:
    """A server, not started yet, with the credentials and hosts of the app's settings. `hosts` are further
    names to answer for. Raises ConfigurationError where it would be open to anybody."""
    settings = app.settings
    check_door(host, (*settings.web_read, *settings.web_operate))
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
            proxy_headers=False,  # the guard wants to know who really connects
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=FAREWELL,
            timeout_keep_alive=30,
            http=door.Door,
            ws="none",
        ),
        farewell=web.state.end_streams,
    )


async def serve(server: uvicorn.Server, app: Windlass, ready: Callable[[], None]) -> None:
    """Serve until told to stop. `ready` is called when the door is open."""

    async def tell() -> None:
        while not server.started:  # noqa: ASYNC110 - it offers no event
            await asyncio.sleep(0.01)
        ready()

    telling = asyncio.create_task(tell())
    try:
        try:
            async with app:
                await server.serve()
        except StoreUnavailable as error:
            if server.started:
                raise
            logger.warning("the store cannot be reached yet (%s); serving all the same", type(error).__name__)
            await server.serve()
    finally:
        telling.cancel()
