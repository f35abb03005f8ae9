"""Looking jobs up on PostgreSQL: one, a page of them, how many there are, and waiting for one to end. Nothing
here writes. How a page is put together is in `listing_walk`."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from windlass.core.states import FINISHED, State
from windlass.errors import JobNotFound, ResultTimeout
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.connections.listener import DONE, Listener
from windlass.store.postgres.listing_walk import MAX_ROWS, Walk
from windlass.store.postgres.rows import record_of
from windlass.store.records import (
    Checkpoint,
    Depth,
    JobFilter,
    JobRecord,
    KeptResult,
    Matches,
    Page,
    Progress,
)


class Listing:
    """Reads jobs and counts them."""

    def __init__(self, database: Database, listener: Listener) -> None:
        self._db = database
        self._schema = database.schema
        self._listener = listener

    async def job(self, job: int) -> JobRecord | None:
        """See Store.job."""
        if not 0 < job < 2**63:
            return None
        async with self._db.connection() as connection:
            find = schemas.query("find_job", self._schema)
            # TRUNCATE heeds no snapshot: one taken just before a reclaim sees a carried job neither in its
            # old place nor in its new one [rule 7]. So what was not found is looked for once more.
            row = await connection.fetchrow(find, job) or await connection.fetchrow(find, job)
            return None if row is None else (await self._complete(connection, [row]))[0]

    async def results(self, jobs: Sequence[int]) -> dict[int, KeptResult]:
        """See Store.results. What was not found is looked for once more, as in `job`."""
        found: dict[int, KeptResult] = {}
        for _ in range(2):
            wanted = [job for job in jobs if job not in found and 0 < job < 2**63]
            if not wanted:
                break
            for row in await self._db.query("results", wanted):
                found[row["job"]] = KeptResult(row["task"], State(row["state"]), row["result"])
        return found

    async def jobs(
        self, where: JobFilter, limit: int = 50, cursor: str | None = None, within: float = 0.0
    ) -> Page:
        """See Store.jobs."""
        async with self._db.moment() as connection:
            rows, more, looked, back_to = await self._walked(connection, where, limit, cursor, within)
            return Page(await self._complete(connection, rows), more, looked, back_to)

    async def matches(
        self, where: JobFilter, most: int, cursor: str | None = None, within: float | None = None
    ) -> Matches:
        """See Store.matches."""
        async with self._db.moment() as connection:
            rows, more, *_ = await self._walked(connection, where, most, cursor, within)
        return Matches([row["id"] for row in rows], more)

    async def _walked(
        self, connection: Any, where: JobFilter, most: int, cursor: str | None, within: float | None
    ) -> tuple[list[Any], str | None, int, float | None]:
        """Walk on, for so many seconds, until there are enough: the rows, and what a page tells of them."""
        rows: list[Any] = []
        looked, back_to = 0, None
        until = math.inf if within is None else time.monotonic() + within
        while True:
            walk = Walk(self._schema, where, min(most - len(rows), MAX_ROWS), cursor)
            rows += await walk.run(connection)
            looked += walk.looked
            back_to = back_to if walk.back_to is None else walk.back_to
            cursor = walk.cursor
            if cursor is None or len(rows) >= most or time.monotonic() >= until:
                return rows, cursor, looked, back_to

    async def wait_finished(self, job: int, timeout: float) -> JobRecord:
        """See Store.wait_finished. Finishing notifies while somebody waits; polling stands behind it."""
        deadline = time.monotonic() + timeout
        pause = 0.02
        while True:
            if not self._db.read_only:
                await self._db.value("await_jobs")
            found = await self.job(job)
            if found is None:
                raise JobNotFound(
                    f"there is no job {job}: it never existed, was deleted, or its retention has passed"
                )
            if found.state in FINISHED:
                return found
            left = deadline - time.monotonic()
            if left <= 0:
                raise ResultTimeout(
                    f"job {job} is {found.state.value} after {timeout:g} s; wait longer or look again"
                )
            await self._listener.wait([DONE], min(left, pause))
            pause = min(pause * 2, 0.5)

    async def depth(self, queues: Sequence[str] | None = None) -> dict[str, Depth]:
        """See Store.depth."""
        rows = await self._db.query("depths")
        depths = {row["queue"]: record_of(Depth, row) for row in rows}
        return depths if queues is None else {name: depths.get(name, Depth()) for name in queues}

    async def _complete(self, connection: Any, rows: Sequence[Any]) -> list[JobRecord]:
        """Rows of the job view with what hangs on the jobs: result, failures, cancel request, checkpoint,
        progress."""
        extras = await connection.fetch(
            schemas.query("job_extras", self._schema),
            [row["id"] for row in rows],
            [row["state"] for row in rows],
        )
        return [_record(row, extra) for row, extra in zip(rows, extras, strict=True)]


def _record(row: Any, extra: Any) -> JobRecord:
    """Return a row of the job view as a record, with what hangs on the job."""
    checkpoint = None if extra["data"] is None else record_of(Checkpoint, extra)
    progress = None if extra["done"] is None and extra["total"] is None else record_of(Progress, extra)
    return record_of(
        JobRecord, dict(row.items()) | dict(extra.items()), checkpoint=checkpoint, progress=progress
    )
