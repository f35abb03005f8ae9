"""A handler's own transaction, in which its job ends or makes progress: data and outcome, or data and
checkpoint, exist together or not at all [C5]."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import asyncpg

from windlass.errors import ClaimLost
from windlass.store.postgres import flushes, statements
from windlass.store.postgres.database import Database
from windlass.store.postgres.faults import translated
from windlass.store.records import Checkpoint, ClaimedJob, Outcome


@asynccontextmanager
async def transaction(
    database: Database,
    worker: int,
    flush: int,
    outcome: Callable[[], Outcome],
    checkpointed: set[int],
    freed: list[str],
) -> AsyncIterator[Any]:
    """See Store.transaction. `freed` takes the gates at which room was made.

    A connection that is lost during the commit leaves open whether it happened: Store.held tells, since the
    job is in it or has ended."""
    told: list[Outcome] = []

    async def end(connection: Any) -> None:
        told.append(outcome())
        finished, gates = await flushes.finish(
            connection, database.schema, worker, flush, told, checkpointed, database.fit
        )
        freed.extend(gates)
        # One that had been applied before must not bring the block's data a second time.
        if finished.applied != 1:
            job = told[0].job
            raise ClaimLost(
                f"job {job.id} is not held by claim {job.claim} any more; its transaction was rolled back"
            )

    async with _ending(database, end) as connection:
        yield connection
    checkpointed.discard(told[0].job.id)


@asynccontextmanager
async def saving(
    database: Database,
    worker: int,
    job: ClaimedJob,
    checkpoint: Callable[[], Checkpoint],
    checkpointed: set[int],
) -> AsyncIterator[Any]:
    """See Store.saving."""
    checkpointed.add(job.id)

    async def end(connection: Any) -> None:
        call = statements.checkpoint_call(database.schema, worker, job, checkpoint(), database.fit)
        statements.check_saved(job, await connection.fetchval(call.sql, *call.args))

    async with _ending(database, end) as connection:
        yield connection


@asynccontextmanager
async def _ending(database: Database, end: Callable[[Any], Awaitable[None]]) -> AsyncIterator[Any]:
    """A transaction around a block that is not ours, with something of ours at its end. Only errors of our
    own statements are translated: the block's pass unchanged."""
    async with database.lent() as connection:
        own = connection.transaction(isolation="read_committed")
        with translated():
            await own.start()
        try:
            yield connection
            with translated():
                await end(connection)
        except BaseException:
            # A connection that is lost or broken has rolled back by itself.
            with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                async with asyncio.timeout(database.deadline):
                    await own.rollback()
            raise
        with translated():
            await _to_the_end(own.commit())


async def _to_the_end(commit: Coroutine[Any, Any, None]) -> None:
    """A commit that was sent is awaited whatever happens: only its answer says whether the job has ended.
    Who was cancelled meanwhile is cancelled again right after."""
    task = asyncio.current_task()
    under_way = asyncio.ensure_future(commit)
    cancels = 0
    while not under_way.done():
        try:
            await asyncio.shield(under_way)
        except asyncio.CancelledError:
            if under_way.cancelled() or task is None:
                raise
            task.uncancel()
            cancels += 1
    under_way.result()
    for _ in range(cancels):
        asyncio.get_running_loop().call_soon(cast("asyncio.Task[Any]", task).cancel)
