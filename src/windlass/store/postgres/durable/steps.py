"""Steps of jobs on PostgreSQL: fenced calls, each of which carries the steps of many jobs [W1] [C5]."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

import msgspec

from windlass.errors import ClaimLost
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.durable.calls import claims_in
from windlass.store.postgres.durable.intake import Intake
from windlass.store.postgres.outcomes import ending
from windlass.store.postgres.rows import record_of
from windlass.store.records import ClaimedJob, Step

APART: Final = timedelta(microseconds=1)
"""Between the steps of one call: see windlass.step_at."""


class Steps:
    """Writes and reads steps."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._intake: Intake[int, tuple[ClaimedJob, Step], Step] = Intake(self._save)

    async def save_step(self, worker: int, job: ClaimedJob, step: Step) -> Step:
        """See Store.save_step."""
        return await self._intake.add(worker, (job, step), len(step.result))

    @asynccontextmanager
    async def saving_step(self, worker: int, job: ClaimedJob, step: Callable[[], Step]) -> AsyncIterator[Any]:
        """See Store.saving_step."""

        async def end(connection: Any) -> None:
            (kept,) = await self._write(connection, worker, [(job, step())])
            if kept is None:
                raise ClaimLost(f"job {job.id} has done this step before; its transaction was rolled back")
            if isinstance(kept, ClaimLost):
                raise kept

        async with ending(self._db, end) as connection:
            yield connection

    async def steps(self, job: int) -> list[Step]:
        """See Store.steps."""
        return [record_of(Step, row) for row in await self._db.query("steps", job)]

    async def _save(self, worker: int, steps: Sequence[tuple[ClaimedJob, Step]]) -> list[Step | ClaimLost]:
        async with self._db.connection(self._db.deadline) as connection:
            kept = await self._write(connection, worker, steps)
        found: list[Step | ClaimLost] = []
        for (job, step), written in zip(steps, kept, strict=True):
            if written is None:  # one of this name is there: that one stands
                found.append(next(each for each in await self.steps(job.id) if each.name == step.name))
            else:
                found.append(written)
        return found

    async def _write(
        self, connection: Any, worker: int, steps: Sequence[tuple[ClaimedJob, Step]]
    ) -> list[Step | ClaimLost | None]:
        """Write steps, and return what became of each; None: one of its name is there already."""
        lanes, claims, of = claims_in([job for job, _ in steps])
        fit = self._db.fit
        row = await connection.fetchrow(
            f"SELECT * FROM {self._db.schema}.save_steps($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",  # noqa: S608
            worker,
            lanes,
            claims,
            of,
            [job.seq for job, _ in steps],
            [job.id for job, _ in steps],
            [step.name for _, step in steps],
            [fit(step.code) for _, step in steps],
            [step.attempt for _, step in steps],
            [fit(step.result) for _, step in steps],
            [step.sleep for _, step in steps],
        )
        added, refused, at = set(row["added"] or ()), set(row["refused"] or ()), row["at"]
        return [
            msgspec.structs.replace(step, sleep=None, left=step.sleep, at=(at + place * APART).timestamp())
            if place in added
            else _lost(job)
            if place in refused
            else None
            for place, (job, step) in enumerate(steps, 1)
        ]


def _lost(job: ClaimedJob) -> ClaimLost:
    return ClaimLost(f"job {job.id} is no longer held by claim {job.claim}; its step was refused")
