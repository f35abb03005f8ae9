"""The last step of a rotation against those who look at the moment it is taken [rule 7].

TRUNCATE is not MVCC-safe: a snapshot older than the step sees neither the old row nor the new one. So whoever
decides something by a job's place must take its lock first and look afterwards.
"""

import asyncio
from typing import Any

import asyncpg
import pytest

from tests.store.postgres.kit import Base
from tests.store.postgres.ring import Ring
from windlass.core.states import Kind
from windlass.store.records import JobRecord

WAITING = "SELECT count(*) > 0 FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0"
"""Whether anybody waits for a lock."""


async def running(base: Base, **options: Any) -> tuple[int, int, Any]:
    """A running job whose row and claim lie in one segment: (worker, job, claim)."""
    lane, worker = await base.lane(), await base.worker()
    job = await base.look.enqueue(**options)
    return worker, job, await base.claim(lane, worker)


async def at_the_last_step(base: Base) -> Ring:
    """A rotation whose last step is taken and not committed."""
    ring = Ring(base, await base.session())
    await ring.prepare()
    await ring.session.begin()
    assert await ring.reclaim() >= 1
    return ring


async def test_a_cancel_during_the_last_step_finds_the_running_job(alone: Base) -> None:
    """[rule 7] [O5] It waits for the lock; the job is running before and after."""
    worker, job, _ = await running(alone)
    (operator,) = await alone.sessions(1)
    ring = await at_the_last_step(alone)
    cancel = asyncio.create_task(operator.value("SELECT windlass.cancel($1)", job))
    await alone.blocked(operator)
    await ring.session.commit()
    assert await cancel == "requested"
    assert await alone.look.value("SELECT windlass.heartbeat($1)", worker) == [job]


async def test_a_unique_enqueue_during_the_last_step_finds_the_running_twin(alone: Base) -> None:
    """[rule 7] [E6] It must not take the key over from a job that still runs."""
    worker, job, got = await running(alone, unique_key="k")
    (producer,) = await alone.sessions(1)
    ring = await at_the_last_step(alone)
    enqueue = asyncio.create_task(producer.enqueue("again", unique_key="k"))
    await alone.blocked(producer)
    await ring.session.commit()
    assert await enqueue == job
    assert (await alone.finish(worker, got.jobs)).applied == 1


async def test_a_look_up_during_the_last_step_finds_the_running_job(alone: Base) -> None:
    """[rule 7] A job that exists is found at every moment."""
    _, job, _ = await running(alone)
    store = await alone.store(pool_size=1)
    ring = await at_the_last_step(alone)
    look: asyncio.Task[JobRecord | None] = asyncio.create_task(store.job(job))
    await alone.until(
        "SELECT count(*) > 0 FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0"
    )
    await ring.session.commit()
    found = await look
    assert found is not None
    assert found.state.value == "running"


async def test_a_worker_that_lists_its_claims_during_the_last_step_finds_them_all(alone: Base) -> None:
    """[rule 6] [rule 7] After a lost answer it releases what it finds: what it misses would never run."""
    worker, job, _ = await running(alone)
    store = await alone.store(pool_size=1)
    ring = await at_the_last_step(alone)
    listing = asyncio.create_task(store.unfinished(worker))
    await alone.until(WAITING)
    await ring.session.commit()
    assert [held.id for claim in await listing for held in claim.jobs] == [job]


async def test_a_finish_with_a_snapshot_older_than_the_last_step_must_be_tried_again(alone: Base) -> None:
    """[rule 7] [C5] Neither applied nor taken for a repeat: a serialisation failure, then it works."""
    worker, job, got = await running(alone)
    (handler,) = await alone.sessions(1)
    await handler.begin("repeatable read")
    await handler.value("SELECT 1")
    await Ring(alone, await alone.session()).turn()
    with pytest.raises(asyncpg.SerializationError):
        await alone.finish(worker, got.jobs, flush=1, by=handler)
    await handler.rollback()
    assert await alone.state(job) == "running"
    assert (await alone.finish(worker, got.jobs, flush=1)).applied == 1
    assert await alone.state(job) == "succeeded"


@pytest.mark.parametrize("kind", [Kind.RETRY, Kind.SNOOZE, Kind.DEAD, Kind.RELEASED])
async def test_a_job_whose_row_an_old_snapshot_cannot_see_is_not_lost(alone: Base, kind: Kind) -> None:
    """[rule 7] [C5] The claim is visible, the row it speaks of was moved: it is not taken for nothing."""
    lane, worker = await alone.lane(), await alone.worker()
    job = await alone.look.enqueue()
    ring = Ring(alone, await alone.session())
    await ring.begin()  # from here on claims go into another segment than the row
    got = await alone.claim(lane, worker)
    (handler,) = await alone.sessions(1)
    await handler.begin("repeatable read")
    await handler.value("SELECT 1")
    await ring.turn()
    with pytest.raises(asyncpg.SerializationError):
        await alone.finish(worker, got.jobs, kind, delay=60.0, flush=1, by=handler)
    await handler.rollback()
    assert await alone.state(job) == "running"
    assert (await alone.finish(worker, got.jobs, kind, delay=60.0, flush=1)).applied == 1
    assert await alone.state(job) == {"retry": "retrying", "dead": "dead"}.get(kind.value, "scheduled")


async def test_a_unique_enqueue_with_a_snapshot_older_than_the_last_step_must_be_tried_again(
    alone: Base,
) -> None:
    """[rule 7] [E6] It sees the key and not the twin that holds it: that is no reason to take it over."""
    worker, job, got = await running(alone, unique_key="k")
    (producer,) = await alone.sessions(1)
    await producer.begin("repeatable read")
    await producer.value("SELECT 1")
    await Ring(alone, await alone.session()).turn()
    with pytest.raises(asyncpg.SerializationError):
        await producer.enqueue("again", unique_key="k")
    await producer.rollback()
    assert await producer.enqueue("again", unique_key="k") == job
    assert (await alone.finish(worker, got.jobs)).applied == 1
    assert len(await alone.drain(await alone.lane(), worker)) == 1


async def test_a_cancel_request_outlives_a_look_during_the_last_step(alone: Base) -> None:
    """[rule 7] [O5] Old requests go when their job has ended, and a carried job has not."""
    clock = await alone.clock()
    worker, job, _ = await running(alone)
    assert await alone.look.value("SELECT windlass.cancel($1)", job) == "requested"
    await clock.advance(120)
    (sweeper,) = await alone.sessions(1)
    ring = await at_the_last_step(alone)
    sweep = asyncio.create_task(sweeper.run("SELECT windlass.expire(10)"))
    await alone.blocked(sweeper)
    await ring.session.commit()
    await sweep
    assert await alone.look.value("SELECT windlass.heartbeat($1)", worker) == [job]


async def test_a_delete_that_meets_a_move_removes_the_row_where_it_went(alone: Base) -> None:
    """[rule 7] [O5] The job ended after the move had looked at it; deleted means no longer found."""
    lane, worker = await alone.lane(), await alone.worker()
    job = await alone.look.enqueue()
    ring = Ring(alone, await alone.session())
    await ring.begin()  # claims go into another segment from here on, so the row has to follow
    got = await alone.claim(lane, worker)
    await ring.session.begin()
    assert (await ring.move(lane))[0] == 1
    await alone.finish(worker, got.jobs)
    (operator,) = await alone.sessions(1)
    delete = asyncio.create_task(operator.value("SELECT windlass.delete($1)", job))
    await alone.blocked(operator)
    await ring.session.commit()
    assert await delete == "deleted"
    assert await alone.state(job) is None
