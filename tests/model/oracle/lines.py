"""Looking at gates and at the order of keys [F3] [F6]. How jobs move through them is in `gates`."""

from __future__ import annotations

import asyncio
from typing import Final

from tests.model.oracle.base import Base, atomic
from tests.model.oracle.gates import Gateway
from windlass.core.flow.gates import order_gate
from windlass.store.records import GateRecord, Watermark

COUNTED: Final = 10_000
KEPT: Final = 30 * 86400.0
"""Seconds for which a watermark is kept after the last job of its key has ended."""


class Lines(Base):
    """Who waits where, and how far the ordering keys have come."""

    @atomic
    async def now(self) -> float:
        return self._clock()

    @atomic
    async def gates(self, limit: int = 100) -> list[GateRecord]:
        now = self._clock()
        found = [
            GateRecord(
                name=name,
                passes=gateway.taken,
                waiting=min(len(gateway.line), COUNTED),
                oldest=now - gateway.line[0].since,
            )
            for name, gateway in self._tables.gateways.items()
            if gateway.line
        ]
        return sorted(found, key=lambda gate: -gate.oldest)[:limit]

    async def wait_aside(self, timeout: float) -> None:
        await asyncio.sleep(timeout)

    @atomic
    async def watermarks(self, queue: str, *, key: str | None = None, limit: int = 100) -> list[Watermark]:
        now = self._clock()
        keys = sorted(own for of, own in self._tables.marks if of == queue and key in (None, own))
        return [self._watermark(queue, own, now) for own in keys[:limit]]

    def _watermark(self, queue: str, key: str, now: float) -> Watermark:
        mark = self._tables.marks[queue, key]
        gateway = self._tables.gateways.get(order_gate(queue, key), Gateway())
        unfinished = [*gateway.passes, *gateway.line]
        return Watermark(
            queue=queue,
            key=key,
            position=mark.position,
            at=mark.at,
            waiting=min(len(unfinished), COUNTED),
            age=now - min((job.enqueued_at for job in unfinished), default=now),
        )
