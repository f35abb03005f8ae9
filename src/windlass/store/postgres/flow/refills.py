"""Filling lanes that fair jobs wait behind, after a claim has made room there [C3]: at the coordinator's pace
alone such a lane would give out no more than a window each time."""

from __future__ import annotations

import asyncio
from typing import Final

from windlass.store.postgres.connections.database import Database

REFILL: Final = 1000
"""Fair jobs that are admitted after a claim at most."""

CROWD: Final = 64
"""Jobs in a claim that need not wait until the lane is full again: meanwhile they run."""


class Refills:
    """The lanes of one store that are being filled."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._under_way: dict[int, asyncio.Task[None]] = {}

    async def begin(
        self, lane: int, queue: str, priority: int, needs: str, *, wanted: int, taken: int
    ) -> None:
        """Refill a lane that jobs were just taken from; the next claim will want up to `wanted`. Answers when
        it has been filled, or at once where many were taken."""
        filling = asyncio.ensure_future(self._fill(queue, priority, needs, wanted))
        # One at a time goes on by itself, since each has a connection; it may be that of a worker beside.
        busy = lane in self._under_way or any(not each.done() for each in self._under_way.values())
        if taken < CROWD or busy:
            await filling
        else:
            self._under_way[lane] = filling

    async def ended(self, lane: int) -> None:
        """Wait until a lane is as full as it was going to be. What went wrong there is raised here."""
        if filling := self._under_way.pop(lane, None):
            await filling

    async def close(self) -> None:
        """Stop the refills under way."""
        for filling in self._under_way.values():
            filling.cancel()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)
        self._under_way.clear()

    async def _fill(self, queue: str, priority: int, needs: str, wanted: int) -> None:
        await self._db.value("admit_ring", queue, priority, REFILL, wanted, needs)
