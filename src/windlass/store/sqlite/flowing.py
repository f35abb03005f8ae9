"""The part of the SQLite store that is about flow; see `windlass.store.flow` for what each operation
promises. Nothing is decided here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.core.breaker import BreakerState
from windlass.core.governor import Governor
from windlass.store.flow import (
    BudgetRecord,
    Due,
    GateRecord,
    Governed,
    NewBudget,
    NewSchedule,
    Runs,
    ScheduleRecord,
    Taken,
    Watermark,
)
from windlass.store.records import Receipt
from windlass.store.sqlite import admission, lines, order, schedules, tokens
from windlass.store.sqlite import governor as governors
from windlass.store.sqlite.base import Base


class Flowing(Base):
    """Budgets, gates, governors and schedules."""

    async def now(self) -> float:
        return self._clock()

    async def wait_aside(self, timeout: float) -> None:
        """See Flow.wait_aside: a commit admits whom it can, so there is nothing to hear of."""
        await asyncio.sleep(timeout)

    # -- budgets ----------------------------------------------------------------------------------------

    async def budgets(self) -> list[BudgetRecord]:
        now = self._clock()
        return await self._read(lambda connection: tokens.budgets(connection, now))

    async def declare_budget(self, budget: NewBudget) -> BudgetRecord:
        return await self._write(lambda tx: tokens.declare(tx, budget))

    async def set_budget(self, name: str, changes: Mapping[str, Any]) -> BudgetRecord:
        return await self._write(lambda tx: tokens.set_budget(tx, name, changes))

    async def drop_budget(self, name: str) -> bool:
        return await self._write(lambda tx: tokens.drop(tx, name))

    async def take(self, budget: str, n: int, key: str = "") -> Taken:
        return await self._write(lambda tx: tokens.take(tx, budget, n, key))

    async def give_back(self, budget: str, n: int, key: str = "", age: float = 0.0) -> None:
        await self._write(lambda tx: tokens.give_back(tx, budget, n, key, age))

    async def drain(self, budget: str, pause: float, key: str | None = None) -> None:
        await self._write(lambda tx: tokens.drain(tx, budget, pause, key))

    async def tell_budget(self, budget: str, succeeded: int, failed: int) -> BreakerState:
        return await self._write(lambda tx: tokens.tell(tx, budget, succeeded, failed))

    # -- gates ------------------------------------------------------------------------------------------

    async def gates(self, limit: int = 100) -> list[GateRecord]:
        now = self._clock()
        return await self._read(lambda connection: lines.gates(connection, limit, now))

    async def watermarks(self, queue: str, *, key: str | None = None, limit: int = 100) -> list[Watermark]:
        now = self._clock()
        return await self._read(lambda connection: order.watermarks(connection, queue, key, limit, now))

    # -- the governor -----------------------------------------------------------------------------------

    async def report(self, runs: Mapping[str, Runs]) -> None:
        await self._write(lambda tx: governors.report(tx, runs))

    async def governed(self, term: int) -> list[Governed]:
        return await self._write(lambda tx: governors.governed(tx, term))

    async def govern(self, term: int, queue: str, governor: Governor) -> None:
        await self._write(lambda tx: governors.govern(tx, term, queue, governor))

    async def observe(self, latency: float) -> None:
        await self._write(lambda tx: admission.observe(tx, latency))

    # -- schedules --------------------------------------------------------------------------------------

    async def schedules(self) -> list[ScheduleRecord]:
        return await self._read(schedules.schedules)

    async def seed_schedule(
        self, schedule: NewSchedule, next_at: float | None, error: str | None = None
    ) -> ScheduleRecord:
        return await self._write(lambda tx: schedules.seed(tx, schedule, next_at, error))

    async def set_schedule(
        self, name: str, *, paused: bool | None = None, next_at: float | None = None
    ) -> ScheduleRecord | None:
        return await self._write(lambda tx: schedules.change(tx, name, paused, next_at))

    async def drop_schedule(self, name: str) -> bool:
        return await self._write(lambda tx: schedules.drop(tx, name))

    async def due(self, limit: int = 100) -> Due:
        now = self._clock()
        return await self._read(lambda connection: schedules.due(connection, limit, now))

    async def fire(
        self,
        term: int | None,
        name: str,
        expected: float | None,
        times: Sequence[float],
        *,
        next_at: float | None,
        skipped: int = 0,
        error: str | None = None,
    ) -> list[Receipt] | None:
        return await self._write(
            lambda tx: schedules.fire(tx, term, name, expected, times, next_at, skipped, error)
        )
