"""Schedules that the models found: a rotator that slept through turns, a floor above a lost answer, a rescue
with an old snapshot, an adoption that meets a flush."""

import asyncpg
import pytest

from tests.store.postgres.claims.test_fence import LOCK, TAKE
from tests.store.postgres.kit import Base
from tests.store.postgres.ring import Ring
from windlass.core.retry import DeathPolicy

STEP = "SELECT * FROM windlass.rescue_step($1, '{0}', 100)"
KEPT = "SELECT victim IS NOT NULL AND carried_at IS NOT NULL FROM windlass.rotation"


async def test_a_rotator_that_slept_through_whole_turns_truncates_nothing(alone: Base) -> None:
    """[rule 7] It stands before its last step while others reclaim its victim, fill it again and judge it."""
    lane, worker = await alone.lane(), await alone.worker()
    slow, quick = (Ring(alone, session) for session in await alone.sessions(2))
    async for step in slow.steps(1000):
        if step == "judge":
            break
    victim, jobs = slow.victim, []
    await quick.begin()
    assert quick.victim == victim
    while True:
        await quick.turn()
        jobs.append(await alone.look.enqueue())
        await quick.begin()
        if quick.victim == victim:
            break
    assert await quick.seal() is None
    await quick.touch(lane)
    while await quick.judge():
        pass
    for step_again in (slow.reclaim, slow.judge, slow.seal):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await step_again()
        assert refused.value.sqlstate == "WL008"
    assert sorted(await alone.drain(lane, worker)) == sorted(jobs)


async def test_no_floor_rises_over_a_claim_whose_answer_was_lost(base: Base) -> None:
    """[rule 6] [C8] A later claim arrived and ended, and heartbeats go on; the lost one is still found."""
    lane, worker, other = await base.lane(), await base.worker(), await base.worker()
    store = await base.store()
    lost, kept = await base.look.enqueue(), await base.look.enqueue()
    await base.claim(lane, worker, 1)
    got = await base.claim(lane, worker, 1)
    assert got.ids == [kept]
    await base.finish(worker, got.jobs)
    for _ in range(3):
        await store.heartbeat(worker)
    assert [job.id for claim in await store.unfinished(worker) for job in claim.jobs] == [lost]
    rescued = await store.rescue(worker, 3, DeathPolicy())
    assert rescued is not None
    assert rescued.offered == 1
    assert (await base.claim(lane, other)).ids == [lost]


async def test_no_floor_rises_over_a_claim_that_an_old_snapshot_cannot_see(base: Base) -> None:
    """[rule 6] [rule 2] It has a lower number than one that has ended, and was committed after it."""
    lane, other, worker = await base.lane(), await base.lane(f"{base.queue}.2"), await base.worker()
    job = await base.look.enqueue()
    await base.look.enqueue(queue=f"{base.queue}.2")
    claiming, beating = await base.sessions(2)
    await claiming.begin()
    await claiming.run(LOCK, lane)
    await claiming.row(TAKE, lane, worker)
    await base.finish(worker, (await base.claim(other, worker)).jobs)
    await beating.begin("repeatable read")
    await beating.value("SELECT 1")
    await claiming.commit()
    await beating.value("SELECT windlass.heartbeat($1)", worker)
    await beating.commit()
    store = await base.store()
    assert [held.id for claim in await store.unfinished(worker) for held in claim.jobs] == [job]


async def test_a_floor_rises_over_any_number_of_claims(base: Base) -> None:
    """[rule 6] Some hundreds with each heartbeat: the next goes on where this one came to."""
    lane, worker, store = await base.lane(), await base.worker(), await base.store()
    many = "SELECT count(windlass.enqueue('t', queue => $1)) FROM generate_series(1, 505)"
    await base.look.value(many, base.queue)
    jobs = [job for _ in range(505) for job in (await base.claim(lane, worker, 1)).jobs]
    await base.finish(worker, jobs)
    for _ in range(2):
        await store.heartbeat(worker)
    floor = await base.look.value("SELECT floor FROM windlass.worker_heartbeat WHERE id = $1", worker)
    assert floor > max(job.claim for job in jobs)


async def test_a_floor_rises_over_what_has_ended(base: Base) -> None:
    """[rule 6] Else every look for a worker's jobs would walk over all that it ever did."""
    lane, worker = await base.lane(), await base.worker()
    store = await base.store()
    for _ in range(3):
        await base.look.enqueue()
        await base.finish(worker, (await base.claim(lane, worker)).jobs)
    await store.heartbeat(worker)
    await base.look.enqueue()
    running = await base.claim(lane, worker)
    await store.heartbeat(worker)
    floor = await base.look.value("SELECT floor FROM windlass.worker_heartbeat WHERE id = $1", worker)
    assert floor is not None
    assert running.claim - 3 < floor <= running.claim


async def test_a_rescue_with_an_old_snapshot_is_refused(alone: Base) -> None:
    """[rule 6] It could miss a claim that was carried meanwhile, and call the worker settled."""
    lane, worker, other = await alone.lane(), await alone.worker(), await alone.worker()
    job = await alone.look.enqueue()
    await alone.claim(lane, worker)
    assert await alone.look.value("SELECT windlass.declare_dead($1, 0)", worker)
    old = await alone.session()
    await old.begin("repeatable read")
    await old.value("SELECT count(*) FROM windlass.worker_life")
    await Ring(alone, await alone.session()).turn()
    with pytest.raises(asyncpg.PostgresError) as refused:
        await old.row(STEP, worker)
    assert refused.value.sqlstate == "WL006"
    await old.rollback()
    assert (await alone.look.row(STEP, worker))["offered"] == 1
    assert (await alone.claim(lane, other)).ids == [job]


async def test_an_adoption_does_not_wait_for_a_worker_that_waits_for_it(alone: Base) -> None:
    """[rule 15] A flush has its fence and wants to offer again; adopt has the log and wants the worker."""
    lane, worker = await alone.lane(), await alone.worker()
    job = await alone.look.enqueue()
    await alone.claim(lane, worker)
    flush, adopter = await alone.sessions(2)
    await flush.begin()
    await flush.run("SELECT windlass.worker_fence($1)", worker)
    with pytest.raises(asyncpg.LockNotAvailableError):
        await adopter.value("SELECT windlass.adopt()")
    await flush.enqueue()
    await flush.commit()
    assert await adopter.value("SELECT windlass.adopt()") == 1
    assert job in (await alone.claim(lane, await alone.worker())).ids


async def test_a_dump_that_began_before_a_turn_loses_nothing(alone: Base) -> None:
    """[rule 7] [fault 24] TRUNCATE heeds no snapshot: the victim outlasts whoever began before the moves."""
    lane, worker = await alone.lane(), await alone.worker()
    clock = await alone.clock()
    store = await alone.store(dump_grace=60.0)
    running, waiting = await alone.look.enqueue(), await alone.look.enqueue()
    await alone.claim(lane, worker, 1)
    await store.rotate()
    await clock.advance(8 * 86400)
    dump = await alone.session()
    await dump.begin("repeatable read")
    await dump.value("SELECT count(*) FROM windlass.meta")
    turn = await store.rotate()
    while not await alone.look.value(KEPT):
        await clock.advance(8 * 86400)
        turn = await store.rotate()
    assert (turn.reclaimed, turn.blocked) == (False, None)  # nobody is in the way of it
    seen = [row["id"] for row in await dump.rows("SELECT id FROM windlass.job ORDER BY id")]
    await dump.commit()
    assert seen == [running, waiting]
    await clock.advance(61)
    assert (await store.rotate()).reclaimed
    assert [await alone.state(job) for job in (running, waiting)] == ["running", "ready"]
