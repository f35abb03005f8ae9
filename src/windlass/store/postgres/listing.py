"""Looking jobs up on PostgreSQL: one, a page of them, how many there are, and waiting for one to end. Nothing
here writes. How a page is put together is in `listing_walk`."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.states import FINISHED, State
from windlass.errors import JobNotFound, ResultTimeout
from windlass.store.postgres import schema as schemas
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.connections.listener import DONE, Listener
from windlass.store.postgres.listing_walk import MAX_ROWS, Walk
from windlass.store.postgres.rows import decode_options, seconds
from windlass.store.records import Checkpoint, Depth, Failure, JobFilter, JobRecord, Matches, Page

_failures = msgspec.json.Decoder(list[Failure]).decode


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
                raise JobNotFound(f"there is no job {job}; it was deleted or its retention has passed")
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
        depths = {
            r["queue"]: Depth(
                r["ready"],
                r["running"],
                r["scheduled"],
                r["retrying"],
                r["dead"],
                None if r["waited"] is None else max(r["waited"], 0.0),
                r["offered"],
                r["unreleased"],
                r["free"],
            )
            for r in rows
        }
        return depths if queues is None else {name: depths.get(name, Depth()) for name in queues}

    async def _complete(self, connection: Any, rows: Sequence[Any]) -> list[JobRecord]:
        """Rows of the job view with what hangs on the jobs: result, failures, cancel request, checkpoint."""
        extras = await connection.fetch(
            schemas.query("job_extras", self._schema),
            [row["id"] for row in rows],
            [row["state"] for row in rows],
        )
        return [_with_extras(record(row), extra) for row, extra in zip(rows, extras, strict=True)]


def record(row: Any) -> JobRecord:
    """A row of the job view as a record, without what hangs on the job."""
    return JobRecord(
        id=row["id"],
        task=row["task"],
        queue=row["queue"],
        priority=row["priority"],
        state=State(row["state"]),
        payload=row["payload"],
        attempt=row["attempt"],
        deaths=row["deaths"],
        options=decode_options(row["options"]),
        enqueued_at=row["enqueued_at"].timestamp(),
        run_at=seconds(row["run_at"]),
        claimed_at=seconds(row["claimed_at"]),
        finished_at=seconds(row["finished_at"]),
        worker=row["worker"],
        claim=row["claim"],
        reason=row["reason"],
    )


def _with_extras(found: JobRecord, extra: Any) -> JobRecord:
    checkpoint = None
    if extra["data"] is not None:
        checkpoint = Checkpoint(extra["data"], extra["done"], extra["total"], extra["at"].timestamp())
    return msgspec.structs.replace(
        found,
        result=extra["result"],
        errors=tuple(_failures(extra["errors"] or "[]")),
        cancel_requested=extra["cancel"],
        checkpoint=checkpoint,
    )
