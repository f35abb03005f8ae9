"""The memory store as a whole; see `windlass.store.protocol` for what each operation promises."""

from __future__ import annotations

from windlass.store.memory.budgets import Budgets
from windlass.store.memory.cluster import Cluster
from windlass.store.memory.governor import Governors
from windlass.store.memory.lines import Lines
from windlass.store.memory.measures import Measuring
from windlass.store.memory.parents import Parents
from windlass.store.memory.queues import Queues
from windlass.store.memory.schedules import Schedules
from windlass.store.memory.tasks import Tasks
from windlass.store.memory.upkeep import Upkeep
from windlass.store.memory.workers import Workers
from windlass.store.records import Finding, Migration

VERSION = 1


class MemoryStore(
    Schedules, Workers, Parents, Upkeep, Queues, Tasks, Cluster, Budgets, Governors, Lines, Measuring
):
    """A store that lives and dies with its process. It honours the whole contract but durability."""

    _version = 0

    @property
    def read_only(self) -> str | None:
        """See Store.read_only: this store is never so."""
        return None

    async def open(self) -> None:
        await self.migrate()

    async def close(self) -> None:
        """Nothing is connected, so there is nothing to let go; the jobs stay."""

    async def migrate(self) -> Migration:
        before, self._version = self._version, VERSION
        return Migration(before, self._version)

    async def diagnose(self) -> list[Finding]:
        return [
            Finding(
                name="store", told="jobs live in this process's memory, and go with it; nothing to look after"
            )
        ]
