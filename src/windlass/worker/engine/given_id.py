"""Registering under an id that was given: at most one live worker has it [K13].

Where another one has it, three things are possible. Its process has ended on this machine: it is declared
dead, and nobody waits for its lease. It sends heartbeats: this worker is refused. Neither can be told: its
heartbeats are watched, for a lease at most, until one comes or none can come any more.
"""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime
from typing import Final

from windlass.core.retry import DeathPolicy
from windlass.errors import ConfigurationError, WorkerIdTaken
from windlass.store.protocol import Store
from windlass.store.records import WorkerInfo, WorkerRecord
from windlass.worker.engine.process_key import is_gone

logger: Final = logging.getLogger("windlass.worker")
LOOK_EVERY: Final = 0.2


class GivenId:
    """The worker that has the id, as it was seen from one try to the next."""

    def __init__(self, store: Store, policy: DeathPolicy) -> None:
        self._store = store
        self._policy = policy
        self._own: set[int] = set()
        """The numbers that it has tried: one may be registered though no answer came."""
        self._seen: tuple[int, int] | None = None
        """The holder and its heartbeat, when it was first seen to stand there."""
        self._since = 0.0

    async def register(self, info: WorkerInfo) -> None:
        """Register, once the id is free. Raises ConfigurationError where another live worker has it."""
        self._own.add(info.id)
        while True:
            try:
                await self._store.register(info)
            except WorkerIdTaken as taken:
                await self._free(info, taken.worker)
            else:
                self._seen = None
                return

    async def _free(self, info: WorkerInfo, worker: int | None) -> None:
        if worker in self._own:  # itself, before the store was away: nobody need wait for that one's lease
            await self._store.retire(worker)
            return
        holder = next((known for known in await self._store.workers() if known.id == worker), None)
        if holder is None or not holder.alive:
            return  # it has gone meanwhile
        if is_gone(holder.process):
            await self._bury(holder, "its process has ended")
            return
        if self._seen is None or self._seen[0] != holder.id:
            self._seen, self._since = (holder.id, holder.heartbeat), time.monotonic()
            message = "worker id %s is taken by %s; waiting up to %g s to see whether it lives"
            logger.warning(message, info.name, _shown(holder), holder.lease)
        elif holder.heartbeat != self._seen[1]:
            raise ConfigurationError(
                f"worker id {info.name} is taken: {_shown(holder)} sends heartbeats. Stop that worker, or "
                "give this one another id (--id, WINDLASS_WORKER_ID)"
            )
        elif time.monotonic() - self._since >= holder.lease:
            await self._bury(holder, f"it sent no heartbeat for {holder.lease:g} s")
            return
        await asyncio.sleep(min(LOOK_EVERY, holder.lease / 10))

    async def _bury(self, holder: WorkerRecord, why: str) -> None:
        """Take its jobs back, unless it has sent a heartbeat since or is writing."""
        if await self._store.rescue(holder.id, holder.heartbeat, self._policy) is None:
            await asyncio.sleep(LOOK_EVERY)
        else:
            logger.warning("took the worker id over from %s: %s", _shown(holder), why)


def _shown(holder: WorkerRecord) -> str:
    since = datetime.fromtimestamp(holder.started_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{holder.label} (process {holder.pid} on {holder.host}, since {since})"
