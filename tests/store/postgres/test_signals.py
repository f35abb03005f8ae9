"""Signals against suspended jobs, timeouts and cancels, in the orders in which they can be lost [W2]."""

import asyncio

import asyncpg
import pytest

from tests.stock import BOTH
from tests.store.postgres.kit import Base, Isolation
from tests.store.postgres.plans import blocks
from tests.store.postgres.waiting import LOOK, OWN, SEND, ask, begun, goes_on, suspended
from windlass.core.states import Kind
from windlass.store.records import Awaited, Wait

pytestmark = BOTH
ONE = "SELECT windlass.send_signal($1, 'go', '1', true, NULL, NULL)"
"""As a signal is sent that could not be answered at once, or may be sent once."""
HOLD = """
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('test.hold', true) = 'on' THEN
        PERFORM pg_advisory_xact_lock(74);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER hold BEFORE INSERT ON windlass.wait FOR EACH ROW EXECUTE FUNCTION hold();
"""
"""A session may be held up between the proof that its worker has the job and its wait."""


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
@pytest.mark.parametrize("first", ["sender", "flush"])
async def test_w2_neither_sees_the_other_and_the_job_goes_on(
    alone: Base, isolation: Isolation, first: str
) -> None:
    """The signal and the flush that suspends its job are both open; whoever commits last leaves a note."""
    lane, worker, job = await begun(alone)
    sender, flush = await alone.sessions(2)
    await sender.begin(isolation)
    await flush.begin()
    assert await sender.value(SEND, job.id) == "kept"
    await alone.finish(worker, [job], Kind.SNOOZE, delay=3600, by=flush)
    for session in (sender, flush) if first == "sender" else (flush, sender):
        await session.commit()
        await alone.look.run(LOOK)
    assert await goes_on(alone, lane, worker) == "answered"
    assert await alone.look.value("SELECT count(*) FROM windlass.signal_note") == 0


async def test_w2_a_look_between_the_two_commits_loses_nothing(alone: Base) -> None:
    """The look that finds the first note sees no reason to wake anybody, and takes it away."""
    lane, worker, job = await begun(alone)
    (sender,) = await alone.sessions(1)
    await sender.begin()
    await sender.value(SEND, job.id)
    await alone.finish(worker, [job], Kind.SNOOZE, delay=3600)
    assert await alone.look.value(LOOK) == 1
    assert (await alone.claim(lane, worker)).jobs == []
    await sender.commit()
    assert await alone.look.value(LOOK) == 1
    assert await goes_on(alone, lane, worker) == "answered"


async def test_w2_a_signal_that_is_registered_against_an_open_wait(alone: Base) -> None:
    """It commits after the wait has looked for it and before the wait itself is there."""
    lane, worker = await alone.lane(), await alone.worker()
    id = await alone.look.enqueue()
    (job,) = (await alone.claim(lane, worker)).jobs
    handler, sender = await alone.sessions(2)
    await handler.begin()
    assert await ask(handler, worker, job) == "waits"
    assert await sender.value(OWN, id) == "kept"
    await alone.look.run(LOOK)
    await handler.commit()
    await alone.finish(worker, [job], Kind.SNOOZE, delay=3600)
    assert await goes_on(alone, lane, worker) == "answered"


async def test_w2_two_signals_at_once_wake_the_job_once(alone: Base) -> None:
    lane, worker, job = await suspended(alone)
    one, other = await alone.sessions(2)
    await one.begin()
    await other.begin()
    assert await one.value(OWN, job.id) == "delivered"
    assert await other.value(OWN, job.id) == "delivered"
    await one.commit()
    await other.commit()
    await alone.look.run(LOOK)
    (again,) = (await alone.claim_late(lane, worker)).jobs
    assert await ask(alone.look, worker, again) == "answered"
    assert await alone.look.value("SELECT count(*) FROM windlass.signal WHERE job = $1", job.id) == 1


async def test_w2_a_signal_that_is_rolled_back_was_never_sent(alone: Base) -> None:
    lane, worker, job = await suspended(alone)
    (sender,) = await alone.sessions(1)
    await sender.begin()
    assert await sender.value(OWN, job.id) == "delivered"
    await sender.rollback()
    await alone.look.run(LOOK)
    assert (await alone.claim_late(lane, worker)).jobs == []
    assert await alone.state(job.id) == "scheduled"
    await alone.look.value(SEND, job.id)
    await alone.look.run(LOOK)
    assert await goes_on(alone, lane, worker) == "answered"


async def test_w2_an_open_sender_does_not_hold_up_the_timeout(alone: Base) -> None:
    """The wait has timed out then, and stays so; the signal is for the next one."""
    clock = await alone.clock()
    lane, worker, job = await suspended(alone, 100)
    (sender,) = await alone.sessions(1)
    await sender.begin("repeatable read")
    assert await sender.value(SEND, job.id) == "delivered"
    await clock.advance(200)
    assert await alone.look.value("SELECT windlass.promote(100)") == 1
    (again,) = (await alone.claim(lane, worker)).jobs
    assert await ask(alone.look, worker, again, 100) == "timeout"
    await sender.commit()
    await alone.look.run(LOOK)
    assert await ask(alone.look, worker, again, 100) == "timeout"
    assert await alone.look.value("SELECT count(*) FROM windlass.signal WHERE job = $1", job.id) == 1


async def test_w2_the_timeout_and_the_signal_offer_the_job_once(alone: Base) -> None:
    """Who promotes holds the job; the signal's note stays until that is decided, either way."""
    clock = await alone.clock()
    lane, worker, job = await suspended(alone, 100)
    await clock.advance(200)
    promoter, sender = await alone.sessions(2)
    await promoter.begin()
    assert await promoter.value("SELECT windlass.promote(100)") == 1
    assert await sender.value(OWN, job.id) == "delivered"
    assert await alone.look.value(LOOK) == 0
    await promoter.rollback()
    assert await alone.look.value(LOOK) == 1
    (again,) = (await alone.claim_late(lane, worker)).jobs
    assert await ask(alone.look, worker, again, 100) == "answered"
    await alone.look.run("SELECT windlass.promote(100)")
    assert (await alone.claim_late(lane, worker)).jobs == []


async def test_w2_a_signal_whose_job_goes_on_before_it_could_be_woken(alone: Base) -> None:
    """Its sender has seen the job wait. Then an operator lets the job go on, which looks, finds nothing, and
    waits once more, all before the sender commits. Found by reading: the sender left no note."""
    lane, worker, job = await suspended(alone)
    sender, slow = await alone.sessions(2)
    await slow.begin()
    await slow.run("LOCK TABLE windlass.signal IN SHARE MODE")
    await sender.begin()
    sending = asyncio.create_task(sender.value(ONE, job.id))
    await alone.blocked(sender)
    assert await alone.look.value("SELECT windlass.retry($1)", job.id) == "retried"
    await slow.commit()
    assert await sending == "delivered"
    (again,) = (await alone.claim_late(lane, worker)).jobs
    assert await ask(alone.look, worker, again) == "waits"
    await alone.finish(worker, [again], Kind.SNOOZE, delay=3600)
    await alone.look.run(LOOK)
    await sender.commit()
    await alone.look.run(LOOK)
    assert await goes_on(alone, lane, worker) == "answered"


async def test_w2_a_cancel_that_is_rolled_back_does_not_swallow_the_signal(alone: Base) -> None:
    lane, worker, job = await suspended(alone)
    (operator,) = await alone.sessions(1)
    await operator.begin()
    assert await operator.value("SELECT windlass.cancel($1)", job.id) == "cancelled"
    assert await alone.look.value(OWN, job.id) == "delivered"
    assert await alone.look.value(LOOK) == 0
    await operator.rollback()
    assert await alone.look.value(LOOK) == 1
    assert await goes_on(alone, lane, worker) == "answered"


async def test_w2_a_cancel_beside_a_signal_ends_the_job(alone: Base) -> None:
    lane, worker, job = await suspended(alone)
    (sender,) = await alone.sessions(1)
    await sender.begin()
    assert await sender.value(SEND, job.id) == "delivered"
    assert await alone.look.value("SELECT windlass.cancel($1)", job.id) == "cancelled"
    await sender.commit()
    await alone.look.run(LOOK)
    assert (await alone.claim_late(lane, worker)).jobs == []
    assert await alone.state(job.id) == "cancelled"
    with pytest.raises(asyncpg.PostgresError, match="takes no signals"):
        await alone.look.value(SEND, job.id)


async def test_w2_a_dead_worker_takes_no_signal(alone: Base) -> None:
    """Its wait is refused by the fence; the next worker has it, and the signal."""
    store = await alone.store()
    lane, worker, job = await begun(alone)
    other = await alone.worker()
    await store.retire(worker)
    assert await store.signal(job.id, "go", "1") == "kept"
    with pytest.raises(asyncpg.PostgresError):
        await ask(alone.look, worker, job)
    assert await goes_on(alone, lane, other) == "answered"


@pytest.mark.parametrize("sent", [0, 1, 2])
async def test_w2_a_wait_that_is_asked_again_before_the_first_is_written(alone: Base, sent: int) -> None:
    """The connection was lost with the answer, and the first call still runs: one wait, and one signal."""
    lane, worker = await alone.lane(), await alone.worker()
    id = await alone.look.enqueue()
    (job,) = (await alone.claim(lane, worker)).jobs
    for _ in range(sent):
        await alone.look.value(SEND, id)
    first, again = await alone.sessions(2)
    await first.begin()
    said = await ask(first, worker, job)
    repeated = asyncio.create_task(ask(again, worker, job))
    await alone.blocked(again)
    await first.commit()
    assert await repeated == said == ("answered" if sent else "waits")
    assert await alone.look.value("SELECT count(*) FROM windlass.wait") == (0 if sent else 1)
    assert await alone.look.value("SELECT count(*) FROM windlass.signal") == max(sent - 1, 0)


async def test_w2_a_call_of_the_last_run_does_not_take_the_wait_back(alone: Base) -> None:
    """It was proven to hold the job, and then stood still while its run ended and the next one asked and was
    suspended. Found by reading: the wait was under the old claim then, and no signal could end it."""
    lane, worker, job = await begun(alone)
    late, gate = await alone.sessions(2)
    await alone.look.run(HOLD)
    await gate.run("SELECT pg_advisory_lock(74)")
    await late.run("SET test.hold = 'on'")
    asking = asyncio.create_task(ask(late, worker, job))
    await alone.blocked(late)
    await alone.finish(worker, [job], Kind.SNOOZE, delay=3600)
    assert await alone.look.value("SELECT windlass.retry($1)", job.id) == "retried"
    (again,) = (await alone.claim_late(lane, worker)).jobs
    assert await ask(alone.look, worker, again) == "waits"
    await alone.finish(worker, [again], Kind.SNOOZE, delay=3600)
    await gate.run("SELECT pg_advisory_unlock(74)")
    await asking
    assert await alone.look.value(OWN, job.id) == "delivered"
    assert await goes_on(alone, lane, worker) == "answered"


async def test_w2_two_waits_side_by_side_take_two_signals(alone: Base) -> None:
    store = await alone.store()
    lane, worker = await alone.lane(), await alone.worker()
    id = await alone.look.enqueue()
    (job,) = (await alone.claim(lane, worker)).jobs
    for value in ("1", "2"):
        await store.signal(id, "go", value)

    async def wait(no: int) -> Awaited:
        return await store.wait_for_signal(worker, job, Wait(name=f"wait:go#{no}", signal="go"))

    found = await asyncio.gather(*(wait(no) for no in (1, 2)))
    assert sorted(each.step.result for each in found if each.step is not None) == ["1", "2"]


async def test_w2_a_waiting_job_survives_rotation(alone: Base) -> None:
    """What it waits for and what it was sent are kept by its id, beside the logs."""
    store = await alone.store()
    lane, worker, job = await suspended(alone)
    await store.signal(job.id, "other", "0")
    for _ in range(9):
        await store.rotate(force=True)
    assert [each.job for each in await store.waits()] == [job.id]
    assert await store.signal(job.id, "go", "1") == "delivered"
    assert await goes_on(alone, lane, worker) == "answered"


async def test_w2_a_producer_may_signal_and_a_reader_may_not(alone: Base, role: object) -> None:
    assert callable(role)
    _, _, job = await suspended(alone)
    producer, reader = await alone.session(role("producer")), await alone.session(role("reader"))
    assert await producer.value(SEND, job.id) == "delivered"
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await reader.value(SEND, job.id)


async def test_w2_a_promotion_looks_at_all_notes(alone: Base) -> None:
    """Each job that begins to wait leaves one: a signal behind them must not wait for as many promotions."""
    store = await alone.store()
    lane, worker = await alone.lane(), await alone.worker()
    for _ in range(25):
        await alone.look.enqueue()
    jobs = (await alone.claim(lane, worker)).jobs
    for job in jobs:
        assert await ask(alone.look, worker, job) == "waits"
    await alone.finish(worker, jobs, Kind.SNOOZE, delay=3600)
    assert await alone.look.value(SEND, jobs[-1].id) == "delivered"
    await store.promote(10)
    assert await alone.look.value("SELECT count(*) FROM windlass.signal_note") == 0
    assert await goes_on(alone, lane, worker) == "answered"


@pytest.mark.parametrize("sql", [LOOK, "SELECT windlass.upkeep()"])
async def test_w2_under_a_snapshot_notes_that_are_gone_are_not_read_again(alone: Base, sql: str) -> None:
    """[rule 14] Somebody holds a snapshot open while thousands of notes come and go."""
    (pinned,) = await alone.sessions(1)
    jobs = [await alone.look.enqueue() for _ in range(4)]

    async def look() -> int:
        """What it costs to look at one note."""
        await alone.look.value(SEND, jobs[0])
        cost = await blocks(alone.look, sql)
        await alone.look.run(LOOK)
        return cost

    before = min([await look() for _ in range(3)])
    await pinned.begin("repeatable read")
    await pinned.value("SELECT count(*) FROM windlass.queue")
    for job in jobs[1:]:
        await alone.look.run("SELECT windlass.signal($1, 'go', '1') FROM generate_series(1, 900)", job)
        while await alone.look.value(LOOK):
            pass
    after = min([await look() for _ in range(3)])
    await pinned.rollback()
    assert after <= before + 10, before


async def test_w2_a_note_that_commits_late_is_found(alone: Base) -> None:
    """[rule 14] Its transaction began before many whose notes are gone."""
    lane, worker, job = await suspended(alone)
    other = await alone.look.enqueue("t", queue="other")
    (sender,) = await alone.sessions(1)
    await sender.begin()
    await sender.value(SEND, job.id)
    for _ in range(3):
        await alone.look.run("SELECT windlass.signal($1, 'go', '1') FROM generate_series(1, 250)", other)
        while await alone.look.value(LOOK):
            pass
    await sender.commit()
    assert await alone.look.value("SELECT signals FROM windlass.upkeep()")
    await alone.look.run(LOOK)
    assert await goes_on(alone, lane, worker) == "answered"
