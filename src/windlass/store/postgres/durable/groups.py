"""Groups of jobs on PostgreSQL: what is added is enqueued in the same transaction [W4]."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.connections.errors import translated
from windlass.store.records import NewJob, Receipt


class Groups:
    """Adds to groups, closes them, and says what is in them. `enqueue` is the store's."""

    def __init__(self, database: Database, enqueue: Callable[..., Awaitable[list[Receipt]]]) -> None:
        self._db = database
        self._enqueue = enqueue

    async def enqueue_in_group(
        self, group: int, jobs: Sequence[NewJob], *, connection: Any = None
    ) -> list[Receipt]:
        """See Store.enqueue_in_group."""
        if not jobs:
            return []
        if connection is not None:
            return await self._add(group, jobs, connection)
        async with self._db.connection() as own, own.transaction(isolation="read_committed"):
            return await self._add(group, jobs, own)

    async def _add(self, group: int, jobs: Sequence[NewJob], connection: Any) -> list[Receipt]:
        receipts = await self._enqueue(jobs, connection=connection)
        with translated():
            await connection.execute(
                f"SELECT {self._db.schema}.add_to_group($1, $2)",
                group,
                [receipt.id for receipt in receipts],
            )
        return receipts

    async def close_group(self, group: int) -> bool:
        """See Store.close_group."""
        closed: bool = await self._db.value("close_group", group)
        return closed

    async def group_jobs(self, group: int, after: int = 0, limit: int = 1000) -> list[int]:
        """See Store.group_jobs."""
        return [row["job"] for row in await self._db.query("group_jobs", group, after, limit)]

    async def group_counts(self, group: int) -> dict[str, int]:
        """See Store.group_counts."""
        return {row["state"]: row["n"] for row in await self._db.query("group_counts", group)}
