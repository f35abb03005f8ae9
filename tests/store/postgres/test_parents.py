"""Parents whose parts end at the same moment, and whoever else wants something of them then [P4] [P9]."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from tests.conformance.kit import failure
from tests.store.postgres.families import Family, family, plan, started
from tests.store.postgres.kit import Base, Session
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind, State
from windlass.store.records import Checkpoint, ClaimedJob, NewJob, Options, Outcome

ADVANCE = "SELECT windlass.advance($1)"
SPLIT = "SELECT windlass.split($1, $2, $3, $4, $5, $6, $7, $8, 8, 0, false)"


async def ended(family: Family, session: Session, job: ClaimedJob, flush: int) -> None:
    """A part that succeeds in a transaction of this session, which stays open."""
    await session.begin()
    assert (await family.base.finish(family.worker, [job], flush=flush, by=session)).applied == 1


async def test_the_last_two_parts_end_at_once_and_the_finalizer_is_offered_once(base: Base) -> None:
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


async def test_a_cancel_that_comes_while_the_next_part_is_offered_takes_that_one_along(base: Base) -> None:
    """[P9] The offer and the cancel take turns: what is out is cancelled, and nothing comes after."""
    kin = await family(base, 5, parallel=1)
    (job,) = await kin.claim()
    offerer, canceller = await base.sessions(2)
    await ended(kin, offerer, job, 2)
    await offerer.commit()
    await offerer.begin()
    assert await offerer.value(ADVANCE, kin.id) == "waiting"
    late = asyncio.create_task(canceller.value("SELECT windlass.cancel($1)", kin.id))
    await base.blocked(canceller)
    await offerer.commit()
    assert await late == "requested"
    found = await kin.look()
    assert (found.state, found.succeeded, found.cancelled, found.out) == (State.CANCELLED, 1, 1, 0)
    assert await kin.claim() == []


async def test_a_part_that_ends_while_its_parent_is_cancelled_counts_as_what_it_was(base: Base) -> None:
    """[P9] [O5] Finished first: its success stands, and nothing more is offered."""
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


async def test_a_dead_worker_splits_nothing(base: Base) -> None:
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
    assert (found.state, found.cancelled) == (State.CANCELLED, 1)


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


async def test_a_retry_of_a_part_that_is_being_deleted_waits_for_that(base: Base) -> None:
    """[P9] Else the parent would wait again, for a part that never comes."""
    kin = await family(base, 1)
    (job,) = await kin.claim()
    await kin.store.finish(kin.worker, 2, [Outcome(job=job, kind=Kind.DEAD, error=failure())])
    deleter, other = await base.sessions(2)
    await deleter.begin()
    assert await deleter.value("SELECT windlass.delete($1)", job.id) == "deleted"
    late = asyncio.create_task(other.value("SELECT windlass.retry($1)", job.id))
    await base.blocked(other)
    await deleter.commit()
    assert await late == "not_found"
    found = await kin.look()
    assert (found.state, found.out, found.dead) == (State.DEAD, 0, 1)


async def test_what_is_decided_of_a_parent_is_decided_after_whoever_has_it(base: Base) -> None:
    """[P9] A claim that wants more parts meets a cancel: it looks at the parent once it has it."""
    kin = await family(base, 5)
    canceller, claimer = await base.sessions(2)
    await canceller.begin()
    assert await canceller.value("SELECT windlass.cancel($1)", kin.id) == "requested"
    late = asyncio.create_task(claimer.value("SELECT windlass.advance($1, NULL, 3)", kin.id))
    await base.blocked(claimer)
    await canceller.commit()
    assert await late == "cancelled"
    assert await kin.claim() == []
    assert (await kin.look()).out == 0


async def test_a_part_whose_options_cannot_be_read_ends_for_its_parent_too(alone: Base) -> None:
    """[P9] [fault 17] It runs with the defaults, so its worker does not know that it is a part."""
    store, worker, first = await started(alone)
    await store.split(worker, 1, first, plan(1))
    await alone.look.run(
        """UPDATE windlass.ready SET options = '{"timeout": "soon"}' WHERE options IS NOT NULL"""
    )
    (claim,) = await store.claim(worker, [alone.queue], 1)
    assert claim.jobs[0].options.part is None
    await store.finish(worker, 2, [Outcome(job=claim.jobs[0])])
    await store.promote()
    assert await alone.state(first.id) == "succeeded"


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


async def test_a_parent_that_was_held_hears_later_that_its_part_was_claimed(base: Base) -> None:
    """[P8] [S2] Its worker has no slot left and claims nothing more, and nobody else finds a part: without
    another word the other parts would wait until the first one ends."""
    kin = await family(base, 3)
    (keeper,) = await base.sessions(1)
    await keeper.begin()
    await keeper.run("SELECT FROM windlass.parent WHERE id = $1 FOR UPDATE", kin.id)
    assert len(await kin.claim(1)) == 1
    await keeper.rollback()
    await base.until(f"SELECT out = 2 FROM windlass.parent WHERE id = {kin.id}")
    assert len(await kin.claim(1)) == 1


async def test_a_claim_gives_out_its_parts_though_their_parent_cannot_be_told(
    alone: Base, caplog: pytest.LogCaptureFixture
) -> None:
    """[P8] They are claimed, so they are to be run; and the parent hears of it once it can."""
    kin = await family(alone, 3)
    await alone.look.run("ALTER TABLE windlass.part ADD CONSTRAINT broken CHECK (NOT claimed) NOT VALID")
    assert len(await kin.claim(1)) == 1
    assert f"parent {kin.id} has not recorded yet" in caplog.text
    await alone.look.run("ALTER TABLE windlass.part DROP CONSTRAINT broken")
    await alone.until(f"SELECT out = 2 FROM windlass.parent WHERE id = {kin.id}")


async def test_a_dropped_parent_is_gone_at_once_and_its_parts_step_by_step(alone: Base) -> None:
    """[K6] [P9] Nobody can redrive one that has lost some of its parts."""
    kin = await family(alone, 4)
    clock = await alone.clock()
    jobs = await kin.claim()
    await kin.store.checkpoint(kin.worker, jobs[0], Checkpoint("1"))
    outcomes = [Outcome(job=job, kind=Kind.DEAD if job in jobs[::3] else Kind.SUCCEEDED) for job in jobs]
    await kin.store.finish(kin.worker, 2, outcomes)
    assert (await kin.look()).state is State.DEAD
    await clock.advance(90 * 86400)
    step = await kin.store.expire(limit=2)
    assert (step.parents, step.more) == (1, True)
    assert await kin.store.parent(kin.id) is None
    assert await kin.store.redrive(kin.id) == 0
    assert await kin.store.retry([kin.id]) == {kin.id: "not_found"}
    assert await kin.store.parts(kin.id) == []
    assert await alone.look.value("SELECT count(*) FROM windlass.part") == 2
    assert (await kin.store.expire(limit=2)).more
    assert not (await kin.store.expire(limit=2)).more
    for table in ("part", "dropped_parent", "checkpoint"):
        assert await alone.look.value(f"SELECT count(*) FROM windlass.{table}") == 0


async def test_a_deleted_parent_leaves_nothing_behind(alone: Base) -> None:
    """[O5] [P9] The same way as an expired one."""
    kin = await family(alone, 3)
    await kin.store.finish(kin.worker, 2, [Outcome(job=job) for job in await kin.claim()])
    assert await kin.store.delete([kin.id]) == {kin.id: "deleted"}
    assert await kin.store.job(kin.id) is None
    assert not (await kin.store.expire()).more
    for table in ("part", "dropped_parent", "part_event"):
        assert await alone.look.value(f"SELECT count(*) FROM windlass.{table}") == 0


SETTLE = "SELECT windlass.settle_rest(100)"
RETRY = "SELECT windlass.retry($1)"


async def keeping_its_key(base: Base) -> Family:
    """A parent that is dead, and whose unique key was left to settle_rest: a producer held the key's row."""
    store, worker, job = await started(base, unique_key="k")
    await store.split(worker, 1, job, plan(1))
    group = Family(base, store, worker, job.id)
    (part,) = await group.claim()
    (producer,) = await base.sessions(1)
    await producer.begin()
    await producer.run("SELECT FROM windlass.unique_key WHERE key = 'k' FOR UPDATE")
    await store.finish(worker, 2, [Outcome(job=part, kind=Kind.DEAD, error=failure())])
    await store.promote()
    assert (await group.look()).state == "dead"
    await producer.rollback()
    return group


async def key_is_its_own(group: Family) -> None:
    """A twin does not come in beside it, nor after another look at what is to be settled."""
    await group.store.promote()
    twin = NewJob(task="t", payload="{}", queue=group.base.queue, options=Options(unique_key="k"))
    (receipt,) = await group.store.enqueue([twin])
    assert (receipt.id, receipt.status) == (group.id, "rerun")


async def test_a_parent_that_comes_back_keeps_the_key_that_its_end_could_not_free(alone: Base) -> None:
    """[E6] [P9] It was to be freed later. Once the parent waits again it must not be: a twin would come in
    beside it."""
    group = await keeping_its_key(alone)
    assert await group.store.redrive(group.id) == 1
    await group.store.promote()
    await key_is_its_own(group)


async def test_the_key_of_a_parent_that_is_coming_back_is_not_freed(alone: Base) -> None:
    """[E6] [P9] Nobody else sees yet that it waits again; who brings it back has taken the note away."""
    group = await keeping_its_key(alone)
    (operator,) = await alone.sessions(1)
    await operator.begin()
    assert await operator.value(RETRY, group.id) == "retried"
    assert await alone.look.value(SETTLE) == 0
    await operator.commit()
    await key_is_its_own(group)


async def test_a_parent_that_comes_back_takes_a_key_again_that_is_being_freed(alone: Base) -> None:
    """[E6] [P9] It found its key where it was, waited for the note to be removed, and went on without a key.
    Before it, one is freed that owes a rerun, and that is held up, as by an adoption."""
    (producer,) = await alone.sessions(1)
    lane, worker = await alone.lane(), await alone.worker()
    await alone.look.enqueue(unique_key="first")
    got = await alone.claim(lane, worker)
    await producer.begin()
    await producer.enqueue(unique_key="first")
    await alone.finish(worker, got.jobs)
    group = await keeping_its_key(alone)
    await producer.commit()
    holder, settler, operator = await alone.sessions(3)
    await holder.begin()
    await holder.run("LOCK TABLE ONLY windlass.ready IN SHARE ROW EXCLUSIVE MODE")
    settled = asyncio.create_task(settler.value(SETTLE))
    await alone.blocked(settler)
    retried = asyncio.create_task(operator.value(RETRY, group.id))
    await alone.blocked(operator)
    await holder.commit()
    assert (await settled, await retried) == (2, "retried")
    await key_is_its_own(group)
