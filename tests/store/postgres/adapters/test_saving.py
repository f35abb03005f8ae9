"""A checkpoint on the caller's own connection: rolled back = never saved [P6] [C5]."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass

import psycopg
import pytest

from tests.store.postgres.adapters.callers import ASYNC, SYNC, AsyncCaller, SyncCaller
from tests.store.postgres.adapters.conftest import HARD
from windlass.core.states import Kind
from windlass.errors import ClaimLost, ConfigurationError, WorkerLost
from windlass.running.port import finish_here
from windlass.store.postgres import PostgresStore
from windlass.store.records import Checkpoint, ClaimedJob, NewJob, Outcome, WorkerInfo

every_async_caller = pytest.mark.parametrize("caller", ASYNC.values(), ids=ASYNC.keys())
every_sync_caller = pytest.mark.parametrize("caller", SYNC.values(), ids=SYNC.keys())
both_ways = pytest.mark.parametrize("commit", [True, False], ids=["committed", "rolled back"])


@dataclass
class Running:
    """A job that a worker runs."""

    store: PostgresStore
    worker: int
    job: ClaimedJob

    async def save(self, connection: object, n: int = 3) -> None:
        """Save on this connection."""
        checkpoint = Checkpoint(json.dumps({"n": n, "text": HARD}), n, 10)
        await self.store.checkpoint(self.worker, self.job, checkpoint, connection=connection)

    async def saved(self) -> int | None:
        """How far the job has come, for everybody."""
        found = (await self.store.checkpoints([self.job.id])).get(self.job.id)
        if found is None:
            return None
        assert json.loads(found.data)["text"] == HARD
        return found.done


@pytest.fixture
async def running(dsn: str, queue: str) -> AsyncIterator[Running]:
    store = PostgresStore(dsn, head_cache=0.0)
    await store.open()
    worker = secrets.randbits(62) + 1
    await store.register(WorkerInfo(id=worker))
    await store.enqueue([NewJob(task="t", payload="{}", queue=queue)])
    (claim,) = await store.claim(worker, [queue], 1)
    yield Running(store, worker, claim.jobs[0])
    await store.close()


@both_ways
@every_async_caller
async def test_p6_an_asynchronous_connection_saves_with_its_transaction(
    running: Running, dsn: str, caller: AsyncCaller, commit: bool
) -> None:
    async with caller(dsn, commit) as connection:
        await running.save(connection)
        assert await running.saved() is None
    assert await running.saved() == (3 if commit else None)


@both_ways
@every_sync_caller
async def test_p6_a_blocking_connection_saves_in_the_thread_of_its_handler(
    running: Running, dsn: str, caller: SyncCaller, commit: bool
) -> None:
    def handler() -> None:
        with caller(dsn, commit) as connection:
            finish_here(running.save(connection))

    await asyncio.to_thread(handler)
    assert await running.saved() == (3 if commit else None)


@every_async_caller
async def test_c5_a_checkpoint_of_a_job_that_has_ended_is_refused(
    running: Running, dsn: str, caller: AsyncCaller
) -> None:
    await running.store.finish(running.worker, 1, [Outcome(job=running.job, kind=Kind.RETRY)])
    async with caller(dsn, False) as connection:
        with pytest.raises(ClaimLost, match="checkpoint was refused"):
            await running.save(connection)
    assert await running.saved() is None


@every_sync_caller
async def test_c5_a_worker_that_is_gone_saves_nothing(running: Running, dsn: str, caller: SyncCaller) -> None:
    await running.store.retire(running.worker)

    def handler() -> None:
        with caller(dsn, False) as connection, pytest.raises(WorkerLost):
            finish_here(running.save(connection))

    await asyncio.to_thread(handler)
    assert await running.saved() is None


async def test_a_blocking_connection_on_an_event_loop_is_refused(running: Running, dsn: str) -> None:
    with psycopg.connect(dsn) as connection, pytest.raises(ConfigurationError, match="block the event loop"):
        await running.save(connection)
    with pytest.raises(ConfigurationError, match="not a pool or engine"):
        await running.save(object())


async def test_p6_the_checkpoint_goes_with_the_job(running: Running, dsn: str) -> None:
    """One that was saved on a foreign connection hangs on the job as any other."""
    async with ASYNC["asyncpg"](dsn, True) as connection:
        await running.save(connection)
    await running.store.finish(running.worker, 1, [Outcome(job=running.job)])
    assert await running.saved() is None
