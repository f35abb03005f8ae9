"""Mission Control during the demo: served from a thread of its own, on the loopback, on a port that is free.

It looks at the store as any viewer does; nothing of the play depends on it. Without the extra `web` the demo
goes on without it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from windlass.app import Windlass
from windlass.errors import StoreUnavailable

HOST: Final = "127.0.0.1"
START_TIME: Final = 15.0
MISSING: Final = "no Mission Control here, since the extra is not installed: pip install 'windlass[web]'"


@contextmanager
def serving(app: Windlass) -> Iterator[str | None]:
    """Serve the app's store while the block lasts; yields the address, or None without the extra."""
    try:
        from windlass.web.http.serving import make_server
    except ImportError:
        yield None
        return
    server = make_server(app, HOST, 0)
    thread = threading.Thread(target=server.run, name="windlass-demo-web", daemon=True)
    thread.start()
    try:
        yield _address(server, thread)
    finally:
        server.should_exit = True
        thread.join()


def _address(server: Any, thread: threading.Thread) -> str:
    """Where it listens, once it does."""
    until = time.monotonic() + START_TIME
    while not server.started:  # it has no event to wait for
        if not thread.is_alive() or time.monotonic() > until:
            raise StoreUnavailable("Mission Control did not start; try `windlass web` to see why")
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    return f"http://{HOST}:{port}/"
