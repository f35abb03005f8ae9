"""Changing a waiting job in place on PostgreSQL [E8]."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from windlass.store.postgres import schema as schemas
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.flow.limits import Limits
from windlass.store.records import ChangeAnswer, JobChange

_encode = msgspec.json.Encoder().encode


class Changes:
    """Changes of jobs that wait."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self._db = database
        self._limits = limits

    async def change(self, job: int, change: JobChange) -> ChangeAnswer:
        """See Store.change. Whoever may go on in the place that the job leaves does so, and so does the job,
        before the answer; what fails of that is left to promote."""
        if not 0 < job < 2**63:
            return "not_found"
        run_at = None if change.run_at is None else datetime.fromtimestamp(change.run_at, UTC)
        args = (
            job, change.queue, change.priority, change.delay, run_at,
            None if change.payload is None else self._db.fit(change.payload),
            self._db.fit(_encode(change.options).decode()) if change.options else None,
        )  # fmt: skip
        gates_of = schemas.call("gates_of_jobs", 1, self._db.schema)
        async with self._db.connection() as connection:
            gates = {row["gate"] for row in await connection.fetch(gates_of, [job])}
            async with connection.transaction(isolation="read_committed"):
                answer: ChangeAnswer = await connection.fetchval(
                    schemas.call("change", len(args), self._db.schema), *args
                )
            if answer == "changed":
                gates.update(row["gate"] for row in await connection.fetch(gates_of, [job]))
                rings = await connection.fetch(schemas.query("ring_of", self._db.schema), job)
                await self._limits.admit(connection, gates, [tuple(ring) for ring in rings])
        return answer
