"""The oracle as a whole; see `windlass.store.protocol` for what each operation promises."""

from __future__ import annotations

from tests.model.oracle.budgets import Budgets
from tests.model.oracle.changes import Changes
from tests.model.oracle.cluster import Cluster, Governors
from tests.model.oracle.groups import Groups
from tests.model.oracle.lines import Lines
from tests.model.oracle.measures import Measuring
from tests.model.oracle.parents import Parents
from tests.model.oracle.queues import Queues, Tasks
from tests.model.oracle.schedules import Schedules
from tests.model.oracle.upkeep import Upkeep
from tests.model.oracle.workers import Workers
from windlass.store.records import Finding, Migration

VERSION = 1


class OracleStore(
    Schedules,
    Workers,
    Parents,
    Groups,
    Upkeep,
    Queues,
    Tasks,
    Changes,
    Cluster,
    Budgets,
    Governors,
    Lines,
    Measuring,
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
                name="store", text="jobs live in this process's memory, and go with it; nothing to look after"
            )
        ]
