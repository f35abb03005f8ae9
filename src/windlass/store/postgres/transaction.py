"""A handler's own transaction, in which its job ends: data and outcome exist together or not at all [C5]."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import asyncpg

from windlass.errors import ClaimLost
from windlass.store.postgres import claims
from windlass.store.postgres.database import Database
from windlass.store.postgres.faults import translated
from windlass.store.records import Outcome


@asynccontextmanager
async def transaction(
    database: Database, worker: int, flush: int, outcome: Callable[[], Outcome], checkpointed: set[int]
) -> AsyncIterator[Any]:
    """See Store.transaction. Only errors of our own statements are translated: the block's pass unchanged.

    A connection that is lost during the commit leaves open whether it happened: Store.held tells, since the
    job is in it or has ended."""
    async with database.lent() as connection:
        own = connection.transaction(isolation="read_committed")
        with translated():
            await own.start()
        try:
            yield connection
            told = outcome()
            with translated():
                finished = await claims.finish(
                    connection, database.schema, worker, flush, [told], checkpointed
                )
            # One that had been applied before must not bring the block's data a second time.
            if finished.applied != 1:
                raise ClaimLost(
                    f"job {told.job.id} is not held by claim {told.job.claim} any more; its transaction was "
                    "rolled back"
                )
        except BaseException:
            # A connection that is lost or broken has rolled back by itself.
            with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                async with asyncio.timeout(database.deadline):
                    await own.rollback()
            raise
        with translated():
            await _to_the_end(own.commit())
        checkpointed.discard(told.job.id)


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
