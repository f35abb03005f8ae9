"""Flow on PostgreSQL, put together: the clock, budgets with the governor, and schedules."""

from __future__ import annotations

from windlass.store.postgres.budgets import Budgets
from windlass.store.postgres.schedules import Schedules


class Flow(Budgets, Schedules):
    """What `windlass.store.flow` promises, but for gates and watermarks."""

    async def now(self) -> float:
        """See Flow.now."""
        return float(await self._db.value("epoch"))
