"""A real `windlass web` on the loopback, started and stopped by the benchmark."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from bench.engine.web.client import Line, get
from bench.engine.worker import APP
from bench.servers import ROOT
from windlass.errors import ConfigurationError, StoreError

HOST: Final = "127.0.0.1"
HEALTH: Final = "/healthz"
START_TIME: Final = 30.0
LEAVE: Final = 10.0


def require_web() -> None:
    """Raise ConfigurationError where the extra is not installed."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise ConfigurationError("this needs a web server to measure: pip install -e '.[bench]'") from None


@asynccontextmanager
async def web_server(environment: Mapping[str, str]) -> AsyncIterator[int]:
    """A server that answers, on the port that is yielded; gone when the block ends. Credentials of whoever
    runs the benchmark are kept from it: without any it serves the loopback."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    theirs = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_WEB")}
    started = subprocess.Popen(  # noqa: ASYNC220 - our own program
        [
            sys.executable,
            "-m",
            "windlass",
            "web",
            "--app",
            APP,
            "--host",
            HOST,
            "--port",
            str(port),
        ],
        cwd=ROOT,
        env={**theirs, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        await _up(started, port)
        yield port
    finally:
        started.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(started.wait, LEAVE)
        except subprocess.TimeoutExpired:
            started.kill()
            await asyncio.to_thread(started.wait)


async def _up(started: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + START_TIME
    while started.poll() is None and time.monotonic() < until:
        try:
            line = await Line.open(HOST, port)
            if (await line.ask(get(HEALTH))).status == 200:
                line.close()
                return
        except ConnectionError:
            pass  # not yet
        await asyncio.sleep(0.05)
    raise StoreError("the web server did not start; its own words are above")
