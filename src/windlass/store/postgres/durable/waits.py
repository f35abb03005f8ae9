"""Waits of jobs, on PostgreSQL: fenced calls, each of which carries what many handlers wait for [W2]
[C5]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from windlass.errors import ClaimLost
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.durable.calls import claims_in
from windlass.store.postgres.durable.intake import Intake
from windlass.store.postgres.rows import record_of
from windlass.store.records import SIGNAL, TIMEOUT, Awaited, ClaimedJob, Step, Wait, WaitRecord

Asked: TypeAlias = tuple[ClaimedJob, Wait]


class Waits:
    """Lets jobs wait for signals, and lists who waits."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._intake: Intake[int, Asked, Awaited] = Intake(self._ask)

    async def wait_for_signal(self, worker: int, job: ClaimedJob, wait: Wait) -> Awaited:
        """See Store.wait_for_signal."""
        return await self._intake.add(worker, (job, wait), len(wait.shape or ""))

    async def _ask(self, worker: int, asked: Sequence[Asked]) -> list[Awaited | Exception]:
        lanes, claims, of = claims_in([job for job, _ in asked])
        row = await self._db.call(
            "wait_for_signals",
            worker,
            lanes,
            claims,
            of,
            [job.seq for job, _ in asked],
            [job.id for job, _ in asked],
            [wait.attempt for _, wait in asked],
            [wait.name for _, wait in asked],
            [wait.signal for _, wait in asked],
            [wait.timeout for _, wait in asked],
            [wait.shape for _, wait in asked],
        )
        found = zip(asked, row["states"], row["values"], row["remaining"], row["at"], strict=True)
        return [_awaited(job, wait, *stands) for (job, wait), *stands in found]

    async def waits(
        self,
        limit: int = 100,
        *,
        before: int | None = None,
        job: int | None = None,
        signal: str | None = None,
    ) -> list[WaitRecord]:
        """See Store.waits."""
        rows = await self._db.query("waits", job, before, signal, limit)
        return [record_of(WaitRecord, row) for row in rows]


def _awaited(
    job: ClaimedJob, wait: Wait, state: str | None, value: str | None, remaining: float | None, at: Any
) -> Awaited | Exception:
    if state is None:
        return ClaimLost(f"job {job.id} is no longer held by claim {job.claim}; its wait was refused")
    if state == "waits":
        return Awaited(left=remaining)
    return Awaited(
        Step(
            name=wait.name,
            result=value or "null",
            code=TIMEOUT if state == "timeout" else SIGNAL,
            attempt=wait.attempt,
            at=at.timestamp(),
        )
    )
