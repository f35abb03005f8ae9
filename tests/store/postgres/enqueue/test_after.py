"""Jobs that come after others, while those end, move or vanish [P12]; and keys that died too often [O7]."""

import asyncio
import json

import asyncpg
import pytest

from tests.store.postgres.kit import Base, Session
from windlass.core.retry import parked_until
from windlass.core.states import Kind
from windlass.store.records import NewJob, Options

FOLLOW = "SELECT * FROM windlass.follow($1)"
PROMOTE = "SELECT windlass.promote(100)"
ONE = """
SELECT job, status FROM windlass.enqueue_one('t', '{}', $1, 2::smallint, NULL, NULL, $2, 'skip', NULL, $3)
"""
MANY = """
SELECT windlass.enqueue('t', '{}', queue => $1, after => ARRAY[$2::bigint]) FROM generate_series(1, $3)
"""


async def step(session: Session, limit: int = 100) -> None:
    """The edges are walked to their end, and what is due is offered."""
    while not (await session.row(FOLLOW, limit))["around"]:
        pass
    await session.run(PROMOTE)


async def test_an_edge_that_is_added_while_its_job_ends_is_found(alone: Base) -> None:
    """[P12] Neither transaction sees the other: the walk looks at what is, so nothing slips past it."""
    lane, worker = await alone.lane(), await alone.worker()
    first = await alone.look.enqueue()
    got = await alone.claim(lane, worker)
    producer, finisher = await alone.sessions(2)
    await producer.begin()
    await finisher.begin()
    after = await producer.enqueue(after=[first])
    await alone.finish(worker, got.jobs, by=finisher)
    await finisher.commit()
    await step(alone.look)
    assert await alone.state(after) is None, "its own transaction is still open"
    await producer.commit()
    await step(alone.look)
    assert await alone.drain(lane, worker) == [after]
    assert await alone.look.value("SELECT count(*) FROM windlass.after_edge") == 0


async def test_the_end_of_a_job_offers_who_comes_after_it(alone: Base) -> None:
    """[P12] [W4] In the same transaction: nobody has to come by."""
    lane, worker = await alone.lane(), await alone.worker()
    first, second = await alone.look.enqueue(), await alone.look.enqueue()
    after = await alone.look.enqueue(after=[first, second])
    got = await alone.claim(lane, worker)
    await alone.finish(worker, got.jobs[:1])
    assert await alone.state(after) == "scheduled"
    (finisher,) = await alone.sessions(1)
    await finisher.begin()
    await alone.finish(worker, got.jobs[1:], by=finisher)
    assert await alone.state(after) == "scheduled"
    await finisher.commit()
    assert await alone.drain(lane, worker) == [after]


async def test_a_job_that_is_sent_again_does_not_need_those_that_it_came_after(alone: Base) -> None:
    """[E7] [P12] Its key is known, so nothing is added; the job that it came after was deleted since."""
    store = await alone.store()
    first = await alone.look.enqueue()
    new = NewJob(
        task="t", payload="{}", queue=alone.queue, idempotency_key="k", options=Options(after=(first,))
    )
    (sent,) = await store.enqueue([new])
    await store.delete([first])
    plain = NewJob(task="t", payload="{}", queue=alone.queue)
    again, _ = await store.enqueue([new, plain])
    assert (again.id, again.status) == (sent.id, "repeated")


async def test_jobs_that_somebody_holds_do_not_keep_others_waiting(alone: Base) -> None:
    """[P12] [S2] As many as a step takes come after one end, and somebody has them locked; behind it is
    another end."""
    lane, worker = await alone.lane(), await alone.worker()
    first, second = await alone.look.enqueue(), await alone.look.enqueue()
    held = [await alone.look.enqueue(after=[first]) for _ in range(3)]
    free = await alone.look.enqueue(after=[second])
    got = await alone.claim(lane, worker)
    (holder,) = await alone.sessions(1)
    await holder.begin()
    await holder.run("SELECT FROM windlass.deferred WHERE id = ANY ($1) FOR UPDATE", [*held, free])
    await alone.finish(worker, got.jobs[:1])
    await alone.finish(worker, got.jobs[1:])
    await holder.commit()
    await holder.begin()
    await holder.run("SELECT FROM windlass.deferred WHERE id = ANY ($1) FOR UPDATE", held)
    for _ in range(3):
        await alone.look.row(FOLLOW, 2)
    assert await alone.drain(lane, worker) == [free]
    await holder.commit()
    await step(alone.look, 2)
    assert sorted(await alone.drain(lane, worker)) == held


async def test_an_edge_is_seen_though_its_job_ends_in_a_transaction_that_stays_open(alone: Base) -> None:
    """[P12] It wrote the end before the edge was there, and commits after somebody has looked for edges."""
    lane, worker = await alone.lane(), await alone.worker()
    first = await alone.look.enqueue()
    got = await alone.claim(lane, worker)
    producer, finisher = await alone.sessions(2)
    await finisher.begin()
    await alone.finish(worker, got.jobs, by=finisher)
    await producer.begin()
    after = await producer.enqueue(after=[first])
    await producer.commit()
    await step(alone.look)
    assert await alone.look.value("SELECT fresh FROM windlass.after_edge"), "somebody may have missed it"
    await finisher.commit()
    assert await alone.state(after) == "scheduled"
    await step(alone.look)
    assert await alone.drain(lane, worker) == [after]


async def test_somebody_who_keeps_edges_fresh_makes_nobody_busy(alone: Base) -> None:
    """[P12] [S2] The next look is the coordinator's next round, and goes on behind these."""
    lane, worker = await alone.lane(), await alone.worker()
    await alone.look.enqueue()
    other = await alone.look.enqueue()
    got = await alone.claim(lane, worker, 1)
    (finisher,) = await alone.sessions(1)
    await finisher.begin()
    await alone.finish(worker, got.jobs, by=finisher)
    await alone.look.run(MANY, alone.queue, other, 30)
    assert tuple(await alone.look.row(FOLLOW, 10)) == (10, True)
    await finisher.commit()
    await step(alone.look, 10)
    assert await alone.look.value("SELECT count(*) FROM windlass.after_edge WHERE fresh") == 0


async def test_two_who_end_the_last_two_at_once_miss_nothing(alone: Base) -> None:
    """[P12] Neither sees that the other takes away an edge: the second leaves it to the coordinator."""
    lane, worker, other = await alone.lane(), await alone.worker(), await alone.worker()
    firsts = [await alone.look.enqueue(), await alone.look.enqueue()]
    after = await alone.look.enqueue(after=firsts)
    one, two = await alone.claim(lane, worker, 1), await alone.claim(lane, other, 1)
    left, right = await alone.sessions(2)
    await left.begin()
    await right.begin()
    await alone.finish(worker, one.jobs, by=left)
    await alone.finish(other, two.jobs, by=right)
    await right.commit()
    await left.commit()
    assert await alone.state(after) == "scheduled"
    await step(alone.look)
    assert await alone.drain(lane, worker) == [after]


async def test_edges_that_wait_cost_a_step_nothing(alone: Base) -> None:
    """[W4] [P12] Each is looked at once, when it is fresh."""
    first = await alone.look.enqueue()
    await alone.look.run(MANY, alone.queue, first, 1000)
    while not (await alone.look.row(FOLLOW, 100))["around"]:
        pass
    assert tuple(await alone.look.row(FOLLOW, 100)) == (0, True)
    assert not (await alone.look.row("SELECT * FROM windlass.upkeep()"))["follow"]


async def test_many_who_come_after_one(alone: Base) -> None:
    """[W4] [P12] Its end serves some hundreds in its own transaction, and the coordinator the rest."""
    lane, worker = await alone.lane(), await alone.worker()
    first = await alone.look.enqueue()
    await alone.look.run(MANY, alone.queue, first, 1200)
    await alone.finish(worker, (await alone.claim(lane, worker)).jobs)
    assert len(await alone.drain(lane, worker)) == 500
    await step(alone.look)
    assert len(await alone.drain(lane, worker)) == 700
    assert await alone.look.value("SELECT count(*) FROM windlass.after_due") == 0


async def test_a_bulk_after_others_is_added_together(alone: Base) -> None:
    """[P12] [E1] Whatever else is in it: those that have succeeded are not waited for."""
    lane, worker = await alone.lane(), await alone.worker()
    store = await alone.store()
    done = await alone.look.enqueue()
    await alone.finish(worker, (await alone.claim(lane, worker)).jobs)
    first, second = await alone.look.enqueue(), await alone.look.enqueue()
    waits = [(first,), (first, second), (done,), (), (done, second)]
    receipts = await store.enqueue(
        [NewJob(task="t", queue=alone.queue, payload="{}", options=Options(after=after)) for after in waits]
    )
    assert [receipt.status for receipt in receipts] == [
        "scheduled", "scheduled", "enqueued", "enqueued", "scheduled",
    ]  # fmt: skip
    got = await alone.claim(lane, worker)
    assert got.ids == [first, second, receipts[2].id, receipts[3].id]
    await alone.finish(worker, got.jobs[:1])
    assert (await alone.claim(lane, worker)).ids == [receipts[0].id]
    await alone.finish(worker, got.jobs[1:2])
    assert (await alone.claim(lane, worker)).ids == [receipts[1].id, receipts[4].id]


async def test_a_job_may_come_after_one_of_the_same_transaction(alone: Base) -> None:
    """[P12] [E1] And not after one of a transaction that nobody has committed."""
    lane, worker = await alone.lane(), await alone.worker()
    producer, other = await alone.sessions(2)
    await producer.begin()
    first = await producer.enqueue()
    after = await producer.enqueue(after=[first])
    with pytest.raises(asyncpg.PostgresError) as refused:
        await other.enqueue(after=[first])
    assert refused.value.sqlstate == "WL010"
    await producer.commit()
    got = await alone.claim(lane, worker)
    assert got.ids == [first]
    await step(alone.look)
    assert await alone.state(after) == "scheduled"
    await alone.finish(worker, got.jobs)
    await step(alone.look)
    assert await alone.drain(lane, worker) == [after]


async def test_a_job_that_falls_due_behind_the_watermark_is_offered(alone: Base) -> None:
    """[P12] Promote has passed this moment already; the new xid tells it."""
    lane, worker = await alone.lane(), await alone.worker()
    first = await alone.look.enqueue()
    after = await alone.look.enqueue(after=[first])
    await alone.finish(worker, (await alone.claim(lane, worker)).jobs)
    (walker,) = await alone.sessions(1)
    await walker.begin()
    await walker.row(FOLLOW, 100)
    clock = await alone.clock()
    await clock.advance(3600)
    await alone.look.run(PROMOTE)
    await walker.commit()
    await alone.look.run(PROMOTE)
    assert await alone.drain(lane, worker) == [after]


async def test_a_cancel_and_the_walk_do_not_wait_for_each_other(alone: Base) -> None:
    """[P12] The walk leaves alone what somebody has locked, and drops the edges of what is gone."""
    lane, worker = await alone.lane(), await alone.worker()
    first = await alone.look.enqueue()
    after = [await alone.look.enqueue(after=[first], otherwise="cancel") for _ in range(3)]
    got = await alone.claim(lane, worker)
    canceller, walker = await alone.session(), await alone.session(lock_timeout="1ms")
    await canceller.begin()
    await canceller.run("DELETE FROM windlass.deferred WHERE id = $1", after[0])
    await alone.finish(worker, got.jobs, Kind.DEAD)
    await walker.row(FOLLOW, 100)
    assert [await alone.state(job) for job in after] == ["scheduled", "cancelled", "cancelled"]
    await canceller.commit()
    await walker.row(FOLLOW, 100)
    assert await alone.look.value("SELECT count(*) FROM windlass.after_edge") == 0


async def test_a_step_is_bounded_and_the_next_goes_on(alone: Base) -> None:
    """[P12] One that ended has more edges than a step may take."""
    first, second = await alone.look.enqueue(), await alone.look.enqueue()
    after = [await alone.look.enqueue(after=[first, second]) for _ in range(3)]
    while not (await alone.look.row(FOLLOW, 4))["around"]:
        pass
    await alone.look.run("SELECT windlass.cancel($1)", second)
    assert tuple(await alone.look.row(FOLLOW, 2)) == (2, False)
    assert [await alone.state(job) for job in after] == ["dead", "dead", "scheduled"]
    assert (await alone.look.row(FOLLOW, 2))["looked"] == 1
    assert await alone.state(after[2]) == "dead"
    assert tuple(await alone.look.row(FOLLOW, 2)) == (0, True)
    assert await alone.look.value("SELECT count(*) FROM windlass.after_edge") == 0
    reason = await alone.look.value("SELECT reason FROM windlass.job WHERE id = $1", after[2])
    assert reason == f"job {second}, which it comes after, is cancelled"


async def test_two_walk_at_once(alone: Base) -> None:
    """[P12] The second has nothing to do and does not wait."""
    await alone.look.enqueue(after=[await alone.look.enqueue()])
    walker, other = await alone.session(), await alone.session(lock_timeout="1ms")
    await walker.begin()
    await walker.row(FOLLOW, 100)
    assert tuple(await other.row(FOLLOW, 100)) == (0, True)
    await walker.commit()


@pytest.mark.parametrize("keeper", ["nobody", "after_look", "deferred"])
async def test_what_has_succeeded_may_be_forgotten_before_the_walk_comes_by(alone: Base, keeper: str) -> None:
    """[P12] [rule 7] However late it is: only what did not succeed is noted."""
    lane, worker = await alone.lane(), await alone.worker()
    store = await alone.store()
    first, second = await alone.look.enqueue(), await alone.look.enqueue()
    after = await alone.look.enqueue(after=[first, second])
    got = await alone.claim(lane, worker)
    await alone.finish(worker, got.jobs[:1])
    session = await alone.session()
    await session.begin()
    if keeper != "nobody":
        await session.run(f"SELECT FROM windlass.{keeper} FOR UPDATE")
    for _ in range(9):
        await store.rotate(force=True)
    await session.commit()
    assert await alone.state(first) is None
    await step(alone.look)
    assert await alone.state(after) == "scheduled"
    await alone.finish(worker, got.jobs[1:])
    await step(alone.look)
    assert await alone.drain(lane, worker) == [after]


@pytest.mark.parametrize("way", ["cancel", "delete"])
async def test_a_failure_is_known_though_nobody_saw_the_edge_and_all_else_is_gone(
    alone: Base, way: str
) -> None:
    """[P12] It was noted when the job that waits was not committed yet; then the logs forgot it."""
    store = await alone.store()
    first = await alone.look.enqueue()
    (producer,) = await alone.sessions(1)
    await producer.begin()
    after = await producer.enqueue(after=[first])
    await alone.look.run(f"SELECT windlass.{way}($1)", first)
    await producer.commit()
    for _ in range(9):
        await store.rotate(force=True)
    assert await alone.state(first) is None
    await step(alone.look)
    assert await alone.state(after) == "dead"


async def test_a_failure_that_is_older_than_the_edge_outlives_its_job(alone: Base) -> None:
    """[P12] [K6] The edge says so itself: the note may have gone long ago."""
    lane, worker = await alone.lane(), await alone.worker()
    clock = await alone.clock()
    store = await alone.store()
    first = await alone.look.enqueue()
    await alone.finish(worker, (await alone.claim(lane, worker)).jobs, Kind.DEAD)
    await clock.advance(8 * 86400)
    await store.expire()
    assert await alone.look.value("SELECT count(*) FROM windlass.ended_otherwise") == 0
    after = await alone.look.enqueue(after=[first])
    assert await alone.look.value("SELECT windlass.delete($1)", first) == "deleted"
    await step(alone.look)
    assert await alone.state(after) == "dead"


async def test_a_job_that_was_brought_back_and_succeeded_has_succeeded(alone: Base) -> None:
    """[P12] [O6] Its death is forgotten with the retry."""
    lane, worker = await alone.lane(), await alone.worker()
    store = await alone.store()
    first = await alone.look.enqueue()
    await alone.finish(worker, (await alone.claim(lane, worker)).jobs, Kind.DEAD)
    assert await alone.look.value("SELECT windlass.retry($1)", first) == "retried"
    after = await alone.look.enqueue(after=[first])
    await alone.finish(worker, (await alone.claim(lane, worker)).jobs)
    for _ in range(9):
        await store.rotate(force=True)
    assert await alone.state(first) is None
    await step(alone.look)
    assert await alone.drain(lane, worker) == [after]


async def test_a_rerun_whose_predecessor_is_gone_does_not_fail_the_flush_that_starts_it(alone: Base) -> None:
    """[P12] [E6] The edit was accepted; what becomes of it is its own policy's business."""
    lane, worker = await alone.lane(), await alone.worker()
    await alone.look.enqueue(unique_key="k")
    got = await alone.claim(lane, worker)
    first = await alone.look.enqueue()
    await alone.look.enqueue(unique_key="k", after=[first], otherwise="run")
    assert await alone.look.value("SELECT windlass.delete($1)", first) == "deleted"
    assert (await alone.finish(worker, got.jobs)).applied == 1
    await step(alone.look)
    assert len(await alone.drain(lane, worker)) == 1


@pytest.mark.parametrize("after", [[0], [-1], [2**63], [1.5], ["1"], "1", None])
async def test_a_malformed_list_is_refused(base: Base, after: object) -> None:
    """[E4] [P12]"""
    with pytest.raises(asyncpg.PostgresError) as refused:
        await base.look.row(ONE, base.queue, json.dumps({"after": after}), False)
    assert refused.value.sqlstate == "WL005"


async def test_which_part_a_job_is_only_the_store_says(base: Base) -> None:
    """[P4] A producer's word about it is left out."""
    options = {"part": {"parent": 1, "index": 0, "total": 1}, "chunked": True}
    await base.lane()
    row = await base.look.row(ONE, base.queue, json.dumps(options), False)
    assert await base.look.value("SELECT options::text FROM windlass.job WHERE id = $1", row["job"]) == (
        '{"chunked": true}'
    )


async def test_sql_parks_as_long_as_the_core_says(alone: Base) -> None:
    """[O7] From the first death on, each a moment after the last one's wait is over."""
    lane, worker = await alone.lane(), await alone.worker()
    clock = await alone.clock()
    options = json.dumps({"unique_key": "k"})
    for deaths in range(1, 9):
        row = await alone.look.row(ONE, alone.queue, options, False)
        assert row["status"] == "enqueued", "one that is not automatic is never parked"
        await alone.finish(worker, (await alone.claim(lane, worker)).jobs, Kind.DEAD)
        wait = parked_until(deaths, 0.0)
        if wait is None:
            row = await alone.look.row(ONE, alone.queue, options, True)
            assert row["status"] == "enqueued"
            await alone.look.run("SELECT windlass.delete($1)", row["job"])
            continue
        await clock.advance(wait - 30)
        assert tuple(await alone.look.row(ONE, alone.queue, options, True)) == (0, "parked")
        await clock.advance(60)
        row = await alone.look.row(ONE, alone.queue, options, True)
        assert row["status"] == "enqueued"
        await alone.look.run("SELECT windlass.delete($1)", row["job"])


async def test_of_many_who_ask_at_once_one_gets_the_turn(base: Base) -> None:
    """[K5]"""
    one, two = await base.sessions(2)
    take = "SELECT windlass.begin_chore($1, 60)"
    await one.begin()
    assert await one.value(take, base.queue)
    late = asyncio.create_task(two.value(take, base.queue))
    await base.blocked(two)
    await one.commit()
    assert not await late
