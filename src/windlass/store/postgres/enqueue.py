"""Enqueueing on PostgreSQL: one job together with those of other callers, many at once, or any in a
transaction of the caller's own [E1]. How single jobs come together is the business of `intake`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import asyncpg

from windlass.errors import ConfigurationError, Refused, Shed, StoreForbidden, StoreUnavailable, WindlassError
from windlass.store.postgres import schema as schemas
from windlass.store.postgres import statements
from windlass.store.postgres.connections.database import Database
from windlass.store.postgres.connections.errors import refused_jobs, translated
from windlass.store.postgres.intake import Intake
from windlass.store.postgres.limits import Limits, rings_of, waiting_lists_of
from windlass.store.records import NewJob, Receipt

TRIES: Final = 3

BACK_STEP: Final = 1000
"""Jobs that an enqueue which replaced one moves on, at most."""

logger: Final = logging.getLogger("windlass.store")


class Enqueue:
    """How jobs come in, and what is noted of their queues on the way."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self._db = database
        self._limits = limits
        self._intake = Intake(self._send)
        self._declared: set[tuple[str, int]] = set()

    async def enqueue(self, jobs: Sequence[NewJob], *, connection: Any = None) -> list[Receipt]:
        """See Store.enqueue. A single job goes together with those of other callers."""
        if not jobs:
            return []
        if connection is None and len(jobs) == 1:
            return [await self._intake.add(jobs[0])]
        return await self._counted_enqueue(jobs, connection)

    async def _send(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        """Enqueue a batch of the intake. One that is refused for one of its queues or priorities is sent
        again for each of them, and counted only then: nothing is counted twice."""
        several = len({(job.queue, job.priority) for job in jobs}) > 1
        return await (self._enqueue(jobs, None) if several else self._counted_enqueue(jobs))

    async def _counted_enqueue(self, jobs: Sequence[NewJob], connection: Any = None) -> list[Receipt]:
        """Enqueue, and count what is refused: in a transaction of its own, since the refused one rolls
        back."""
        try:
            return await self._enqueue(jobs, connection)
        except Refused as error:
            await self._note("note_refused", error.queue, refused_jobs(error), isinstance(error, Shed))
            raise

    async def _enqueue(self, jobs: Sequence[NewJob], connection: Any) -> list[Receipt]:
        call = statements.enqueue_call(self._db.schema, jobs)
        if connection is not None:
            if not isinstance(connection, asyncpg.Connection | asyncpg.pool.PoolConnectionProxy):
                raise ConfigurationError(
                    "the store takes asyncpg connections; use task.using(connection=…) for others"
                )
            with translated():
                row = await connection.fetchrow(call.sql, *call.args)
            await self._note_pressure(row)
            return statements.receipts_of(jobs, row)
        await self._declare({(job.queue, int(job.priority)) for job in jobs})
        async with self._db.connection() as own:
            row = await _committed(own, call)
            receipts = statements.receipts_of(jobs, row)
            # It is committed: what comes now may fail without it.
            if row[2]:  # not all of them went into their lane
                await self._admit(own, jobs, receipts)
        await self._note_pressure(row)
        return receipts

    async def _admit(self, connection: Any, jobs: Sequence[NewJob], receipts: Sequence[Receipt]) -> None:
        """Let those in at once that replace others or wait aside, where there is room for them."""
        if any(receipt.status == "replaced" for receipt in receipts):
            await self._take_back(connection)
        await self._limits.admit(connection, waiting_lists_of(jobs, receipts), rings_of(jobs, receipts))

    async def _take_back(self, connection: Any) -> None:
        """Let a new job replace its waiting twin at once. Where another session holds the twin's lane, or
        this role may only enqueue, the next promote does it."""
        try:
            with translated():
                await connection.execute(schemas.query("replace_at_once", self._db.schema), BACK_STEP)
                await connection.execute(schemas.call("promote", 1, self._db.schema), BACK_STEP)
        except StoreForbidden:
            return
        except (WindlassError, asyncpg.PostgresError) as error:
            logger.warning("could not replace a waiting job; the next promote will do it: %s", error)

    async def _note_pressure(self, row: Sequence[Any]) -> None:
        for queue, pressure in statements.pressures_of(row).items():
            if pressure.was != pressure.now:
                await self._note("change_pressure", queue, pressure.was, pressure.now)

    async def _note(self, function: str, *args: Any) -> None:
        """Record what an enqueue saw of its queue, in a transaction of its own. The enqueue must not fail for
        it: the next promote sees what could not be recorded."""
        with suppress(WindlassError, asyncpg.PostgresError):
            await self._db.value(function, *args)

    async def _declare(self, lanes: set[tuple[str, int]]) -> None:
        for queue, priority in lanes - self._declared:
            # A role that may only enqueue leaves that to others: the job waits in deferred until the lane is
            # there. So it does where an open transaction is about to declare it: nobody waits for that [S2].
            # And where the store is not adopted yet: the enqueue itself is not refused [S3].
            try:
                if await self._db.value("try_lane", queue, priority) is None:
                    continue
            except StoreForbidden:
                pass
            except StoreUnavailable:
                if not self._db.must_adopt:
                    raise
                return
            self._declared.add((queue, priority))


async def _committed(connection: Any, call: statements.Call) -> Any:
    """Run an enqueue in a transaction of its own. After a deadlock, such as with a transaction that takes its
    keys one by one, nothing was written: it is run again. So it is where the default isolation level keeps it
    from seeing who holds a key."""
    for left in reversed(range(TRIES)):
        try:
            if left == TRIES - 1:
                return await connection.fetchrow(call.sql, *call.args)
            async with connection.transaction(isolation="read_committed"):
                return await connection.fetchrow(call.sql, *call.args)
        except (asyncpg.DeadlockDetectedError, asyncpg.SerializationError):
            if not left:
                raise
    raise AssertionError("the last try returns or raises")
