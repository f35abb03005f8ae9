"""Workers on PostgreSQL: how they come, live, leave in good order, and are rescued when they do not [C8]."""

from __future__ import annotations

from collections import Counter
from typing import Final

import asyncpg
import msgspec

from windlass.core.retry import DeathPolicy
from windlass.errors import StoreForbidden, WorkerLost
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.flow.limits import Limits
from windlass.store.postgres.outcomes import Outcomes
from windlass.store.postgres.rows import record_of
from windlass.store.records import Heartbeat, Rescued, WorkerInfo, WorkerRecord

RESCUE_STEP: Final = 100


class Workers:
    """The life of workers."""

    def __init__(self, database: Database, limits: Limits, outcomes: Outcomes) -> None:
        self._db = database
        self._limits = limits
        self._outcomes = outcomes

    async def register(self, worker: WorkerInfo) -> None:
        """See Store.register."""
        try:
            *about, tasks, abilities = msgspec.structs.astuple(worker)
            known = msgspec.json.encode(tasks).decode()
            await self._db.value("register", *about, known, sorted(abilities))
        except asyncpg.UniqueViolationError:
            raise ValueError(f"worker id {worker.id} was used before; draw a new one") from None
        except StoreForbidden as error:
            role = (self._db.address.user or "ROLE").replace("'", "''")
            raise StoreForbidden(
                f"role {role} may not run jobs here: {str(error).partition('. ')[0]}. The schema's owner can "
                f"allow it with SELECT {self._db.schema}.allow('{role}', 'worker')"
            ) from error

    async def retire(self, worker: int) -> int:
        """See Store.retire."""
        self._outcomes.forget(worker)
        return int(await self._db.value("retire", worker))

    async def heartbeat(self, worker: int) -> Heartbeat:
        """See Store.heartbeat."""
        cancelled = await self._db.value("heartbeat", worker)
        if cancelled is None:
            raise WorkerLost(f"worker {worker} is not alive: it was retired or rescued, or never registered")
        return Heartbeat(frozenset(cancelled))

    async def workers(self) -> list[WorkerRecord]:
        """See Store.workers."""
        return [record_of(WorkerRecord, row) for row in await self._db.query("workers")]

    async def published_queue(self, task: str) -> str | None:
        """See Store.published_queue."""
        found: str | None = await self._db.value("published_queue", task)
        return found

    async def published_tasks(self) -> list[str]:
        """See Store.published_tasks."""
        found: list[str] = await self._db.value("published_tasks")
        return found

    async def rescue(self, worker: int, heartbeat: int, policy: DeathPolicy) -> Rescued | None:
        """See Store.rescue. Declaring it dead and taking its jobs back are separate transactions."""
        if not await self._db.value("declare_dead", worker, heartbeat):
            return None
        total: Counter[str] = Counter()
        freed: set[str] = set()
        more = True
        while more:
            row = await self._db.call("rescue_step", worker, policy.delays(), RESCUE_STEP)
            total.update({name: row[name] for name in Rescued.__struct_fields__})
            more = row["left_over"]
            freed.update(row["freed"])
        if freed:
            async with self._db.connection(self._db.deadline) as connection:
                await self._limits.admit(connection, freed)
        return Rescued(**total)
