"""Unique and idempotency keys held by transactions that are still open [E6] [E7]."""

import asyncio

import asyncpg
import pytest

from tests.store.postgres.kit import Base, Isolation, Session
from windlass.core.states import Kind

REST = "SELECT windlass.settle_rest(100)"
ONE = "SELECT job, status FROM windlass.enqueue_one('edit', '{}', $1, 2::smallint, NULL, NULL, $2, $3, $4)"


async def enqueue(session: Session, *, policy: str = "skip", key: str | None = None) -> tuple[int, str]:
    """A job with the unique key "k" of the test's queue, or with an idempotency key: its id and status."""
    options = None if key else f'{{"unique_key": "{session.queue}"}}'
    row = await session.row(ONE, session.queue, options, policy, key)
    return row["job"], row["status"]


async def test_a_skip_that_commits_after_its_twin_was_claimed_gets_its_rerun(base: Base) -> None:
    """[E6] It met the twin waiting; the twin started without seeing the edit."""
    lane, worker = await base.lane(), await base.worker()
    twin, _ = await enqueue(base.look)
    (producer,) = await base.sessions(1)
    await producer.begin()
    assert await enqueue(producer) == (twin, "skipped")
    got = await base.claim(lane, worker)
    assert got.ids == [twin]
    await producer.commit()
    await base.finish(worker, got.jobs)
    assert len(await base.drain(lane, worker)) == 1


async def test_a_skip_that_commits_before_its_twin_is_claimed_needs_no_rerun(base: Base) -> None:
    """[E6] The twin starts with the edit in sight."""
    lane, worker = await base.lane(), await base.worker()
    twin, _ = await enqueue(base.look)
    assert await enqueue(base.look) == (twin, "skipped")
    got = await base.claim(lane, worker)
    await base.finish(worker, got.jobs)
    assert await base.drain(lane, worker) == []


async def test_a_second_attempt_that_saw_the_edit_needs_no_rerun(base: Base) -> None:
    """[E6] The first attempt missed it and failed; the one that counts is the one that ended the job."""
    lane, worker = await base.lane(), await base.worker()
    twin, _ = await enqueue(base.look)
    (producer,) = await base.sessions(1)
    await producer.begin()
    await enqueue(producer)
    got = await base.claim(lane, worker)
    await producer.commit()
    await base.finish(worker, got.jobs, Kind.RETRY)
    got = await base.claim(lane, worker)
    assert (got.ids, got.jobs[0].attempt) == ([twin], 2)
    await base.finish(worker, got.jobs)
    assert await base.drain(lane, worker) == []


@pytest.mark.parametrize(("committed", "reruns"), [(True, 1), (False, 0)])
async def test_a_twin_ends_without_waiting_for_a_producer_that_holds_its_key(
    alone: Base, committed: bool, reruns: int
) -> None:
    """[E6] The key is freed later; the edit counts if it was committed."""
    lane, worker = await alone.lane(), await alone.worker()
    twin, _ = await enqueue(alone.look)
    got = await alone.claim(lane, worker)
    (producer,) = await alone.sessions(1)
    hasty = await alone.session(lock_timeout="1ms")
    await producer.begin()
    assert await enqueue(producer) == (twin, "rerun")
    assert (await alone.finish(worker, got.jobs, by=hasty)).applied == 1
    assert await hasty.value(REST) == 0
    await (producer.commit() if committed else producer.rollback())
    assert await hasty.value(REST) == 1
    assert len(await alone.drain(lane, worker)) == reruns
    assert (await enqueue(alone.look))[1] == "enqueued"


async def test_an_enqueue_takes_over_the_key_of_a_job_that_has_ended(alone: Base) -> None:
    """[E6] The key could not be freed with its job; the next one does not wait for that."""
    lane, worker = await alone.lane(), await alone.worker()
    await enqueue(alone.look)
    got = await alone.claim(lane, worker)
    (producer,) = await alone.sessions(1)
    await producer.begin()
    await enqueue(producer)
    await alone.finish(worker, got.jobs)
    await producer.rollback()
    job, status = await enqueue(alone.look, policy="reject")
    assert status == "enqueued"
    assert await alone.look.value("SELECT count(*) FROM windlass.unsettled") == 0
    assert await alone.drain(lane, worker) == [job]


@pytest.mark.parametrize("policy", ["skip", "replace", "reject"])
@pytest.mark.parametrize("committed", [True, False])
async def test_two_first_holders_of_a_key_take_turns(base: Base, policy: str, committed: bool) -> None:
    """[E6] The second waits to learn whether the first exists at all."""
    lane, worker = await base.lane(), await base.worker()
    one, two = await base.sessions(2)
    await one.begin()
    first, _ = await enqueue(one, policy=policy)
    second = asyncio.create_task(enqueue(two, policy=policy))
    await base.blocked(two)
    await (one.commit() if committed else one.rollback())
    if not committed:
        job, status = await second
        assert (status, await base.drain(lane, worker)) == ("enqueued", [job])
    elif policy == "reject":
        with pytest.raises(asyncpg.PostgresError, match="is held by job") as refused:
            await second
        assert (refused.value.sqlstate, refused.value.detail) == ("WL001", str(first))
    else:
        assert (await second)[1] == ("skipped" if policy == "skip" else "replaced")


@pytest.mark.parametrize("committed", [True, False])
async def test_an_idempotency_key_under_way_is_waited_for(base: Base, committed: bool) -> None:
    """[E7] Exactly one job, whichever of the two transactions survives."""
    lane, worker = await base.lane(), await base.worker()
    one, two = await base.sessions(2)
    await one.begin()
    first, _ = await enqueue(one, key=base.queue)
    second = asyncio.create_task(enqueue(two, key=base.queue))
    await base.blocked(two)
    await (one.commit() if committed else one.rollback())
    job, status = await second
    assert (status, job == first) == (("repeated", True) if committed else ("enqueued", False))
    assert await base.drain(lane, worker) == [job]


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_a_snapshot_that_cannot_see_the_holder_of_a_key_fails(base: Base, isolation: Isolation) -> None:
    """[E6] [E7] Two jobs for one key is not an answer; the caller runs its transaction again."""
    await base.lane()
    (old,) = await base.sessions(1)
    for key in (None, base.queue):
        await old.begin(isolation)
        await old.value("SELECT 1")
        await enqueue(base.look, key=key)
        with pytest.raises(asyncpg.SerializationError):
            await enqueue(old, key=key)
        await old.rollback()
        assert (await enqueue(old, key=key))[1] == ("repeated" if key else "skipped")


async def test_a_key_that_is_taken_anew_while_it_expires_is_kept(alone: Base) -> None:
    """[E7] It was read as old, waited for, and deleted all the same: sent again, its job became two."""
    await alone.lane()
    clock = await alone.clock()
    old, _ = await enqueue(alone.look, key="k")
    await clock.advance(25 * 3600)
    producer, keeper = await alone.sessions(2)
    await producer.begin()
    job, status = await enqueue(producer, key="k")
    assert (job != old, status) == (True, "enqueued")
    expiring = asyncio.create_task(keeper.value("SELECT keys FROM windlass.expire(100)"))
    await alone.until(
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND (state = 'idle' "
        "OR cardinality(pg_blocking_pids(pid)) > 0) AND query ~ 'expire')",
        keeper.pid,
    )
    await producer.commit()
    await expiring
    assert await enqueue(alone.look, key="k") == (job, "repeated")


@pytest.mark.parametrize("committed", [True, False])
async def test_a_key_that_nobody_takes_anew_expires(alone: Base, committed: bool) -> None:
    """[E7] With the next step, where somebody held it in this one."""
    await alone.lane()
    clock = await alone.clock()
    await enqueue(alone.look, key="k")
    await clock.advance(25 * 3600)
    (producer,) = await alone.sessions(1)
    await producer.begin()
    await enqueue(producer, key="k")
    assert await alone.look.value("SELECT keys FROM windlass.expire(100)") == 0
    await (producer.commit() if committed else producer.rollback())
    assert await alone.look.value("SELECT keys FROM windlass.expire(100)") == (0 if committed else 1)
