"""Groups, while transactions that add to them are open [W4]."""

import asyncio
import json

import asyncpg
import pytest

from tests.stock import BOTH
from tests.store.postgres.kit import Base, Session
from windlass.core.states import Kind

pytestmark = BOTH

SCANS = (
    "SELECT sum(idx_scan) FROM pg_stat_xact_user_tables "
    "WHERE relid IN ('windlass.group_job'::regclass, 'windlass.after_edge'::regclass)"
)
"""How often their indexes were asked, in this transaction and right before."""


async def opened(session: Session) -> int:
    job = await session.value(
        "SELECT job FROM windlass.enqueue_one('end', '{}', $1, 2::smallint, NULL, NULL, $2, 'skip', NULL)",
        session.queue,
        '{"group_end": true, "otherwise": "run"}',
    )
    return int(job)


async def settle(base: Base) -> None:
    while not (await base.look.row("SELECT * FROM windlass.follow(100)"))["around"]:
        pass
    await base.look.run("SELECT windlass.promote(100)")


async def test_w4_a_group_is_closed_when_those_who_add_to_it_are_done(alone: Base) -> None:
    """What they add is waited for, though nobody could see it when the group was closed."""
    lane, worker = await alone.lane(), await alone.worker()
    group = await opened(alone.look)
    producer, closer = await alone.sessions(2)
    await producer.begin()
    job = await producer.enqueue()
    await producer.run("SELECT windlass.add_to_group($1, $2)", group, [job])
    closing = asyncio.create_task(closer.value("SELECT windlass.close_group($1)", group))
    await alone.blocked(closer)
    await producer.commit()
    assert await closing is True
    await settle(alone)
    assert await alone.state(group) == "scheduled"
    assert await alone.drain(lane, worker) == [job, group]
    assert await alone.look.value("SELECT count(*) FROM windlass.after_edge") == 0


async def test_w4_a_group_that_was_closed_meanwhile_takes_nothing(alone: Base) -> None:
    group = await opened(alone.look)
    producer, closer = await alone.sessions(2)
    await closer.begin()
    assert await closer.value("SELECT windlass.close_group($1)", group)
    await producer.begin()
    job = await producer.enqueue()
    adding = asyncio.create_task(producer.run("SELECT windlass.add_to_group($1, $2)", group, [job]))
    await alone.blocked(producer)
    await closer.commit()
    with pytest.raises(asyncpg.PostgresError, match="takes no more jobs"):
        await adding
    await producer.rollback()
    await settle(alone)
    assert await alone.state(group) == "ready"


async def test_w4_a_job_that_ends_while_it_is_added_to_a_second_group_is_found(alone: Base) -> None:
    """Neither transaction sees the other."""
    lane, worker = await alone.lane(), await alone.worker()
    group = await opened(alone.look)
    job = await alone.look.enqueue()
    got = await alone.claim(lane, worker)
    producer, finisher = await alone.sessions(2)
    await producer.begin()
    await finisher.begin()
    await producer.run("SELECT windlass.add_to_group($1, $2)", group, [job])
    await alone.finish(worker, got.jobs, by=finisher)
    await finisher.commit()
    await producer.commit()
    await alone.look.run("SELECT windlass.close_group($1)", group)
    await settle(alone)
    assert await alone.drain(lane, worker) == [group]


async def test_w4_the_last_job_ends_while_somebody_adds(alone: Base) -> None:
    """Its end is not lost, and does not wait for the open transaction."""
    lane, worker = await alone.lane(), await alone.worker()
    group = await opened(alone.look)
    first = await alone.look.enqueue()
    await alone.look.run("SELECT windlass.add_to_group($1, $2)", group, [first])
    (producer,) = await alone.sessions(1)
    await producer.begin()
    second = await producer.enqueue()
    await producer.run("SELECT windlass.add_to_group($1, $2)", group, [second])
    got = await alone.claim(lane, worker)
    assert got.ids == [first]
    await alone.finish(worker, got.jobs)
    await settle(alone)
    await producer.commit()
    await alone.look.run("SELECT windlass.close_group($1)", group)
    assert await alone.drain(lane, worker) == [second]
    await settle(alone)
    assert await alone.drain(lane, worker) == [group]
    assert await alone.look.value("SELECT count(*) FROM windlass.after_edge") == 0


async def after(session: Session, *others: int) -> int:
    job = await session.value(
        "SELECT job FROM windlass.enqueue_one('t', '{}', $1, 2::smallint, NULL, NULL, $2, 'skip', NULL)",
        session.queue,
        json.dumps({"after": others, "otherwise": "run"}),
    )
    return int(job)


async def test_w4_two_that_close_a_circle_at_the_same_moment(alone: Base) -> None:
    """Neither transaction sees the other: one of them waits, and is refused."""
    groups = [await opened(alone.look) for _ in range(2)]
    first, second = await alone.sessions(2)
    await first.begin()
    await second.begin()
    link = await after(first, groups[1])
    await first.run("SELECT windlass.add_to_group($1, $2)", groups[0], [link])
    closes = await after(second, groups[0])
    adding = asyncio.create_task(second.run("SELECT windlass.add_to_group($1, $2)", groups[1], [closes]))
    await alone.blocked(second)
    await first.commit()
    with pytest.raises(asyncpg.PostgresError, match="each would wait for the other"):
        await adding
    await second.rollback()
    for group in groups[::-1]:
        await alone.look.run("SELECT windlass.close_group($1)", group)
    await settle(alone)
    assert [await alone.state(group) for group in groups] == ["scheduled", "ready"]


async def test_w4_who_adds_jobs_that_wait_for_nobody_is_not_held_up(alone: Base) -> None:
    groups = [await opened(alone.look) for _ in range(2)]
    first, second = await alone.sessions(2)
    await first.begin()
    await first.run("SELECT windlass.add_to_group($1, $2)", groups[0], [await after(first, groups[1])])
    await second.run("SELECT windlass.add_to_group($1, $2)", groups[1], [await second.enqueue()])
    await first.commit()


async def test_w4_the_doctor_finds_a_circle_that_somebody_has_made(alone: Base) -> None:
    """With functions of a version that let it be made."""
    store = await alone.store()
    looks = await alone.look.value("SELECT pg_get_functiondef('windlass.leads_to'::regproc)")
    await alone.look.run(
        "CREATE OR REPLACE FUNCTION windlass.leads_to(p_jobs bigint[], p_on bigint) RETURNS boolean "
        "LANGUAGE sql AS 'SELECT false'"
    )
    group, fine = await opened(alone.look), await opened(alone.look)
    await alone.look.run("SELECT windlass.add_to_group($1, $2)", fine, [await after(alone.look, group)])
    between = await after(alone.look, group)
    job = await after(alone.look, await alone.look.enqueue(), between)
    await alone.look.run("SELECT windlass.add_to_group($1, $2)", group, [await alone.look.enqueue(), job])
    await alone.look.run(looks)
    (found,) = [each for each in await store.diagnose() if each.name == "groups"]
    assert found.level == "error"
    assert found.text.startswith(f"group {group} waits for job {job}, which comes after it")
    assert found.advice == f"windlass job cancel {job}"
    assert await store.cancel([job]) == {job: "cancelled"}
    (found,) = [each for each in await store.diagnose() if each.name == "groups"]
    assert found.level == "ok"


async def test_w4_a_dead_job_is_retried_while_its_end_reaches_the_group(alone: Base) -> None:
    """The group waits for it again, though nobody could see yet that it had ceased to."""
    lane, worker = await alone.lane(), await alone.worker()
    group = await opened(alone.look)
    job = await alone.look.enqueue()
    await alone.look.run("SELECT windlass.add_to_group($1, $2)", group, [job])
    got = await alone.claim(lane, worker)
    await alone.finish(worker, got.jobs, Kind.DEAD)
    follower, operator = await alone.sessions(2)
    await follower.begin()
    await follower.run("SELECT windlass.follow(100)")
    await operator.begin()
    retrying = asyncio.create_task(operator.value("SELECT windlass.retry($1)", job))
    await alone.blocked(operator)
    await follower.commit()
    assert await retrying == "retried"
    await operator.commit()
    await alone.look.run("SELECT windlass.close_group($1)", group)
    await settle(alone)
    assert await alone.state(group) == "scheduled"
    assert await alone.drain(lane, worker) == [job, group]


async def test_w4_a_dead_job_is_retried_between_the_look_at_it_and_the_group(alone: Base) -> None:
    """Whoever tells the group of its end has seen it dead, and has yet to take the group."""
    lane, worker = await alone.lane(), await alone.worker()
    group = await opened(alone.look)
    job = await alone.look.enqueue()
    await alone.look.run("SELECT windlass.add_to_group($1, $2)", group, [job])
    await settle(alone)  # fresh edges are looked at more than once
    got = await alone.claim(lane, worker)
    await alone.finish(worker, got.jobs, Kind.DEAD)
    holder, follower, operator = await alone.sessions(3)
    await stop_after_the_look(alone, holder, follower)
    following = asyncio.create_task(follower.run("SELECT windlass.follow(100)"))
    await alone.blocked(follower)
    retrying = asyncio.create_task(operator.value("SELECT windlass.retry($1)", job))
    held_up = asyncio.create_task(alone.blocked(operator))
    await asyncio.wait({retrying, held_up}, return_when=asyncio.FIRST_COMPLETED)
    held_up.cancel()
    await holder.rollback()
    await following
    assert await retrying == "retried"
    await alone.look.run("SELECT windlass.close_group($1)", group)
    await settle(alone)
    assert await alone.state(group) == "scheduled"
    assert await alone.drain(lane, worker) == [job, group]


async def stop_after_the_look(base: Base, holder: Session, looker: Session) -> None:
    """A session waits after each look at how a job stands, until the holder rolls back."""
    look = await base.look.value("SELECT pg_get_functiondef('windlass.standing_of'::regproc)")
    await base.look.run(look.replace("windlass.standing_of", "windlass.standing_at_first"))
    await base.look.run(
        "CREATE OR REPLACE FUNCTION windlass.standing_of(p_job bigint) "
        "RETURNS TABLE (state text, attempt smallint) LANGUAGE plpgsql AS $$ BEGIN "
        "RETURN QUERY SELECT * FROM windlass.standing_at_first(p_job); "
        "PERFORM pg_advisory_xact_lock_shared(77) WHERE current_setting('test.stops', true) = 'on'; "
        "END $$"
    )
    await holder.begin()
    await holder.run("SELECT pg_advisory_xact_lock(77)")
    await looker.run("SELECT set_config('test.stops', 'on', false)")


async def test_w4_a_chain_is_not_walked_where_nobody_comes_after_the_group(alone: Base) -> None:
    """Each job of it was looked at for each that was added: it took the square of its length."""
    group, job = await opened(alone.look), await alone.look.enqueue()
    for _ in range(30):
        job = await after(alone.look, job)
    await alone.look.begin()
    before = await alone.look.value(SCANS)
    await alone.look.run("SELECT windlass.add_to_group($1, $2)", group, [job])
    assert await alone.look.value(SCANS) - before < 15
    await alone.look.rollback()


async def test_w4_the_doctor_does_not_walk_over_groups_that_have_ended(alone: Base) -> None:
    lane, worker = await alone.lane(), await alone.worker()
    groups = [await opened(alone.look) for _ in range(30)]
    for group in groups:
        await alone.look.run("SELECT windlass.add_to_group($1, $2)", group, [await alone.look.enqueue()])
        await alone.look.run("SELECT windlass.close_group($1)", group)
    while (got := await alone.claim(lane, worker)).jobs:
        await alone.finish(worker, got.jobs)
        await settle(alone)
    await alone.look.begin()
    before = await alone.look.value(SCANS)
    assert await alone.look.rows("SELECT * FROM windlass.group_circles(10)") == []
    assert await alone.look.value(SCANS) - before < 10
    await alone.look.rollback()
