"""A real `windlass worker` with its children, started and stopped by the benchmark."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from windlass.bench.jobs import NOTES, QUEUE
from windlass.bench.meters import process_cpu
from windlass.errors import StoreError
from windlass.store.protocol import Store

SLOTS: Final = 64
START_TIME: Final = 30.0
SETTLE: Final = 1.5
"""Seconds after which every child knows its slots."""


class Crew:
    """The processes of one run. `notes` is what their handlers noted, once they have left."""

    def __init__(self, supervisor: int) -> None:
        self.pids: list[int] = [supervisor]
        self.notes: list[float] = []

    def cpu(self) -> float:
        """CPU seconds of the supervisor and its children."""
        return sum(process_cpu(pid) or 0.0 for pid in self.pids)

    def read_notes(self, folder: Path) -> None:
        """Take over what the handlers wrote down."""
        for path in folder.glob("*.waits"):
            self.notes += map(float, path.read_text(encoding="ascii").split())


@asynccontextmanager
async def crew(store: Store, environment: Mapping[str, str], processes: int) -> AsyncIterator[Crew]:
    """A supervisor with so many children, up and idle; drained when the block ends."""
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        await store.set_queue(QUEUE, {"max_workers": SLOTS * processes})
        argv = ["-m", "windlass", "worker", "windlass.bench.jobs:app", "-q", QUEUE, "-p", str(processes)]
        started = subprocess.Popen(  # noqa: S603, ASYNC220 - our own program
            [sys.executable, *argv, "--log-level", "warning"],
            env={**os.environ, **environment, NOTES: folder},
            stdin=subprocess.DEVNULL,
        )
        found = Crew(started.pid)
        try:
            await _up(store, found, started, processes)
            yield found
        finally:
            started.send_signal(signal.SIGTERM)
            await asyncio.to_thread(started.wait)
            found.read_notes(Path(folder))


async def _up(store: Store, crew: Crew, started: subprocess.Popen[bytes], processes: int) -> None:
    until = time.monotonic() + START_TIME
    while True:
        up = [worker for worker in await store.workers() if worker.alive and QUEUE in worker.queues]
        if len(up) >= processes:
            break
        if started.poll() is not None or time.monotonic() > until:
            raise StoreError("the worker did not start; its own words are above")
        await asyncio.sleep(0.05)
    crew.pids += [worker.pid for worker in up]
    await asyncio.sleep(SETTLE)
