"""Queues: their settings [K1] and their cool-downs [O3]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.core.cooldown import CALM, cool_delay
from windlass.store.memory.base import Base, atomic
from windlass.store.queues import changed
from windlass.store.records import QueueRecord


class Queues(Base):
    """What users name, pause, size and cool."""

    @atomic
    async def queues(self) -> list[QueueRecord]:
        now = self._clock()
        return [self._tables.queue(name, now) for name in sorted(self._tables.queues)]

    @atomic
    async def set_queue(self, name: str, changes: Mapping[str, Any]) -> QueueRecord:
        new = changed(self._tables.queue(name, self._clock()), changes)
        self._tables.queues[name] = new
        return new

    @atomic
    async def throttle(self, queue: str, hint: float | None = None) -> float:
        now = self._clock()
        known = self._tables.queue(queue, now)
        self._tables.queues.setdefault(queue, known)
        if known.cooling > 0:
            return known.cooling
        delay = cool_delay(
            known.throttles,
            base=known.cool_base,
            cap=known.cool_cap,
            backoff=known.backoff,
            hint=hint,
        )
        self._tables.queues[queue] = msgspec.structs.replace(known, throttles=known.throttles + 1)
        self._tables.cooled[queue] = now + delay
        return delay

    @atomic
    async def warm(self, queue: str, *, force: bool = False) -> bool:
        known = self._tables.queues.get(queue)
        if known is None or not known.throttles:
            return False
        if not force and self._clock() < self._tables.cooled[queue] + CALM:
            return False
        self._tables.queues[queue] = msgspec.structs.replace(known, throttles=0)
        del self._tables.cooled[queue]
        return True
