"""Checkpoints: who may write one, and that none outlives its job for long [C5] [K6]."""

import asyncpg
import pytest

from tests.stopwatch import within
from tests.store.postgres.families import family
from tests.store.postgres.kit import Base
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind
from windlass.errors import ClaimLost, WorkerLost
from windlass.store.records import Checkpoint, NewJob, Outcome

SAVE = "SELECT windlass.checkpoint($1, $2, $3, $4, $5, '{}', 1, 2)"


async def test_only_the_worker_that_holds_the_claim_may_save(base: Base) -> None:
    """[C5] Also where the short way is open: the claim alone does not do."""
    store, worker, other = await base.store(), await base.worker(), await base.worker()
    await store.enqueue([NewJob(task="t", payload="{}", queue=base.queue)])
    ((old,),) = [claim.jobs for claim in await store.claim(worker, [base.queue], 1)]
    await store.checkpoint(worker, old, Checkpoint("1"))
    await store.finish(worker, 1, [Outcome(job=old, kind=Kind.RELEASED)])
    ((new,),) = [claim.jobs for claim in await store.claim(worker, [base.queue], 1)]
    await store.checkpoint(worker, new, Checkpoint("2"))
    for who, job in ((worker, old), (other, new)):
        with pytest.raises(ClaimLost):
            await store.checkpoint(who, job, Checkpoint("9"))
    await store.checkpoint(worker, new, Checkpoint("3"))
    assert (await store.checkpoints([new.id]))[new.id].data == "3"


async def test_a_rescue_closes_the_short_way(base: Base) -> None:
    """[C5] [C8] What the dead one saved stays, and bears nobody's name."""
    store, worker = await base.store(), await base.worker()
    await store.enqueue([NewJob(task="t", payload="{}", queue=base.queue)])
    ((job,),) = [claim.jobs for claim in await store.claim(worker, [base.queue], 1)]
    await store.checkpoint(worker, job, Checkpoint("1"))
    assert await store.rescue(worker, 0, DeathPolicy()) is not None
    with pytest.raises(WorkerLost):
        await store.checkpoint(worker, job, Checkpoint("2"))
    row = await base.look.row(
        "SELECT data::text, claim, worker FROM windlass.checkpoint WHERE job = $1", job.id
    )
    assert tuple(row) == ("1", None, None)


async def test_a_checkpoint_that_nobody_cleared_goes_after_a_day(alone: Base) -> None:
    """[K6] Made by one process of a worker and ended by another that knew nothing of it; those of jobs that
    go on, and of parts that may be redriven, stay."""
    kin = await family(alone, 1)
    clock = await alone.clock()
    (part,) = await kin.claim()
    await kin.store.checkpoint(kin.worker, part, Checkpoint("1"))
    await kin.store.finish(kin.worker, 2, [Outcome(job=part, kind=Kind.DEAD)])
    await kin.store.enqueue([NewJob(task="t", payload="{}", queue=alone.queue)] * 2)
    ended, going = await kin.claim()
    for job in (ended, going):
        await kin.store.checkpoint(kin.worker, job, Checkpoint("1"))
    store = await alone.store()
    await store.finish(kin.worker, 3, [Outcome(job=ended)])
    await store.expire()
    assert len(await store.checkpoints([part.id, ended.id, going.id])) == 3
    await clock.advance(86401)
    await store.expire()
    assert set(await store.checkpoints([part.id, ended.id, going.id])) == {part.id, going.id}


async def test_a_checkpoint_in_an_open_transaction_keeps_the_worker_alive_and_nothing_else(
    base: Base,
) -> None:
    """[C5] [S2] [fault 27] Other attempts of the worker could not end otherwise than well while a handler's
    own transaction was open, nor could it ask what it holds; but nobody may declare it dead meanwhile."""
    store, worker, lane = await base.store(), await base.worker(), await base.lane()
    await store.enqueue([NewJob(task="t", payload="{}", queue=base.queue)] * 2)
    one, other = (await base.claim(lane, worker, 2)).jobs
    handler = await base.session()
    await handler.begin()
    assert await handler.value(SAVE, worker, one.id, lane, one.claim, one.seq)
    outcome = Outcome(job=other, kind=Kind.RETRY, delay=60.0)
    async with within(5.0):
        assert (await store.finish(worker, 1, [outcome])).applied == 1
        assert [job.id for claim in await store.unfinished(worker) for job in claim.jobs] == [one.id]
        await store.heartbeat(worker)
        assert await store.rescue(worker, 1, DeathPolicy()) is None
    await handler.commit()
    assert await store.rescue(worker, 1, DeathPolicy()) is not None


async def test_an_old_snapshot_does_not_outlive_the_worker(base: Base) -> None:
    """[C5] [fault 25] It retired after the transaction began to see; its jobs are others' by then."""
    store, worker, lane = await base.store(), await base.worker(), await base.lane()
    await base.look.enqueue()
    (job,) = (await base.claim(lane, worker, 1)).jobs
    handler = await base.session()
    await handler.begin("repeatable read")
    await handler.value("SELECT 1")
    await store.retire(worker)
    with pytest.raises(asyncpg.SerializationError):
        await handler.value(SAVE, worker, job.id, lane, job.claim, job.seq)
    await handler.rollback()


async def test_p6_only_jobs_that_told_of_progress_leave_a_row_for_it(base: Base) -> None:
    """[P6] The others write what they wrote before: a row for a result, nothing without one."""
    store, worker = await base.store(), await base.worker()
    await store.enqueue([NewJob(task="t", payload="{}", queue=base.queue) for _ in range(9)])
    jobs = [job for claim in await store.claim(worker, [base.queue], 9) for job in claim.jobs]
    await store.checkpoint(worker, jobs[0], Checkpoint('"data alone"'))
    await store.checkpoint(worker, jobs[1], Checkpoint("null", done=1, total=2))
    outcomes = [Outcome(job=job, result="1" if place < 5 else None) for place, job in enumerate(jobs)]
    assert (await store.finish(worker, 1, outcomes)).applied == 9
    rows = await base.look.rows(
        "SELECT job, done, total, result FROM windlass.result WHERE job = ANY ($1) ORDER BY job, done",
        [job.id for job in jobs],
    )
    told = [(row["done"], row["total"]) for row in rows if row["result"] is None]
    assert (len(rows), told) == (6, [(1, 2)])
    assert await base.look.value("SELECT count(*) FROM windlass.checkpoint WHERE job = $1", jobs[1].id) == 0
