"""What the web's tests hold in their hands: clients of every role, a real server, and ways to bring a store
into a state."""

import base64
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import uvicorn

from tests.cli.kit import RealTime
from tests.conformance.kit import Rig
from windlass import Windlass

READ = "viewer:look-at-this"
OPERATE = "driver:do-as-i-say"


def bearer(pair: str) -> dict[str, str]:
    """The secret of a pair as a token."""
    return {"authorization": f"Bearer {pair.partition(':')[2]}"}


def basic(pair: str) -> dict[str, str]:
    """A pair as HTTP Basic."""
    return {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


HEADERS_OF: dict[str, dict[str, str]] = {"nobody": {}, "read": bearer(READ), "operate": bearer(OPERATE)}


@contextlib.asynccontextmanager
async def visiting(
    app: Windlass, *, client: str = "127.0.0.1", headers: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an app's web, without a network between them."""
    transport = httpx.ASGITransport(app=app.web(**options), client=(client, 4711))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", headers=headers
    ) as visitor:
        yield visitor


@contextlib.asynccontextmanager
async def rigged(app: Windlass) -> AsyncIterator[Rig]:
    """The store of an app, with a worker's hands."""
    async with app._store_handle().here() as store:
        yield Rig(store, RealTime(), "web")


@contextlib.contextmanager
def served(app: Windlass, **options: Any) -> Iterator[str]:
    """The web of an app on a real server in a thread; yields its address."""
    server = uvicorn.Server(
        uvicorn.Config(app.web(**options), log_config=None, timeout_graceful_shutdown=1, lifespan="on")
    )
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()  # who comes before the server is up waits
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
