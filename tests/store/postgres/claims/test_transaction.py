"""A handler's own transaction: its data and the outcome of its job, together or not at all [C5]."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest

from tests.conformance.kit import failure
from tests.stopwatch import within
from tests.store.postgres.kit import Base
from windlass.core.states import Kind, State
from windlass.errors import ClaimLost, StoreUnavailable, WorkerLost
from windlass.store.postgres import PostgresStore
from windlass.store.records import Checkpoint, ClaimedJob, NewJob, Outcome

TABLE = "CREATE TABLE IF NOT EXISTS public.letter (job bigint)"
WRITE = "INSERT INTO public.letter VALUES ($1)"


async def letters(base: Base) -> list[int]:
    """What the handlers' transactions have left."""
    return [row[0] for row in await base.look.rows("SELECT job FROM public.letter ORDER BY job")]


async def started(base: Base, n: int = 1, **fields: Any) -> tuple[PostgresStore, int, list[ClaimedJob]]:
    """A store, a worker, and jobs that it runs."""
    await base.look.run(TABLE)
    store, worker = await base.store(**fields), await base.worker()
    await store.enqueue([NewJob(task="t", payload="{}", queue="q")] * n)
    (claim,) = await store.claim(worker, ["q"], n)
    return store, worker, claim.jobs


async def test_data_and_outcome_are_committed_together(alone: Base) -> None:
    """[C5] Nobody sees either before; the checkpoint goes with the job."""
    store, worker, (job,) = await started(alone)
    await store.checkpoint(worker, job, Checkpoint("{}"))
    async with store.transaction(worker, 1, lambda: Outcome(job=job, result="1")) as connection:
        await connection.execute(WRITE, job.id)
        await store.enqueue([NewJob(task="next", payload="{}", queue="q")], connection=connection)
        assert await letters(alone) == []
        assert await alone.state(job.id) == "running"
    assert await letters(alone) == [job.id]
    found = await store.job(job.id)
    assert found is not None
    assert (found.state, found.result, found.checkpoint) == (State.SUCCEEDED, "1", None)
    assert (await store.depth())["q"].ready == 1
    assert (await store.finish(worker, 1, [Outcome(job=job, result="1")])).repeated == 1


async def test_any_outcome_may_end_it(alone: Base) -> None:
    """[C5] The data of an attempt that is to be retried is the handler's to keep."""
    store, worker, (job,) = await started(alone)
    retry = Outcome(job=job, kind=Kind.RETRY, delay=60.0, error=failure())
    async with store.transaction(worker, 1, lambda: retry) as connection:
        await connection.execute(WRITE, job.id)
    assert await letters(alone) == [job.id]
    assert await alone.state(job.id) == "retrying"


@pytest.mark.parametrize(
    "error", [OSError("disk"), TimeoutError("api"), ValueError("bad"), asyncio.CancelledError()]
)
async def test_a_block_that_raises_rolls_back_and_its_error_stays(alone: Base, error: BaseException) -> None:
    """[C5] An error of the handler's is not one of the store's, whatever its type."""
    store, worker, (job,) = await started(alone)
    with pytest.raises(type(error)) as raised:  # noqa: PT012
        async with store.transaction(worker, 1, lambda: Outcome(job=job)) as connection:
            await connection.execute(WRITE, job.id)
            raise error
    assert raised.value is error
    assert await letters(alone) == []
    assert (await store.finish(worker, 1, [Outcome(job=job)])).applied == 1, "the job is still its own"


async def test_an_outcome_that_cannot_be_told_rolls_back(alone: Base) -> None:
    """[C5]"""
    store, worker, (job,) = await started(alone)

    def unheard_of() -> Outcome:
        raise KeyError("no outcome")

    with pytest.raises(KeyError):
        async with store.transaction(worker, 1, unheard_of) as connection:
            await connection.execute(WRITE, job.id)
    assert await letters(alone) == []


async def test_a_worker_that_was_rescued_commits_nothing(alone: Base) -> None:
    """[C5] It was taken for dead while its handler worked."""
    store, worker, (job,) = await started(alone)
    with pytest.raises(WorkerLost):  # noqa: PT012
        async with store.transaction(worker, 1, lambda: Outcome(job=job)) as connection:
            await connection.execute(WRITE, job.id)
            assert await store.retire(worker) == 1
    assert await letters(alone) == []
    assert await alone.state(job.id) == "ready"


async def test_a_job_that_has_ended_is_not_ended_again(alone: Base) -> None:
    """[C5] Neither by another flush, nor by the same one, whose data is there already."""
    store, worker, (job,) = await started(alone)
    await store.finish(worker, 1, [Outcome(job=job)])
    for flush in (1, 2):
        with pytest.raises(ClaimLost, match=f"job {job.id} .* rolled back"):
            async with store.transaction(worker, flush, lambda: Outcome(job=job)) as connection:
                await connection.execute(WRITE, job.id)
    assert await letters(alone) == []


async def test_a_connection_that_is_lost_at_the_end_is_an_outage(alone: Base) -> None:
    """[C5] Of our own statement, so it is translated; what the handler's statement raises is not."""
    store, worker, (job,) = await started(alone)
    with pytest.raises(StoreUnavailable):  # noqa: PT012
        async with store.transaction(worker, 1, lambda: Outcome(job=job)) as connection:
            await connection.execute(WRITE, job.id)
            pid = await connection.fetchval("SELECT pg_backend_pid()")
            await alone.look.run("SELECT pg_terminate_backend($1, 5000)", pid)
    with pytest.raises(asyncpg.UndefinedTableError):
        async with store.transaction(worker, 1, lambda: Outcome(job=job)) as connection:
            await connection.execute("SELECT FROM public.nowhere")
    assert await letters(alone) == []
    async with store.transaction(worker, 1, lambda: Outcome(job=job)) as connection:
        await connection.execute(WRITE, job.id)
    assert await letters(alone) == [job.id]


async def test_handlers_never_take_the_last_connections(alone: Base) -> None:
    """[C4] Heartbeats and claims go on, however many handlers have a transaction open."""
    store, worker, jobs = await started(alone, 4, pool_size=5)
    async with AsyncExitStack() as stack:
        for flush, job in enumerate(jobs[:2], 1):
            await stack.enter_async_context(
                store.transaction(worker, flush, lambda job=job: Outcome(job=job))  # type: ignore[misc]
            )
        third = store.transaction(worker, 3, lambda: Outcome(job=jobs[2]))
        waiting = asyncio.create_task(third.__aenter__())
        async with within(10):
            await asyncio.gather(*(store.heartbeat(worker) for _ in range(3)))
            assert await store.claim(worker, ["q"], 1) == []
        assert not waiting.done()
    await waiting
    await third.__aexit__(None, None, None)
    assert [await alone.state(job.id) for job in jobs] == ["succeeded"] * 3 + ["running"]
