"""Parents whose parts end at the same moment, and whoever else wants something of them then [P4] [P9]."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from tests.conformance.kit import failure
from tests.pg.families import Family, family, plan, started
from tests.pg.kit import Base, Session
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind, State
from windlass.store.records import Checkpoint, ClaimedJob, Outcome

ADVANCE = "SELECT windlass.advance($1)"
SPLIT = "SELECT windlass.split($1, $2, $3, $4, $5, $6, $7, $8, 8, 0, false)"


async def ended(family: Family, session: Session, job: ClaimedJob, flush: int) -> None:
    """A part that succeeds in a transaction of this session, which stays open."""
    await session.begin()
    assert (await family.base.finish(family.worker, [job], flush=flush, by=session)).applied == 1


async def test_the_last_two_parts_end_at_once_and_the_finalizer_is_released_once(base: Base) -> None:
    """[P9] Neither sees the other's end before it commits; whoever is second to look sees both."""
    kin = await family(base, 2, finalizer=True)
    first, second = await kin.claim()
    one, two = await base.sessions(2)
    await ended(kin, one, first, 2)
    await ended(kin, two, second, 3)
    await one.commit()
    assert await one.value(ADVANCE, kin.id) == "waiting"
    assert (await kin.look()).final is None, "the other part has not ended for anybody else"
    await two.commit()
    await one.begin()
    assert await one.value(ADVANCE, kin.id) == "waiting"
    late = asyncio.create_task(two.value(ADVANCE, kin.id))
    await base.blocked(two)
    await one.commit()
    assert await late == "waiting"
    (final,) = await kin.claim()
    part = final.options.part
    assert part is not None
    assert (part.parent, part.index, part.total) == (kin.id, -1, 2)
    await kin.store.finish(kin.worker, 4, [Outcome(job=final, result="7")])
    done = await kin.store.job(kin.id)
    assert done is not None
    assert (done.state, done.result) == (State.SUCCEEDED, "7")
    assert await kin.claim() == []


async def test_parts_that_end_at_once_wait_for_nobody(base: Base) -> None:
    """[P9] Ends are only noted, so even a parent that somebody has locked holds up no flush."""
    kin = await family(base, 2)
    first, second = await kin.claim()
    keeper, session = await base.session(), await base.session(lock_timeout="1ms")
    await keeper.begin()
    await keeper.run("SELECT FROM windlass.parent WHERE id = $1 FOR UPDATE", kin.id)
    assert (await base.finish(kin.worker, [first], flush=2, by=session)).applied == 1
    assert await session.value("SELECT windlass.advance($1, 1)", kin.id) == "busy"
    await kin.store.finish(kin.worker, 3, [Outcome(job=second)])
    await keeper.rollback()
    assert (await kin.look()).out == 2
    await kin.store.promote()
    assert (await kin.look()).state is State.SUCCEEDED


async def test_a_cancel_that_comes_while_the_next_part_is_released_takes_that_one_along(base: Base) -> None:
    """[P9] The release and the cancel take turns: what is out is cancelled, and nothing comes after."""
    kin = await family(base, 5, parallel=1)
    (job,) = await kin.claim()
    releaser, canceller = await base.sessions(2)
    await ended(kin, releaser, job, 2)
    await releaser.commit()
    await releaser.begin()
    assert await releaser.value(ADVANCE, kin.id) == "waiting"
    late = asyncio.create_task(canceller.value("SELECT windlass.cancel($1)", kin.id))
    await base.blocked(canceller)
    await releaser.commit()
    assert await late == "requested"
    found = await kin.look()
    assert (found.state, found.succeeded, found.cancelled, found.out) == (State.CANCELLED, 1, 1, 0)
    assert await kin.claim() == []


async def test_a_part_that_ends_while_its_parent_is_cancelled_counts_as_what_it_was(base: Base) -> None:
    """[P9] [O5] Finished first: its success stands, and nothing more is released."""
    kin = await family(base, 3, parallel=2)
    first, second = await kin.claim()
    canceller, worker = await base.sessions(2)
    await ended(kin, worker, first, 2)
    await canceller.begin()
    assert await canceller.value("SELECT windlass.cancel($1)", kin.id) == "requested"
    await worker.commit()
    late = asyncio.create_task(worker.value(ADVANCE, kin.id))
    await base.blocked(worker)
    await canceller.commit()
    assert await late == "waiting"
    await kin.store.finish(kin.worker, 3, [Outcome(job=second, kind=Kind.CANCELLED)])
    found = await kin.look()
    assert (found.state, found.succeeded, found.cancelled) == (State.CANCELLED, 1, 1)


async def test_a_parent_and_a_part_that_is_one_are_cancelled_at_once(base: Base) -> None:
    """[P9] Rows of parents come before lanes, all the way down: neither waits for what the other holds."""
    kin = await family(base, 2)
    (job,) = await kin.claim(1)
    await kin.store.split(kin.worker, 2, job, plan(2))
    keeper, above, below = await base.sessions(3)
    await keeper.begin()
    await keeper.run("SELECT pg_advisory_xact_lock(windlass.lock_space(), $1)", job.lane)
    both = []
    for session, id in ((above, kin.id), (below, job.id)):
        both.append(asyncio.create_task(session.value("SELECT windlass.cancel($1)", id)))
        await base.blocked(session)
    await keeper.commit()
    assert await both[0] == "requested"
    assert await both[1] == "finished", "its parent's cancel has ended it"
    assert (await kin.look()).state is State.CANCELLED


async def split(session: Session, worker: int, job: ClaimedJob, parts: int, flush: int = 1) -> str:
    """One call of the function."""
    answer: str = await session.value(
        SPLIT, worker, flush, job.id, job.lane, job.claim, job.seq, ["{}"] * parts, [1] * parts
    )
    return answer


async def test_a_split_that_is_sent_twice_at_once_happens_once(base: Base) -> None:
    """[P4] The second waits for the first and finds the parent there, or tries itself if that failed."""
    _, worker, job = await started(base)
    one, two = await base.sessions(2)
    await one.begin()
    assert await split(one, worker, job, 3) == "split"
    late = asyncio.create_task(split(two, worker, job, 3))
    await base.blocked(two)
    await one.commit()
    assert await late == "repeated"
    assert await base.look.value("SELECT count(*) FROM windlass.part WHERE parent = $1", job.id) == 3
    assert await split(two, worker, job, 3, flush=9) == "repeated", "it is known by its claim"
    _, worker, job = await started(base)
    await one.begin()
    await split(one, worker, job, 3)
    late = asyncio.create_task(split(two, worker, job, 3))
    await base.blocked(two)
    await one.rollback()
    assert await late == "split"


async def test_a_worker_that_was_buried_splits_nothing(base: Base) -> None:
    """[P4] [C5]"""
    store, worker, job = await started(base)
    assert await store.rescue(worker, 0, DeathPolicy()) is not None
    with pytest.raises(asyncpg.PostgresError) as refused:
        await split(base.look, worker, job, 3)
    assert refused.value.sqlstate == "WL002"
    assert await split(base.look, await base.worker(), job, 3) == "refused"
    assert await base.state(job.id) == "ready"


async def test_a_cancel_that_misses_the_split_by_a_moment_is_heard_by_promote(base: Base) -> None:
    """[P9] [O5] It saw the job running; the split could not see the wish yet."""
    store, worker, job = await started(base)
    splitter, canceller = await base.sessions(2)
    await splitter.begin()
    assert await split(splitter, worker, job, 2) == "split"
    assert await canceller.value("SELECT windlass.cancel($1)", job.id) == "requested"
    await splitter.commit()
    await store.promote()
    found = await store.parent(job.id)
    assert found is not None
    assert (found.state, found.cancelled) == (State.CANCELLED, 2)


async def test_a_retry_and_a_redrive_of_the_same_part_meet(base: Base) -> None:
    """[P9] Both take the parent first: the part runs once more, by one job."""
    kin = await family(base, 1)
    (job,) = await kin.claim()
    await kin.store.checkpoint(kin.worker, job, Checkpoint('{"n": 4}', 7, 10))
    await kin.store.finish(kin.worker, 2, [Outcome(job=job, kind=Kind.DEAD, error=failure())])
    operator, other = await base.sessions(2)
    await operator.begin()
    assert await operator.value("SELECT windlass.redrive($1)", kin.id) == 1
    late = asyncio.create_task(other.value("SELECT windlass.retry($1)", job.id))
    await base.blocked(other)
    await operator.commit()
    assert await late == "not_found"
    (again,) = await kin.claim()
    assert again.id != job.id
    saved = await kin.store.checkpoints([again.id])
    assert (saved[again.id].data, saved[again.id].done) == ('{"n": 4}', 7)
    found = await kin.look()
    assert (found.out, found.dead, found.done, found.records) == (1, 0, 7, 4)


async def test_a_part_may_be_split_itself(base: Base) -> None:
    """[P9] It is out until its own parts have ended; a cancel goes all the way down."""
    kin = await family(base, 2, parallel=1)
    for flush, end in ((2, State.SUCCEEDED), (4, State.CANCELLED)):
        (job,) = await kin.claim()
        await kin.store.split(kin.worker, flush, job, plan(1))
        assert (await kin.look()).out == 1
        if end is State.SUCCEEDED:
            await kin.store.finish(kin.worker, flush + 1, [Outcome(job=part) for part in await kin.claim()])
        else:
            assert await kin.store.cancel([kin.id]) == {kin.id: "requested"}
        found = await kin.store.job(job.id)
        assert found is not None
        assert found.state is end
        await kin.store.promote()
    done = await kin.look()
    assert (done.state, done.succeeded, done.cancelled) == (State.CANCELLED, 1, 1)


async def test_a_parent_that_cannot_be_brought_up_to_date_holds_up_no_other(
    alone: Base, caplog: pytest.LogCaptureFixture
) -> None:
    """[P9] Not the flush that ended its part, and not the rest of promote."""
    store, worker, first = await started(alone)
    await store.split(worker, 1, first, plan(1))
    (claim,) = await store.claim(worker, [alone.queue], 1)
    await alone.look.run(
        "ALTER TABLE windlass.part ADD CONSTRAINT broken CHECK (state <> 'succeeded') NOT VALID"
    )
    finished = await store.finish(worker, 2, [Outcome(job=claim.jobs[0])])
    assert finished.applied == 1
    later = await alone.look.enqueue(delay=timedelta(milliseconds=1))
    await alone.until("SELECT count(*) = 0 FROM windlass.deferred WHERE run_at > clock_timestamp()")
    await store.promote()
    assert await alone.state(later) == "ready"
    assert caplog.text.count(f"parent {first.id} was not brought up to date") == 2
    await alone.look.run("ALTER TABLE windlass.part DROP CONSTRAINT broken")
    await store.promote()
    assert await alone.state(first.id) == "succeeded"
