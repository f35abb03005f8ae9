"""Settings of tasks [P6], and turns: who does a thing that everybody would do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.core.clock import SLIP
from windlass.store.memory.base import Base, atomic
from windlass.store.memory.gates import refit
from windlass.store.records import TaskRecord
from windlass.store.tasks import changed, is_empty


class Tasks(Base):
    """What is set for a task without a change of its code."""

    @atomic
    async def tasks(self) -> list[TaskRecord]:
        return [self._tables.tasks[name] for name in sorted(self._tables.tasks)]

    @atomic
    async def set_task(self, name: str, changes: Mapping[str, Any]) -> TaskRecord:
        new = changed(self._tables.tasks.get(name, TaskRecord(name=name)), changes)
        self._tables.tasks[name] = new
        if is_empty(new):
            del self._tables.tasks[name]
        refit(self._tables, name, self._clock())
        return new

    @atomic
    async def turn(self, name: str, every: float) -> bool:
        now, last = self._clock(), self._tables.turns.get(name)
        if last is not None and last <= now + SLIP and now < last + every:
            return False
        self._tables.turns[name] = now
        return True
