"""Steps of jobs on PostgreSQL: one fenced call for each [W1] [C5]."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from windlass.errors import ClaimLost
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.outcomes import ending
from windlass.store.records import ClaimedJob, Step


class Steps:
    """Writes and reads steps."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def save_step(self, worker: int, job: ClaimedJob, step: Step) -> Step:
        """See Store.save_step."""
        async with self._db.connection(self._db.deadline) as own:
            return (await self._save(own, worker, job, step))[0]

    @asynccontextmanager
    async def saving_step(self, worker: int, job: ClaimedJob, step: Callable[[], Step]) -> AsyncIterator[Any]:
        """See Store.saving_step."""

        async def end(connection: Any) -> None:
            _, added = await self._save(connection, worker, job, step())
            if not added:
                raise ClaimLost(f"job {job.id} has done this step before; its transaction was rolled back")

        async with ending(self._db, end) as connection:
            yield connection

    async def steps(self, job: int) -> list[Step]:
        """See Store.steps."""
        return [_step(row) for row in await self._db.query("steps", job)]

    async def _save(self, connection: Any, worker: int, job: ClaimedJob, step: Step) -> tuple[Step, bool]:
        row = await connection.fetchrow(
            f"SELECT * FROM {self._db.schema}.save_step($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",  # noqa: S608
            worker,
            job.id,
            job.lane,
            job.claim,
            job.seq,
            step.name,
            step.code,
            step.attempt,
            self._db.fit(step.result),
            step.sleep,
        )
        if row["name"] is None:
            raise ClaimLost(f"job {job.id} is no longer held by claim {job.claim}; its step was refused")
        return _step(row), row["added"]


def _step(row: Any) -> Step:
    return Step(
        name=row["name"],
        result=row["result"],
        code=row["code"],
        attempt=row["attempt"],
        left=row["remaining"],
        at=row["at"].timestamp(),
    )
