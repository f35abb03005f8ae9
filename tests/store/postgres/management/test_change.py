"""A waiting job is changed while others are at it [E8]: each schedule is forced, with the transaction of one
left open until the other waits for it or has passed over it [rule 13]."""

import asyncio
from datetime import timedelta

import pytest

from tests.store.postgres.kit import Base, answer

CHANGE = "SELECT windlass.change($1, p_payload => $2)"
TO = "SELECT windlass.change($1, p_queue => $2)"


async def test_a_change_waits_for_the_claim_in_flight_and_sees_it(base: Base) -> None:
    """[E8] [C1] The claim holds the lane; afterwards the job runs as it was."""
    lane, worker = await base.lane(), await base.worker()
    job = await base.look.enqueue(args='{"n": 1}')
    claimer, operator = await base.sessions(2)
    await claimer.begin()
    await claimer.run("SELECT pg_advisory_xact_lock(windlass.lock_space(), $1)", lane)
    got = answer(lane, await claimer.row("SELECT * FROM windlass.claim_take($1, $2, 10)", lane, worker))
    change = asyncio.create_task(operator.value(CHANGE, job, "[2]"))
    await base.blocked(operator)
    await claimer.commit()
    assert await change == "running"
    assert [(each.id, each.payload) for each in got.jobs] == [(job, '{"n": 1}')]
    assert await base.drain(lane, worker) == []


async def test_a_claim_comes_after_the_change_that_holds_the_lane(base: Base) -> None:
    """[E8] [C1] It is busy meanwhile, and then gives out what the job has become, once."""
    lane, worker = await base.lane(), await base.worker()
    job = await base.look.enqueue(args='{"n": 1}')
    (operator,) = await base.sessions(1)
    await operator.begin()
    assert await operator.value(CHANGE, job, "[2]") == "changed"
    assert (await base.claim(lane, worker)).status == "busy"
    await operator.commit()
    got = await base.claim(lane, worker)
    assert [(each.id, each.payload) for each in got.jobs] == [(job, "[2]")]
    assert (await base.drain(lane, worker), await base.depth(lane)) == ([], 0)


async def test_a_change_that_is_rolled_back_never_was(base: Base) -> None:
    """[E8] The job is where it was, as it was; the number that was drawn for it is passed over."""
    lane, worker = await base.lane(), await base.worker()
    job = await base.look.enqueue(args='{"n": 1}')
    (operator,) = await base.sessions(1)
    await operator.begin()
    assert await operator.value(CHANGE, job, "[2]") == "changed"
    await operator.rollback()
    got = await base.claim(lane, worker)
    assert [(each.id, each.payload) for each in got.jobs] == [(job, '{"n": 1}')]


async def test_two_changes_at_once_are_both_made(base: Base) -> None:
    """[E8] The second waits for the first, and changes what that has left."""
    lane, worker = await base.lane(), await base.worker()
    job = await base.look.enqueue()
    first, second = await base.sessions(2)
    await first.begin()
    assert await first.value(CHANGE, job, "[2]") == "changed"
    late = asyncio.create_task(
        second.value("""SELECT windlass.change($1, p_options => '{"max_attempts": 9}')""", job)
    )
    await base.blocked(second)
    await first.commit()
    assert await late == "changed"
    (got,) = (await base.claim(lane, worker)).jobs
    assert (got.id, got.payload, got.options.max_attempts) == (job, "[2]", 9)
    assert await base.drain(lane, worker) == []


async def test_a_cancel_that_waits_for_a_change_finds_the_job(base: Base) -> None:
    """[E8] [O5]"""
    lane, worker = await base.lane(), await base.worker()
    job = await base.look.enqueue()
    operator, other = await base.sessions(2)
    await operator.begin()
    assert await operator.value(CHANGE, job, "[2]") == "changed"
    cancel = asyncio.create_task(other.value("SELECT windlass.cancel($1)", job))
    await base.blocked(other)
    await operator.commit()
    assert await cancel == "cancelled"
    assert (await base.state(job), await base.drain(lane, worker)) == ("cancelled", [])


async def test_a_change_that_waits_for_a_cancel_changes_nothing(base: Base) -> None:
    """[E8] [O5]"""
    await base.lane()
    job = await base.look.enqueue()
    operator, other = await base.sessions(2)
    await operator.begin()
    assert await operator.value("SELECT windlass.cancel($1)", job) == "cancelled"
    change = asyncio.create_task(other.value(CHANGE, job, "[2]"))
    await base.blocked(other)
    await operator.commit()
    assert await change == "ended"
    assert await base.state(job) == "cancelled"


async def test_promotion_passes_over_a_job_that_is_being_changed(alone: Base) -> None:
    """[E8] [S2] It is promoted with the next step, though the watermark has passed its time."""
    lane, worker, clock = await alone.lane(), await alone.worker(), await alone.clock()
    job = await alone.look.enqueue(delay=timedelta(hours=1))
    (operator,) = await alone.sessions(1)
    await operator.begin()
    assert await operator.value(CHANGE, job, "[2]") == "changed"
    await clock.advance(3601)
    assert await alone.look.value("SELECT windlass.promote(100)") == 0
    await operator.commit()
    assert await alone.look.value("SELECT windlass.promote(100)") == 1
    got = await alone.claim(lane, worker)
    assert [(each.id, each.payload) for each in got.jobs] == [(job, "[2]")]


async def test_a_change_waits_for_the_promotion_in_flight(alone: Base) -> None:
    """[E8] Then the job is ready, and is changed there."""
    lane, worker, clock = await alone.lane(), await alone.worker(), await alone.clock()
    job = await alone.look.enqueue(delay=timedelta(hours=1))
    await clock.advance(3601)
    promoter, operator = await alone.sessions(2)
    await promoter.begin()
    assert await promoter.value("SELECT windlass.promote(100)") == 1
    change = asyncio.create_task(operator.value(CHANGE, job, "[2]"))
    await alone.blocked(operator)
    await promoter.commit()
    assert await change == "changed"
    got = await alone.claim(lane, worker)
    assert [(each.id, each.payload) for each in got.jobs] == [(job, "[2]")]


@pytest.mark.slow
async def test_rotation_leaves_a_segment_alone_while_a_change_is_open(alone: Base) -> None:
    """[E8] [rule 7] And carries on what it has made of the job, however often the ring turns."""
    lane, worker = await alone.lane(), await alone.worker()
    store = await alone.store()
    job = await alone.look.enqueue(args='{"n": 1}')
    (operator,) = await alone.sessions(1)
    await operator.begin()
    assert await operator.value(CHANGE, job, "[2]") == "changed"
    for _ in range(10):
        await store.rotate(force=True)
    await operator.commit()
    for _ in range(10):
        await store.rotate(force=True)
    got = await alone.claim(lane, worker)
    assert [(each.id, each.payload) for each in got.jobs] == [(job, "[2]")]
    assert await alone.drain(lane, worker) == []


async def test_a_job_taken_out_of_a_hole_is_changed_once(base: Base) -> None:
    """[E8] [rule 3] Below the cursor and not taken: the hole does not give it out as well."""
    lane, worker = await base.lane(), await base.worker()
    producer, other = await base.sessions(2)
    await producer.begin()
    late = await producer.enqueue()
    await other.enqueue()
    await base.claim(lane, worker)
    assert await base.look.value(CHANGE, late, "[2]") == "not_found"
    await producer.commit()
    assert await base.look.value(CHANGE, late, "[2]") == "changed"
    assert (await base.holes(lane), await base.depth(lane)) == (0, 1)
    assert await base.drain(lane, worker) == [late]


async def test_a_queue_that_nobody_knows_is_declared_or_waits_for_promotion(base: Base) -> None:
    """[E8] [rule 11] [S2] Where somebody is declaring it at that moment, nobody waits for that."""
    await base.lane()
    job = await base.look.enqueue()
    (declarer,) = await base.sessions(1)
    await declarer.begin()
    await declarer.value("SELECT windlass.declare_lane($1, 2::smallint)", base.queue + "-new")
    assert await base.look.value(TO, job, base.queue + "-new") == "changed"
    assert await base.state(job) == "scheduled"
    await declarer.commit()
    await base.look.value("SELECT windlass.promote(1000)")
    await base.until("SELECT state = 'ready' FROM windlass.job WHERE id = $1", job)
