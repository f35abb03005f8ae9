"""Promotion where others hold what is due: it passes them, loses none, and reads little [S2] [fault 27]."""

from datetime import timedelta

import pytest

from tests.stopwatch import within
from tests.store.postgres.kit import Base, Session
from tests.store.postgres.plans import explained, plans

PROMOTE = "SELECT windlass.promote($1)"
DUE = "SELECT count(*) = $1 FROM windlass.deferred WHERE run_at <= clock_timestamp()"
LATER = """
SELECT array_agg(windlass.enqueue('t', queue => $1, run_at => now() + interval '1 ms' * (500 + $3 + i)))
  FROM generate_series(1, $2::int) AS i
"""
AT_ONCE = """
SELECT windlass.enqueue('t', to_json(ARRAY[repeat('x', 1000)]), queue => $1, run_at => now() + interval '1 s')
  FROM generate_series(1, 1000)
"""
SOON = timedelta(milliseconds=1)
LEFT = "SELECT count(*) FROM windlass.deferred_left"


async def later(base: Base, n: int, start: int = 0) -> list[int]:
    """Scheduled jobs, a millisecond after one another."""
    ids: list[int] = await base.look.value(LATER, base.queue, n, start)
    return ids


async def held(session: Session, ids: list[int]) -> None:
    """A transaction that deletes these and stays open."""
    await session.begin()
    await session.rows("SELECT windlass.delete(j) FROM unnest($1::bigint[]) AS j", ids)


async def promoted(base: Base, limit: int, steps: int) -> int:
    """So many steps, none of which may wait."""
    return sum([await base.look.value(PROMOTE, limit) for _ in range(steps)])


@pytest.mark.parametrize("n", [30, 300])
async def test_locked_jobs_that_are_due_first_do_not_starve_the_others(alone: Base, n: int) -> None:
    """A step looked at the first p_limit due rows and then skipped the locked ones among them: with 1,000 of
    them locked nothing was promoted any more."""
    lane, worker = await alone.lane(), await alone.worker()
    (other,) = await alone.sessions(1)
    ids = await later(alone, n)
    rest = await later(alone, 25, n)
    await held(other, ids)
    await alone.until(DUE, n + 25)
    assert await promoted(alone, 10, 6) == 25
    assert await alone.drain(lane, worker) == rest
    await other.rollback()
    assert await promoted(alone, 10, n // 10 + 1) == n
    assert sorted(await alone.drain(lane, worker)) == sorted(ids)
    assert await alone.look.value(LEFT) == 0


async def test_what_was_left_and_is_gone_is_forgotten(alone: Base) -> None:
    """Who had it locked has deleted it."""
    await alone.lane()
    (other,) = await alone.sessions(1)
    ids = await later(alone, 5)
    await held(other, ids[:3])
    await alone.until(DUE, 5)
    assert await promoted(alone, 10, 2) == 2
    assert await alone.look.value(LEFT) == 3
    await other.commit()
    assert await promoted(alone, 10, 1) == 0
    assert await alone.look.value(LEFT) == 0


async def test_a_late_job_that_was_locked_when_the_watermark_passed_is_not_lost(alone: Base) -> None:
    """It committed behind the watermark, and was locked when a step found it by its xid."""
    lane, worker = await alone.lane(), await alone.worker()
    producer, other = await alone.sessions(2)
    await producer.begin()
    late = await producer.enqueue(delay=SOON)
    (first,) = await later(alone, 1, 5)
    await alone.until(DUE, 1)
    assert await promoted(alone, 10, 1) == 1
    await producer.commit()
    await held(other, [late])
    for _ in range(3):
        (next_one,) = await later(alone, 1)
        await alone.until("SELECT run_at <= clock_timestamp() FROM windlass.deferred WHERE id = $1", next_one)
        assert await promoted(alone, 10, 1) == 1
    await other.rollback()
    assert await promoted(alone, 10, 1) == 1
    ran = await alone.drain(lane, worker)
    assert (ran[0], ran[-1], len(ran)) == (first, late, 5)


async def test_more_late_jobs_than_a_step_takes_are_found_behind_locked_ones(alone: Base) -> None:
    """The watermark's snapshot stays while there are more of them; locked ones do not come first again."""
    await alone.lane()
    producer, other = await alone.sessions(2)
    await producer.begin()
    late = [await producer.enqueue(delay=SOON) for _ in range(30)]
    await later(alone, 1, 5)
    await alone.until(DUE, 1)
    assert await promoted(alone, 5, 1) == 1
    await producer.commit()
    await held(other, late[:20])
    assert await promoted(alone, 5, 8) == 10
    await other.rollback()
    assert await promoted(alone, 5, 6) == 20


async def test_a_lane_that_somebody_is_about_to_declare_holds_up_only_its_own_jobs(alone: Base) -> None:
    """Declaring is done under a lock, which an open transaction may keep."""
    lane, worker = await alone.lane(), await alone.worker()
    (other,) = await alone.sessions(1)
    await other.begin()
    await other.value("SELECT windlass.declare_lane('new', 2::smallint)")
    waits = await alone.look.enqueue(queue="new", delay=SOON)
    (goes,) = await later(alone, 1, 1)
    await alone.until(DUE, 2)
    async with within(5):
        assert await promoted(alone, 10, 1) == 1
    assert await alone.drain(lane, worker) == [goes]
    await other.commit()
    assert await promoted(alone, 10, 1) == 1
    assert await alone.drain(await alone.lane("new"), worker) == [waits]


async def test_jobs_due_at_one_moment_are_not_read_again_with_each_step(alone: Base) -> None:
    """[rule 9] The watermark knew only the moment: each step read the dead rows of all before it, for as long
    as anybody held a snapshot."""
    await alone.lane()
    (reader,) = await alone.sessions(1)
    watched = await alone.session()
    await explained(watched)
    await watched.run("SET auto_explain.log_buffers = on")
    await alone.look.run(AT_ONCE, alone.queue)
    await alone.until(DUE, 1000)
    await reader.begin("repeatable read")
    await reader.value("SELECT count(*) FROM windlass.deferred")
    read: list[float] = []
    for _ in range(10):
        async with plans(watched) as found:
            assert await watched.value(PROMOTE, 100) == 100
        read.append(found.blocks("deferred"))
    await reader.rollback()
    assert max(read[5:]) <= 2 * max(read[:3]), read
