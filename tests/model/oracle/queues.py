"""Settings of queues [K1] and tasks [P6], cool-downs [O3], and turns: who does what everybody would do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tests.model.oracle.base import Base, atomic
from tests.model.oracle.gates import refit
from windlass.core.clock import SLIP
from windlass.core.retry import CALM, cool_delay
from windlass.store.changes import changed_queue, changed_task
from windlass.store.records import QueueRecord, TaskRecord


class Queues(Base):
    """What users name, pause, size and cool."""

    @atomic
    async def queues(self) -> list[QueueRecord]:
        now = self._clock()
        return [self._tables.queue(name, now) for name in sorted(self._tables.queues)]

    @atomic
    async def set_queue(self, name: str, changes: Mapping[str, Any]) -> QueueRecord:
        new = changed_queue(self._tables.queue(name, self._clock()), changes, self._settings.retention)
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


class Tasks(Base):
    """What is set for a task without a change of its code."""

    @atomic
    async def tasks(self) -> list[TaskRecord]:
        return [self._tables.tasks[name] for name in sorted(self._tables.tasks)]

    @atomic
    async def set_task(self, name: str, changes: Mapping[str, Any]) -> TaskRecord:
        new = changed_task(self._tables.tasks.get(name, TaskRecord(name=name)), changes)
        self._tables.tasks[name] = new
        if new == TaskRecord(name=name):
            del self._tables.tasks[name]
        refit(self._tables, name, self._clock())
        return new

    @atomic
    async def begin_chore(self, name: str, every: float) -> bool:
        now, last = self._clock(), self._tables.turns.get(name)
        if last is not None and last <= now + SLIP and now < last + every:
            return False
        self._tables.turns[name] = now
        return True
