"""Waiting jobs taken ahead of the cursor: cancel and delete against claims, holes and promotion [rule 13]."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from tests.store.postgres.kit import Base, Isolation, answer

CANCEL = "SELECT windlass.cancel($1)"


async def test_a_job_visible_in_a_hole_is_cancelled_and_never_runs(base: Base) -> None:
    """[rule 13] [O5] Below the cursor and not taken: cancel takes it out of the hole."""
    lane, worker = await base.lane(), await base.worker()
    producer, other = await base.sessions(2)
    await producer.begin()
    late, kept = await producer.enqueue(), await producer.enqueue()
    await other.enqueue()
    await base.claim(lane, worker)
    assert await base.look.value(CANCEL, late) == "not_found"
    await producer.commit()
    assert await base.look.value(CANCEL, late) == "cancelled"
    assert (await base.holes(lane), await base.depth(lane)) == (1, 1)
    assert await base.drain(lane, worker) == [kept]
    assert (await base.state(late), await base.depth(lane)) == ("cancelled", 0)


async def test_a_burnt_hole_dies_though_a_cancel_emptied_the_older_generation(base: Base) -> None:
    """[rule 3] [rule 13] The young generation is left alone in the cursor, and needs a horizon to die by."""
    lane, worker = await base.lane(), await base.worker()
    first, second, other = await base.sessions(3)
    await first.begin()
    late = await first.enqueue()
    await other.enqueue()
    await base.claim(lane, worker)
    await second.begin()
    await second.enqueue()
    await other.enqueue()
    await base.claim(lane, worker)
    await first.commit()
    assert await base.look.value(CANCEL, late) == "cancelled"
    cursor = await base.cursor(lane)
    assert (cursor["old"], cursor["holes"]) == (None, 1)
    await second.rollback()
    assert await base.drain(lane, worker) == []
    assert (await base.holes(lane), await base.depth(lane)) == (0, 0)


async def test_a_cancel_waits_for_the_claim_in_flight_and_sees_it(base: Base) -> None:
    """[C1] [O5] The claim holds the lane; afterwards the job runs, and its worker is told."""
    lane, worker = await base.lane(), await base.worker()
    job = await base.look.enqueue()
    claimer, operator = await base.sessions(2)
    await claimer.begin()
    await claimer.run("SELECT pg_advisory_xact_lock(windlass.lock_space(), $1)", lane)
    got = answer(lane, await claimer.row("SELECT * FROM windlass.claim_take($1, $2, 10)", lane, worker))
    cancel = asyncio.create_task(operator.value(CANCEL, job))
    await base.blocked(operator)
    await claimer.commit()
    assert await cancel == "requested"
    assert await base.look.value("SELECT windlass.heartbeat($1)", worker) == [job]
    assert (await base.finish(worker, got.jobs)).applied == 1
    assert await base.state(job) == "succeeded", "finished first: succeeded stands"


async def test_a_cancel_that_rolls_back_leaves_the_job_waiting(base: Base) -> None:
    """[rule 13] The taking ahead is a claim row like any other: it commits or vanishes as a whole."""
    lane, worker = await base.lane(), await base.worker()
    jobs = [await base.look.enqueue() for _ in range(2)]
    (operator,) = await base.sessions(1)
    await operator.begin()
    assert await operator.value(CANCEL, jobs[0]) == "cancelled"
    assert (await base.claim(lane, worker)).status == "busy"
    await operator.rollback()
    assert await base.drain(lane, worker) == jobs


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_a_cancel_with_an_old_snapshot_is_refused(base: Base, isolation: Isolation) -> None:
    """[rule 2] It could set a cursor back, or miss a job that was moved: WL006, and nothing happened."""
    lane, worker = await base.lane(), await base.worker()
    running = await base.look.enqueue()
    await base.claim(lane, worker)
    waiting = await base.look.enqueue()
    scheduled = await base.look.enqueue(delay=timedelta(hours=1))
    (operator,) = await base.sessions(1)
    for job in (running, waiting, scheduled):
        await operator.begin(isolation)
        with pytest.raises(asyncpg.PostgresError) as refused:
            await operator.value(CANCEL, job)
        assert refused.value.sqlstate == "WL006"
        await operator.rollback()
    assert await base.drain(lane, worker) == [waiting]
    assert [await base.state(job) for job in (running, scheduled)] == ["running", "scheduled"]


@pytest.mark.parametrize("verb", ["cancel", "delete"])
async def test_a_job_that_is_being_promoted_is_cancelled_where_it_arrives(alone: Base, verb: str) -> None:
    """[O5] The scheduled row is gone when the lock on it is free; the job waits in its lane by then."""
    lane, worker = await alone.lane(), await alone.worker()
    coordinator, operator = await alone.sessions(2)
    job = await alone.look.enqueue(delay=timedelta(milliseconds=1))
    await alone.until("SELECT clock_timestamp() > run_at FROM windlass.deferred")
    await coordinator.begin()
    assert await coordinator.value("SELECT windlass.promote(10)") == 1
    ending = asyncio.create_task(operator.value(f"SELECT windlass.{verb}($1)", job))
    await alone.blocked(operator)
    await coordinator.commit()
    assert await ending == {"cancel": "cancelled", "delete": "deleted"}[verb]
    assert await alone.drain(lane, worker) == []
