"""Signals and waits on PostgreSQL: one call for each [W2]."""

from __future__ import annotations

from typing import Any

from windlass.errors import ClaimLost
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.durable.calls import signal_call
from windlass.store.records import SIGNAL, TIMEOUT, Awaited, ClaimedJob, Once, Step, Wait, WaitRecord


class Signals:
    """Sends signals, and lets jobs wait for them."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def signal(
        self, job: int, name: str, value: str, *, once: Once | None = None, connection: Any = None
    ) -> str:
        """See Store.signal. A blocking connection is used in this thread, without awaiting anything."""
        call = signal_call(self._db.schema, job, name, value, once, own=connection is None)
        if connection is not None:
            from windlass.store.postgres.adapters import run_one

            return str((await run_one(connection, call))[0])
        async with self._db.connection(self._db.deadline) as own:
            return str(await own.fetchval(call.sql, *call.args))

    async def wait_for_signal(self, worker: int, job: ClaimedJob, wait: Wait) -> Awaited:
        """See Store.wait_for_signal."""
        async with self._db.connection(self._db.deadline) as own:
            row = await own.fetchrow(
                f"SELECT * FROM {self._db.schema}.wait_for_signal($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",  # noqa: S608
                worker,
                job.id,
                job.lane,
                job.claim,
                job.seq,
                wait.attempt,
                wait.name,
                wait.signal,
                wait.timeout,
                wait.shape,
            )
        if row["state"] is None:
            raise ClaimLost(f"job {job.id} is no longer held by claim {job.claim}; its wait was refused")
        if row["state"] == "waits":
            return Awaited(left=row["remaining"])
        return Awaited(
            Step(
                name=wait.name,
                result=row["value"] or "null",
                code=TIMEOUT if row["state"] == "timeout" else SIGNAL,
                attempt=wait.attempt,
                at=row["at"].timestamp(),
            )
        )

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
        return [
            WaitRecord(
                job=row["job"],
                task=row["task"],
                queue=row["queue"],
                signal=row["signal"],
                since=row["since"],
                until=row["until"],
                shape=row["shape"],
                name=row["name"],
                number=row["no"],
            )
            for row in rows
        ]
