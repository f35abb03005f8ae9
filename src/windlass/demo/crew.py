"""The worker processes of the demo: one `windlass worker` with three children, and the blow that ends one.

The settings of whoever runs the demo are kept from them: they must not serve other queues, nor another
database. Only processes that registered in the demo's own store are ever killed, and those are its own.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from windlass.core.states import State
from windlass.demo.app import CHUNK, QUEUE
from windlass.demo.table import SCHEMA
from windlass.errors import StoreUnavailable
from windlass.store.protocol import Store
from windlass.store.records import PartRecord, WorkerRecord

WORKERS: Final = 3
LEAVE: Final = 20.0
LOOK: Final = 0.1
"""Seconds between two looks at the store."""
SETTLE: Final = 0.1
"""Seconds after which a commit that a stopped process had sent to a server is there, or never will be."""
LATEST: Final = 0.8
"""The share of a part beyond which it is not worth killing its worker."""


class Killed(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that was killed, and what it held."""

    part: int
    worker: str
    """Its id: text, since it goes into JSON."""
    process: int
    label: str
    checkpoint: int
    """Records of the part that were safe."""


class Crew:
    """The processes of one play."""

    def __init__(self, supervisor: subprocess.Popen[bytes], log: Path) -> None:
        self._supervisor = supervisor
        self._log = log

    def check(self) -> None:
        """Raise where they have left before their time."""
        code = self._supervisor.poll()
        if code is not None:
            message = self._log.read_text("utf-8", "replace")[-1500:]
            raise StoreUnavailable(f"the workers have left with exit code {code}. They said: {message}")

    async def ready(self, store: Store) -> None:
        """Return when each of them has its slot: the first one up would take three parts at once."""
        while True:
            self.check()
            alive = [worker.id for worker in await store.workers() if worker.alive]
            slots = (await store.cluster_view(alive)).slots
            if len(alive) == WORKERS and all(slots.get(worker, {}).get(QUEUE) == 1 for worker in alive):
                return
            await asyncio.sleep(LOOK)

    def stop(self) -> None:
        """Stop them in good order: what runs is handed back."""
        if self._supervisor.poll() is not None:
            return
        self._supervisor.send_signal(signal.SIGTERM)
        try:
            self._supervisor.wait(LEAVE)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()  # its children leave when they hear no more of it
            self._supervisor.wait()


@asynccontextmanager
async def crew(url: str, folder: Path, chunk: int) -> AsyncIterator[Crew]:
    """Three worker processes, which are gone when the block has ended."""
    log = folder / "worker.log"
    flags = ["-q", f"{QUEUE}={WORKERS}", "-p", str(WORKERS), "--log-level", "warning"]
    with log.open("ab") as errors:
        started = subprocess.Popen(  # noqa: S603, ASYNC220 - our own program
            [sys.executable, "-m", "windlass", "worker", "windlass.demo.app:app", *flags],
            cwd=folder,  # no pyproject.toml of somebody else's
            env=_environment(url, chunk),
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
        )
    found = Crew(started, log)
    try:
        yield found
    finally:
        await asyncio.shield(asyncio.to_thread(found.stop))


def _environment(url: str, chunk: int) -> dict[str, str]:
    mine = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("WINDLASS_") and key != "DATABASE_URL"
    }
    return mine | {
        "WINDLASS_DATABASE_URL": url,
        "WINDLASS_SCHEMA": SCHEMA,
        "WINDLASS_SHUTDOWN": "1s",
        CHUNK: str(chunk),
    }


async def strike(store: Store, parts: list[PartRecord]) -> Killed | None:
    """Kill a worker in the middle of a part; None where there is none just now.

    It is stopped first, so that its part cannot go on between the look and the blow: what is told of the
    checkpoint is then true to the record."""
    workers = {worker.id: worker for worker in await store.workers() if worker.alive}
    middles = sorted(filter(_is_in_the_middle, parts), key=lambda part: abs(part.done / part.size - 0.5))
    for part in middles:
        worker = await _holder(store, part, workers)
        if worker is None or not _send(worker.pid, signal.SIGSTOP):
            continue
        blow = signal.SIGCONT
        try:
            await asyncio.sleep(SETTLE)
            (now,) = await store.parts(part.parent, start=part.index, limit=1)
            if _is_in_the_middle(now) and await _holder(store, now, workers) == worker:
                blow = signal.SIGKILL
        finally:
            _send(worker.pid, blow)
        if blow is signal.SIGKILL:
            return Killed(
                part=now.index,
                worker=str(worker.id),
                process=worker.pid,
                label=worker.label,
                checkpoint=now.records,
            )
    return None


def _is_in_the_middle(part: PartRecord) -> bool:
    return part.state is State.RUNNING and part.records > 0 and part.done <= part.size * LATEST


async def _holder(store: Store, part: PartRecord, workers: dict[int, WorkerRecord]) -> WorkerRecord | None:
    """The worker that runs this part."""
    job = None if part.job is None else await store.job(part.job)
    return None if job is None or job.worker is None else workers.get(job.worker)


def _send(process: int, number: signal.Signals) -> bool:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return False
    return True
