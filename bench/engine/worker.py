"""A real `windlass worker` with its children, started and stopped by the benchmark."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import psutil

from bench.engine.jobs import QUEUE
from bench.meters import family_cpu, peak_memory
from bench.servers import ROOT
from windlass.errors import StoreError
from windlass.store.protocol import Store

APP: Final = "bench.engine.jobs:app"
SLOTS: Final = 64
START_TIME: Final = 60.0
SETTLE: Final = 1.5
"""Seconds after which every child knows its slots."""


class Worker:
    """The processes of one `windlass worker`."""

    def __init__(self, supervisor: int) -> None:
        self._supervisor = psutil.Process(supervisor)
        self.pids: list[int] = []
        """Of the children."""

    def family(self) -> list[int]:
        """The supervisor and all that it has started."""
        found = [self._supervisor, *self._supervisor.children(recursive=True)]
        return [process.pid for process in found]

    def cpu(self) -> float:
        """CPU seconds of the supervisor and its children."""
        return family_cpu(self._supervisor)

    def peak_memory(self) -> list[float]:
        """The most bytes that each child ever had."""
        return [float(peak_memory(pid)) for pid in self.pids]


@asynccontextmanager
async def worker(
    store: Store, environment: Mapping[str, str], processes: int, app: str = APP
) -> AsyncIterator[Worker]:
    """A supervisor with so many children, up for a while; drained when the block ends."""
    await store.set_queue(QUEUE, {"max_workers": SLOTS * processes})
    words = ["worker", app, "-q", QUEUE, "-p", str(processes), "--log-level", "warning"]
    started = subprocess.Popen(  # noqa: ASYNC220 - it is there in a moment
        [sys.executable, "-m", "windlass", *words],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
    )
    try:
        found = Worker(started.pid)
        await _up(store, found, started, processes)
        yield found
    finally:
        started.send_signal(signal.SIGTERM)
        await asyncio.to_thread(started.wait)


async def _up(store: Store, worker: Worker, started: subprocess.Popen[bytes], processes: int) -> None:
    until = time.monotonic() + START_TIME
    while True:
        up = [each for each in await store.workers() if each.alive and QUEUE in each.queues]
        if len(up) >= processes:
            break
        if started.poll() is not None or time.monotonic() > until:
            raise StoreError("the worker did not start; its own words are above")
        await asyncio.sleep(0.05)
    worker.pids += [each.pid for each in up]
    await asyncio.sleep(SETTLE)
