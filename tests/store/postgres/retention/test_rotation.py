"""Who may keep a segment from being reclaimed, and that nobody loses anything by it [rule 7].

What happens between the steps is in `test_carry.py`, what happens during the last one in `test_reclaim.py`.
"""

import asyncio

import asyncpg
import pytest

from tests.stopwatch import within
from tests.store.postgres.kit import Base
from tests.store.postgres.ring import Ring

CURRENT = "SELECT last_value FROM windlass.segment_current"


async def test_a_producer_stopped_before_its_lock_writes_into_the_new_segment(alone: Base) -> None:
    """[rule 7] It has read the number of the current segment; the ring turns before it can lock that one."""
    lane, worker = await alone.lane(), await alone.worker()
    gate, producer = await alone.sessions(2)
    ring = Ring(alone, await alone.session())
    old = await alone.look.value(CURRENT)
    await gate.begin()
    await gate.run(f"LOCK TABLE ONLY windlass.ready_{old} IN SHARE MODE")
    await producer.begin()
    enqueue = asyncio.create_task(producer.enqueue())
    await alone.blocked(producer)
    assert await ring.begin() == old
    new = await alone.look.value(CURRENT)
    await gate.commit()
    job = await enqueue
    segment = "SELECT segment FROM windlass.ready WHERE lane = $1"
    assert (await producer.value(segment, lane), new != old) == (new, True)
    assert f"process {producer.pid} holds RowExclusiveLock" in str(await ring.seal())
    await producer.commit()
    assert await ring.seal() is None
    await ring.turn(9)
    assert await alone.drain(lane, worker) == [job]


async def test_a_producer_that_sleeps_through_a_whole_turn_loses_nothing(alone: Base) -> None:
    """[fault 12] Its segment is passed over, the others are reclaimed; then it commits, and its job runs."""
    lane, worker = await alone.lane(), await alone.worker()
    store = await alone.store()
    (producer,) = await alone.sessions(1)
    await producer.begin()
    late = await producer.enqueue()
    ran: list[int] = []
    jobs: list[int] = []
    reclaimed = 0
    for _ in range(18):
        jobs.append(await alone.look.enqueue())
        got = await alone.claim_late(lane, worker)
        await alone.finish(worker, got.jobs)
        ran += got.ids
        reclaimed += (await store.rotate(force=True)).reclaimed
    assert reclaimed >= 16
    assert ran == jobs
    await producer.commit()
    assert await alone.drain(lane, worker) == [late]
    for _ in range(9):
        assert (await store.rotate(force=True)).reclaimed
    assert await alone.drain(lane, worker) == []


async def test_a_long_reader_delays_the_last_step_only(alone: Base) -> None:
    """[rule 7] The lock is tried, not waited for: claims never queue up behind it."""
    lane, worker = await alone.lane(), await alone.worker()
    jobs = [await alone.look.enqueue() for _ in range(3)]
    store = await alone.store()
    (reader,) = await alone.sessions(1)
    await reader.begin("repeatable read")
    assert len(await reader.rows("SELECT id FROM windlass.job")) == 3
    turned = await store.rotate(force=True)
    assert (turned.reclaimed, turned.blocked is not None) == (False, True)
    hasty = await alone.session(lock_timeout="1ms")
    assert (await alone.claim(lane, worker, 1, by=hasty)).ids == jobs[:1]
    await reader.commit()
    assert (await store.rotate(force=True)).reclaimed
    assert await alone.drain(lane, worker) == jobs[1:]


async def test_a_claim_in_flight_makes_the_rotation_give_way(alone: Base) -> None:
    """[rule 7] Touching a lane waits 100 ms at most, and goes on where it stopped the next time."""
    lane, worker = await alone.lane(), await alone.worker()
    job = await alone.look.enqueue()
    store = await alone.store()
    (claimer,) = await alone.sessions(1)
    await claimer.begin()
    await claimer.run("SELECT pg_advisory_xact_lock(windlass.lock_space(), $1)", lane)
    async with within(10):
        assert (await store.rotate(force=True)).reclaimed is False
    await claimer.row("SELECT * FROM windlass.claim_take($1, $2, 1)", lane, worker)
    await claimer.commit()
    assert (await store.rotate(force=True)).reclaimed
    assert await alone.state(job) == "running"


async def test_a_second_rotator_finds_nothing_to_do_and_a_slow_one_is_refused(alone: Base) -> None:
    """[rule 7] Several at once do the work of one."""
    await alone.lane()
    first, second = (Ring(alone, session) for session in await alone.sessions(2))
    await first.session.begin()
    victim = await first.begin()
    assert await second.begin() is None
    await first.session.commit()
    await second.turn()
    assert victim is not None
    for step in (first.seal, first.judge, first.reclaim):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await step()
        assert refused.value.sqlstate == "WL008"


async def test_a_switch_whose_transaction_was_lost_is_made_good(alone: Base) -> None:
    """[rule 7] The current number obeys no transaction; what belongs beside it is written later."""
    lane, worker = await alone.lane(), await alone.worker()
    clock = await alone.clock()
    store = await alone.store()
    await store.rotate()
    jobs = [await alone.look.enqueue()]
    ring = Ring(alone, await alone.session())
    old = await alone.look.value(CURRENT)
    await ring.session.begin()
    await ring.begin()
    await ring.session.rollback()
    assert await alone.look.value(CURRENT) != old
    jobs.append(await alone.look.enqueue())
    await store.rotate()
    open_ended = "SELECT array_agg(no) FROM windlass.segment WHERE NOT empty AND closed_at IS NULL"
    assert await alone.look.value(open_ended) == [await alone.look.value(CURRENT)]
    await clock.advance(8 * 86400)
    assert (await store.rotate()).reclaimed
    assert await alone.look.value("SELECT count(*) FROM windlass.ready WHERE segment = $1", old) == 0
    assert await alone.drain(lane, worker) == jobs


async def test_a_row_that_no_rule_allows_is_offered_again_with_an_alarm(alone: Base) -> None:
    """[rule 7] A broken restore left a job behind the cursor and no claim that covers it."""
    lane, worker = await alone.lane(), await alone.worker()
    orphan, covered = [await alone.look.enqueue() for _ in range(2)]
    await alone.claim(lane, worker)
    await alone.look.run("UPDATE windlass.claim SET seqs = '{[2,3)}', n = 1 WHERE worker = $1", worker)
    store = await alone.store()
    turned = await store.rotate(force=True)
    assert (turned.reclaimed, turned.offered_again) == (True, 1)
    assert await alone.drain(lane, worker) == [orphan]
    assert await alone.state(covered) == "running"
