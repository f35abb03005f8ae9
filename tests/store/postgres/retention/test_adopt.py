"""A restored or switched-over copy, and sequences that stand behind what they have given out [rule 15]."""

import asyncio
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from tests.chaos.test_restore import restore, run
from tests.postgres import Server
from tests.stopwatch import within
from tests.store.postgres.families import plan
from tests.store.postgres.kit import Base, connect
from tests.store.postgres.ring import Ring
from tests.store.postgres.waiting import LOOK, suspended
from windlass.core.states import Kind
from windlass.errors import StoreCorrupt, WorkerLost
from windlass.store.postgres import PostgresStore
from windlass.store.records import SIGNAL, ClaimedJob, NewJob, Options, Step, Wait, WorkerInfo


def job(base: Base) -> NewJob:
    """A plain job for the test's queue."""
    return NewJob(task="t", payload="{}", queue=base.queue)


async def set_back(base: Base, lane: int, to: int) -> None:
    """What a restore without its sequences, or a careless setval, leaves behind."""
    await base.look.run("SELECT setval(position, $2) FROM windlass.lane WHERE id = $1", lane, to)


async def test_a_sequence_set_back_is_found_and_mended(alone: Base) -> None:
    """[rule 15] Claims say so and take nothing; the next open adopts, and every job is there, each once."""
    lane, worker = await alone.lane(), await alone.worker()
    jobs = [await alone.look.enqueue() for _ in range(6)]
    store = await alone.store()
    first, second, third = (await alone.claim(lane, worker, 3)).jobs
    await alone.finish(worker, [first])
    await set_back(alone, lane, 2)
    with pytest.raises(
        StoreCorrupt, match=r"the sequence of lane \d+ stands at 2, below its cursor 3.*adopt"
    ):
        await store.claim(worker, [alone.queue], 10)

    again = await alone.store()
    with pytest.raises(WorkerLost):
        await again.heartbeat(worker)
    new = (await again.enqueue([job(alone)]))[0].id
    assert new & (1 << 44) - 1 > 6, "no number is given out twice"
    other = await alone.worker()
    ran = await alone.drain(lane, other)
    assert sorted(ran) == sorted([second.id, third.id, *jobs[3:], new])
    assert await alone.depth(lane) == 0


async def test_a_sequence_below_a_job_taken_ahead_is_set_back_too(alone: Base) -> None:
    """[rule 13] [rule 15] The number it would give out next is one that every claim passes over."""
    lane, worker = await alone.lane(), await alone.worker()
    jobs = [await alone.look.enqueue() for _ in range(3)]
    assert await alone.look.value("SELECT windlass.cancel($1)", jobs[2]) == "cancelled"
    await Ring(alone, await alone.session()).turn(9)  # the cancelled row is gone, the cursor still knows it
    await set_back(alone, lane, 2)
    with pytest.raises(asyncpg.PostgresError) as refused:
        await alone.claim(lane, worker)
    assert refused.value.sqlstate == "WL004"
    store = await alone.store()
    new = (await store.enqueue([job(alone)]))[0].id
    assert await alone.drain(lane, await alone.worker()) == [*jobs[:2], new]


async def test_claim_numbers_set_back_are_found_and_mended(alone: Base) -> None:
    """[rule 2] [rule 15] The newest claim would not be the cursor, and its jobs would be given out again."""
    lane, worker = await alone.lane(), await alone.worker()
    jobs = [await alone.look.enqueue() for _ in range(4)]
    taken = (await alone.claim(lane, worker, 1)).ids
    taken += (await alone.claim(lane, worker, 1)).ids
    await alone.look.run("SELECT setval('windlass.claim_id', 1)")
    for sql in ("SELECT windlass.cancel($1)", "SELECT windlass.delete($1)"):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await alone.look.value(sql, jobs[3])
        assert refused.value.sqlstate == "WL004"
    with pytest.raises(asyncpg.PostgresError) as refused:
        await alone.claim(lane, worker, 1)
    assert refused.value.sqlstate == "WL004"
    await alone.store()
    assert sorted(await alone.drain(lane, await alone.worker())) == jobs, "the running ones were released"
    assert taken == jobs[:2]


async def test_ids_of_scheduled_jobs_are_not_given_out_again(alone: Base) -> None:
    """[rule 4] [rule 15] Every sequence is set to at least what was given out, not only those of lanes."""
    lane = await alone.lane()
    later = [await alone.look.enqueue(delay=timedelta(hours=1)) for _ in range(3)]
    ready = await alone.look.enqueue(unique_key="k")
    await alone.claim(lane, await alone.worker())
    await set_back(alone, lane, 1)
    await alone.look.run("SELECT setval('windlass.job_id', 1), setval('windlass.lane_id', 1, false)")
    await alone.look.run("UPDATE windlass.meta SET database = 0")
    await alone.store()
    assert await alone.look.enqueue(delay=timedelta(hours=1)) > max(*later, ready)
    assert await alone.lane("another") > lane


async def test_ends_are_noted_though_the_sequence_of_notes_was_not_copied(alone: Base) -> None:
    """[rule 15] [P12] Logical replication brings rows, but no sequences."""
    lane, worker = await alone.lane(), await alone.worker()
    first, second = await alone.look.enqueue(), await alone.look.enqueue()
    after = [await alone.look.enqueue(after=[job]) for job in (first, second)]
    got = await alone.claim(lane, worker)
    await alone.finish(worker, got.jobs[:1], Kind.DEAD)
    await alone.look.run("SELECT setval('windlass.after_due_id_seq', 1, false)")
    await alone.look.run("UPDATE windlass.meta SET database = 0")
    store = await alone.store()
    worker = await alone.worker()
    got = await alone.claim(lane, worker)
    assert got.ids == [second]
    await alone.finish(worker, got.jobs, Kind.DEAD)
    await store.promote()
    assert [await alone.state(job) for job in after] == ["dead", "dead"]


@pytest.mark.parametrize("adopted", [True, False])
async def test_w4_a_group_takes_jobs_though_its_sequence_was_not_copied(alone: Base, adopted: bool) -> None:
    """[rule 15] [W4] Also before the store is adopted. They were left out without a word."""
    await alone.lane()
    options = Options(group_end=True, otherwise="run")
    store = await alone.store()
    (group,) = await store.enqueue([NewJob(task="end", payload="{}", queue=alone.queue, options=options)])
    before = await store.enqueue_in_group(group.id, [job(alone)] * 2)
    for sequence in ("group_job_no_seq", "job_id"):
        await alone.look.run(f"ALTER SEQUENCE windlass.{sequence} RESTART")
    await alone.look.run("UPDATE windlass.meta SET database = 0")
    if adopted:
        store = await alone.store()
    else:
        await alone.look.run("DELETE FROM windlass.epoch_mark")  # as a recovery does
    after = await store.enqueue_in_group(group.id, [job(alone)] * 2)
    jobs = [receipt.id for receipt in (*before, *after)]
    assert await store.group_jobs(group.id) == jobs


async def test_signals_go_on_though_their_sequences_were_not_copied(alone: Base) -> None:
    """[rule 15] [W1] [W2] Their numbers say in which order signals are taken, and each is given out once."""
    lane, worker, job = await suspended(alone)
    (sender,) = await alone.sessions(1)
    await sender.begin()  # so that all of them leave notes
    for value in ("0", "1", "2"):
        await sender.value("SELECT windlass.signal($1, 'go', $2::json)", job.id, value)
    await sender.commit()
    store = await alone.store()
    await alone.look.run(LOOK)  # which ends the wait that the job was put off for
    (job,) = (await alone.claim_late(lane, worker)).jobs
    await store.save_step(worker, job, Step(name="first", code="c", attempt=1))
    await alone.look.run("SELECT setval('windlass.signal_no', 1, false)")
    await alone.look.run("UPDATE windlass.meta SET database = 0")
    store, worker = await alone.store(), await alone.worker()
    for value in ("3", "4", "5"):
        await store.signal(job.id, "go", value)
    (job,) = (await alone.claim_late(lane, worker)).jobs
    taken = [await store.wait_for_signal(worker, job, Wait(name=f"wait:{n}", signal="go")) for n in range(5)]
    assert [each.step.result for each in taken if each.step is not None] == ["1", "2", "3", "4", "5"]
    names = [step.name for step in await store.steps(job.id)]
    assert names == ["wait:go", "first", *(f"wait:{n}" for n in range(5))]


async def test_w1_w2_a_copy_knows_steps_sleeps_waits_and_signals(alone: Base) -> None:
    """[rule 15] Also where it has come without its sequences. What ran goes on behind its steps."""
    lane, worker = await alone.lane(), await alone.worker()
    store = await alone.store()
    for _ in range(3):
        await alone.look.enqueue()
    asleep, waits, ran = (await alone.claim(lane, worker)).jobs
    wait = Wait(name="wait:go", signal="go", timeout=3600)
    for job in (asleep, waits, ran):
        await store.save_step(worker, job, Step(name="plan", result=str(job.seq)))
    await store.save_step(worker, asleep, Step(name="sleep", sleep=3600))
    for job in (waits, ran):
        assert (await store.wait_for_signal(worker, job, wait)).step is None
    await alone.finish(worker, [asleep, waits], Kind.SNOOZE, delay=3600)
    await store.signal(ran.id, "go", '"kept"')
    await alone.look.run("SELECT setval('windlass.signal_no', 1, false)")
    await alone.look.run("UPDATE windlass.meta SET database = 0")

    copy = await alone.store()
    other = await alone.worker()
    with pytest.raises(WorkerLost):
        await copy.save_step(worker, ran, Step(name="late"))
    (again,) = (await alone.claim_late(lane, other)).jobs
    assert again.id == ran.id
    taken = await copy.wait_for_signal(other, again, wait)
    assert taken.step is not None
    assert (taken.step.code, taken.step.result) == (SIGNAL, '"kept"')
    more = Wait(name="wait:go#2", signal="go")
    assert (await copy.wait_for_signal(other, again, more)).step is None
    await copy.save_step(other, again, Step(name="after"))
    assert [step.name for step in await copy.steps(ran.id)] == ["plan", "wait:go", "after"]

    assert [await alone.state(job.id) for job in (asleep, waits)] == ["scheduled"] * 2
    plan, sleep = await copy.steps(asleep.id)
    assert plan.result == str(asleep.seq)
    assert sleep.left == pytest.approx(3600, abs=60)
    assert {each.job for each in await copy.waits()} == {waits.id}
    assert await copy.signal(waits.id, "go", "1") == "delivered"
    (goes_on,) = (await alone.claim_late(lane, other)).jobs
    assert (goes_on.id, goes_on.attempt) == (waits.id, 1)
    assert (await copy.wait_for_signal(other, goes_on, wait)).step is not None


async def test_a_copy_goes_its_own_way(pg_server: Server, pg_template: str) -> None:
    """[rule 15] [fault 24] The original's workers are dead there; what they held and what waited runs."""
    name = pg_server.create_database(template=pg_template)
    original = PostgresStore(pg_server.dsn(name))
    await original.open()
    await original.register(WorkerInfo(id=1))
    new = NewJob(task="t", payload="{}", queue="q")
    jobs = [receipt.id for receipt in await original.enqueue([new] * 4)]
    producer = await connect(pg_server.dsn(name), "q")
    await producer.begin()
    await producer.enqueue()  # a number that will never be filled in the copy
    await original.enqueue([new])
    (claim,) = await original.claim(1, ["q"], 3)
    await original.close()
    await producer.connection.close()
    copy = pg_server.create_database(template=name)
    try:
        store = PostgresStore(pg_server.dsn(copy), head_cache=0.0)
        await store.open()
        await store.register(WorkerInfo(id=2))
        with pytest.raises(WorkerLost):
            await store.heartbeat(1)
        ran: list[int] = []
        async with within(10):
            while (await store.depth())["q"].ready:
                ran += [held.id for batch in await store.claim(2, ["q"], 10) for held in batch.jobs]
        assert set(ran) >= set(jobs)
        assert len(ran) == len(set(ran)) == 5
        await store.close()
        await original.open()
        assert await original.unfinished(1) == [claim]
        await original.close()
    finally:
        pg_server.drop_database(copy)
        pg_server.drop_database(name)


async def test_a_heartbeat_in_a_restored_copy_says_that_it_was_not_adopted(
    alone: Base, pg_server: Server, tmp_path: Path
) -> None:
    """[S3] The mark of the epoch came with the dump, and the worker, which is alive elsewhere."""
    worker, path = await alone.worker(), tmp_path / "dump"
    await run(pg_server, "pg_dump", "-Fc", "-f", str(path), alone.dsn)
    copy = await alone.session(await restore(pg_server, path))
    with pytest.raises(asyncpg.PostgresError, match="was not adopted since"):
        await copy.value("SELECT windlass.heartbeat($1)", worker)


async def test_of_two_that_open_a_copy_at_once_only_one_adopts_it(alone: Base) -> None:
    """[rule 15] The second must not declare the workers dead that came after the first."""
    await alone.lane()
    one, two = await alone.sessions(2)
    await alone.look.run("UPDATE windlass.meta SET database = 0")
    await one.begin()
    await one.run("SELECT windlass.adopt(false)")
    second = asyncio.create_task(two.value("SELECT windlass.adopt(false)"))
    await alone.blocked(two)
    await one.run("SELECT windlass.register(7, 'w', 'here', 1, '{}')")
    await one.commit()
    assert await second == 0
    assert await two.value("SELECT windlass.heartbeat(7)") == []


async def test_orphans_are_offered_again(alone: Base) -> None:
    """[rule 15] Rows behind the cursor that no claim covers, as a partial restore may leave them."""
    lane, worker = await alone.lane(), await alone.worker()
    jobs = [await alone.look.enqueue() for _ in range(4)]
    await alone.claim(lane, worker, 3)
    await alone.look.run("UPDATE windlass.claim SET seqs = '{[2,3)}', n = 1 WHERE worker = $1", worker)
    assert await alone.look.value("SELECT windlass.adopt()") == 3, "two orphans, and one that ran"
    assert sorted(await alone.drain(lane, await alone.worker())) == jobs


async def missed_edit(base: Base) -> tuple[int, ClaimedJob]:
    """A job that runs, and an enqueue of its key that met it waiting and was committed after its claim."""
    lane, worker = await base.lane(), await base.worker()
    twin = await base.look.enqueue(unique_key="k")
    (producer,) = await base.sessions(1)
    await producer.begin()
    assert await producer.enqueue(unique_key="k") == twin
    (job,) = (await base.claim(lane, worker)).jobs
    await producer.commit()
    return worker, job


async def test_adopting_keeps_the_edit_that_a_parent_has_missed(alone: Base) -> None:
    """[E6] [rule 15] The parent goes on with its parts in the copy; its edit was forgotten."""
    worker, job = await missed_edit(alone)
    store = await alone.store()
    await store.split(worker, 1, job, plan(2))
    await alone.look.run("SELECT windlass.adopt()")
    other = await alone.worker()
    for _ in range(2):
        assert len(await alone.drain(job.lane, other)) == 1, "the parts"
        await alone.look.run("SELECT windlass.advance($1)", job.id)
    assert len(await alone.drain(job.lane, other)) == 1, "and the edit, once"


async def test_adopting_keeps_the_edit_of_a_job_whose_key_was_held(alone: Base) -> None:
    """[E6] [rule 15] It has ended, and its key is still to be freed; the edit was forgotten."""
    lane, worker = await alone.lane(), await alone.worker()
    twin = await alone.look.enqueue(unique_key="k")
    (producer,) = await alone.sessions(1)
    await producer.begin()
    assert await producer.enqueue(unique_key="k") == twin
    (job,) = (await alone.claim(lane, worker)).jobs
    await alone.finish(worker, [job])
    await producer.commit()
    await alone.look.run("SELECT windlass.adopt()")
    assert await alone.look.value("SELECT windlass.settle_rest(100)") == 1
    assert len(await alone.drain(lane, await alone.worker())) == 1


async def test_adopting_keeps_the_edit_of_a_job_that_it_cancels(alone: Base) -> None:
    """[E6] [O5] [rule 15] Its cancel was asked for while it ran; the edit was forgotten with it."""
    worker, job = await missed_edit(alone)
    assert await alone.look.value("SELECT windlass.cancel($1)", job.id) == "requested"
    await alone.look.run("SELECT windlass.adopt()")
    assert await alone.state(job.id) == "cancelled"
    assert len(await alone.drain(job.lane, await alone.worker())) == 1
    assert worker


async def test_an_edit_that_the_next_attempt_sees_is_not_run_twice(alone: Base) -> None:
    """[E6] [rule 15] The job begins anew in the copy, after the edit."""
    _, job = await missed_edit(alone)
    await alone.look.run("SELECT windlass.adopt()")
    assert await alone.drain(job.lane, await alone.worker()) == [job.id]


async def test_adopting_and_retrying_many_do_not_wait_for_each_other(alone: Base) -> None:
    """[rule 15] [O6] A retry holds a partition of ready and comes for ready itself; adopt came the other way
    round, and one of them died of the deadlock."""
    lane, worker = await alone.lane(), await alone.worker()
    dead = await alone.look.enqueue()
    await alone.finish(worker, (await alone.claim(lane, worker)).jobs, Kind.DEAD)
    holder, retrier, adopter = await alone.sessions(3)
    await holder.begin()
    await holder.run("LOCK TABLE windlass.failure IN ACCESS EXCLUSIVE MODE")  # where a rotation would hold it
    retry = asyncio.create_task(retrier.value("SELECT windlass.retry_many($1::bigint[])", [dead]))
    await alone.blocked(retrier)
    adopt = asyncio.create_task(adopter.value("SELECT windlass.adopt()"))
    await asyncio.wait([adopt], timeout=0.3)
    await holder.commit()
    assert await retry == [dead]
    assert await adopt == 0
    assert await alone.drain(lane, await alone.worker()) == [dead]


async def test_no_epoch_begins_while_a_lane_is_being_declared(alone: Base) -> None:
    """[S3] The lane was left in the old epoch, where nobody offers anything: its jobs waited for good."""
    store = await alone.store()
    declaring = await alone.session()
    await declaring.begin()
    await declaring.run("SELECT windlass.ensure_lane('late', 2::smallint)")
    with pytest.raises(asyncpg.LockNotAvailableError):
        await alone.look.run("SELECT windlass.adopt()")
    await declaring.commit()
    await alone.look.run("SELECT windlass.adopt()")
    await store.enqueue([NewJob(task="t", payload="{}", queue="late")])
    await store.promote()
    assert (await store.depth())["late"].ready == 1


async def test_a_lane_waits_for_the_epoch_that_begins(alone: Base) -> None:
    """[S3] The other way round: it is one of the new epoch."""
    adopting, declaring = await alone.sessions(2)
    await adopting.begin()
    await adopting.run("SELECT windlass.adopt()")
    lane = asyncio.create_task(declaring.value("SELECT windlass.ensure_lane('late', 2::smallint)"))
    await alone.blocked(declaring)
    await adopting.commit()
    assert await lane is not None
    assert await declaring.value("SELECT windlass.lane_for('late', 2::smallint, '')") == await lane


async def test_a_producer_of_a_new_queue_is_not_refused_before_adoption(alone: Base) -> None:
    """[S3] Only jobs for queues that the store had declared before were taken; others met an error."""
    store = await alone.store()
    await store.enqueue([job(alone)])
    await alone.look.run("DELETE FROM windlass.epoch_mark")  # as a recovery does
    await store.enqueue([NewJob(task="t", payload="{}", queue="fresh")])
    await store.promote()
    assert (await store.depth())["fresh"].ready == 1
