"""A worker without handlers, leases to keep or processes: it claims a batch, finishes it in one flush, and
claims again. What it costs is what the store costs."""

from __future__ import annotations

import secrets
from typing import Final

from windlass.store.protocol import NOTHING, Store
from windlass.store.records import Claim, Needs, Outcome, WorkerInfo

WHOLE_RUN: Final = 86_400.0
"""The lease of a worker that sends no heartbeat; nobody looks, and nobody should mind."""


class BareWorker:
    """One worker of one queue. A success carries its run time, as a real one's does."""

    def __init__(self, store: Store, queue: str, batch: int, needs: Needs = NOTHING) -> None:
        self._store = store
        self._queue = queue
        self._batch = batch
        self._needs = needs
        self._id = secrets.randbelow(2**62) + 1
        self._flush = 0

    async def register(self) -> None:
        """Make it known."""
        info = WorkerInfo(id=self._id, label="bench", queues=(self._queue,), lease=WHOLE_RUN)
        await self._store.register(info)

    async def retire(self) -> None:
        """It leaves."""
        await self._store.retire(self._id)

    async def claim(self) -> list[Claim]:
        """A batch, or nothing."""
        return await self._store.claim(self._id, [self._queue], self._batch, self._needs)

    async def finish(self, claims: list[Claim]) -> int:
        """Finish their jobs in one flush; how many there were."""
        outcomes = [Outcome(job=job, run_ms=1.0) for claim in claims for job in claim.jobs]
        if not outcomes:
            return 0
        self._flush += 1
        finished = await self._store.finish(self._id, self._flush, outcomes)
        assert finished.applied == len(outcomes), f"{finished} of {len(outcomes)} outcomes"
        return finished.applied

    async def claim_and_finish(self) -> int:
        """A batch from its claim to its end."""
        return await self.finish(await self.claim())

    async def drain(self) -> None:
        """Finish whatever is left."""
        while await self.claim_and_finish():
            pass
