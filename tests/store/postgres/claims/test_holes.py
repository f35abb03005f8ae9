"""Holes: numbers that a claim has passed without seeing their jobs [rule 3].

Each schedule puts a producer where a wrong rule would lose its job: above the snapshot's xmax, between a
claim's read and its xid, behind a limit, in a younger generation. Sets too large for a claim row are in
`test_spill.py`, the published horizon in `test_horizon.py`.
"""

import asyncio

from tests.stopwatch import Stopwatch
from tests.store.postgres.kit import Base

MANY = "SELECT windlass.enqueue(t, queue => $1) FROM unnest(array_fill('t'::text, ARRAY[1000])) AS t"
"""A thousand enqueues, one by one."""


async def test_a_producer_above_xmax_keeps_its_hole(base: Base) -> None:
    """[rule 3] The producer's xid lies above pg_snapshot_xmax when its hole is seen: xmax is no horizon."""
    lane, worker = await base.lane(), await base.worker()
    early, late = await base.sessions(2)
    await early.begin()
    await early.value("SELECT pg_current_xact_id()")
    await late.begin()
    missing = await late.enqueue()
    seen = await early.enqueue()
    await early.commit()
    xid = await late.value("SELECT pg_current_xact_id()::text::bigint")
    xmax = await base.look.value("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
    assert xid >= xmax, "the schedule must put the producer above xmax"

    assert (await base.claim(lane, worker)).ids == [seen]
    cursor = await base.cursor(lane)
    assert (cursor["holes"], cursor["old_horizon"] > xid) == (1, True)
    for _ in range(3):
        assert (await base.claim_late(lane, worker)).status == "pending"
        assert await base.holes(lane) == 1
    await late.commit()
    assert (await base.claim_late(lane, worker)).ids == [missing]
    assert await base.drain(lane, worker) == []
    assert (await base.holes(lane), await base.depth(lane)) == (0, 0)


async def test_a_hole_dies_when_its_producer_has_rolled_back_and_not_before(base: Base) -> None:
    """[rule 3] Depth counts the number until it is proven burnt, and no longer."""
    lane, worker = await base.lane(), await base.worker()
    producer, other = await base.sessions(2)
    await producer.begin()
    await producer.enqueue()
    await other.enqueue()
    assert (await base.claim(lane, worker)).seqs == [2]
    assert (await base.claim_late(lane, worker)).status == "pending"
    assert await base.depth(lane) == 1
    await producer.rollback()
    assert await base.drain(lane, worker) == []
    assert (await base.holes(lane), await base.depth(lane)) == (0, 0)


async def test_a_job_that_commits_between_the_read_and_the_xid_of_a_claim_is_not_burnt(base: Base) -> None:
    """[rule 3] The claim has read and has no xid yet: it is at the fence. Then the gap's owner commits."""
    lane, worker = await base.lane(), await base.worker()
    producer, other, gate, claimer = await base.sessions(4)
    await producer.begin()
    missing = await producer.enqueue()
    seen = await other.enqueue()
    await gate.begin()
    await gate.run("SELECT FROM windlass.worker_life WHERE id = $1 FOR UPDATE", worker)
    claim = asyncio.create_task(base.claim(lane, worker, by=claimer))
    await base.blocked(claimer)
    await producer.commit()
    await gate.rollback()
    assert (await claim).ids == [seen]
    assert await base.holes(lane) == 1
    assert (await base.claim_late(lane, worker)).ids == [missing]


async def test_a_claim_that_leaves_visible_jobs_in_a_hole_drops_nothing(base: Base) -> None:
    """[rule 3] With a limit of 1 the hole is proven dead long before its last job is taken."""
    lane, worker = await base.lane(), await base.worker()
    producer, other = await base.sessions(2)
    await producer.begin()
    missing = [await producer.enqueue() for _ in range(3)]
    await other.enqueue()
    assert (await base.claim(lane, worker)).seqs == [4]
    await producer.commit()
    for left, job in zip((2, 1, 0), missing, strict=True):
        assert (await base.claim_late(lane, worker, limit=1)).ids == [job]
        assert await base.holes(lane) == left
    assert await base.drain(lane, worker, limit=1) == []
    assert await base.depth(lane) == 0


async def test_the_younger_generation_gets_a_horizon_of_its_own(base: Base) -> None:
    """[rule 3] The proof against the old generation says nothing about the young one."""
    lane, worker = await base.lane(), await base.worker()
    first, second, other = await base.sessions(3)
    await first.begin()
    await first.enqueue()
    await other.enqueue()
    await base.claim(lane, worker)
    horizon = (await base.cursor(lane))["old_horizon"]
    await second.begin()
    missing = await second.enqueue()
    await other.enqueue()
    await base.claim(lane, worker)
    cursor = await base.cursor(lane)
    assert (len(cursor["old"]), len(cursor["young"]), cursor["old_horizon"]) == (1, 1, horizon)

    await first.rollback()
    await base.probe_due(lane)
    assert (await base.claim(lane, worker)).status == "pending"
    cursor = await base.cursor(lane)
    assert (cursor["holes"], cursor["young"]) == (1, None)
    assert cursor["old_horizon"] > horizon
    assert (await base.claim_late(lane, worker)).status == "pending"
    assert await base.holes(lane) == 1
    await second.commit()
    assert (await base.claim_late(lane, worker)).ids == [missing]
    assert await base.drain(lane, worker) == []


async def test_a_savepoint_that_rolls_back_burns_its_numbers_only(base: Base) -> None:
    """[rule 3] [fault 25] One transaction owns two holes; one of them is never filled."""
    lane, worker = await base.lane(), await base.worker()
    producer, other = await base.sessions(2)
    await producer.begin()
    await producer.run("SAVEPOINT here")
    await producer.enqueue()
    await producer.run("ROLLBACK TO here")
    kept = await producer.enqueue()
    await other.enqueue()
    assert (await base.claim(lane, worker)).seqs == [3]
    assert await base.holes(lane) == 2
    await producer.commit()
    assert (await base.claim_late(lane, worker)).ids == [kept]
    assert await base.drain(lane, worker) == []
    assert await base.depth(lane) == 0


async def test_ten_thousand_rollbacks_and_nothing_else_leave_no_depth(base: Base) -> None:
    """[rule 3] [fault 11] An idle poll passes burnt numbers: depth reads 0 within 5 s."""
    lane, worker = await base.lane(), await base.worker()
    (producer,) = await base.sessions(1)
    for _ in range(10):
        await producer.begin()
        await producer.run(MANY, base.queue)
        await producer.rollback()
    assert await base.depth(lane) == 10_000
    watch = Stopwatch()
    assert await base.drain(lane, worker) == []
    assert await base.depth(lane) == 0
    assert watch.seconds() < 5


async def test_late_jobs_come_first_and_keep_their_order(base: Base) -> None:
    """[C2] Among visible jobs of a lane the order is the enqueue order, also over several holes."""
    lane, worker = await base.lane(), await base.worker()
    first, second, other = await base.sessions(3)
    await first.begin()
    await second.begin()
    a = await first.enqueue()
    b = await second.enqueue()
    await other.enqueue()
    c = await first.enqueue()
    await other.enqueue()
    assert (await base.claim(lane, worker)).seqs == [3, 5]
    await second.commit()
    await first.commit()
    d = await other.enqueue()
    assert (await base.claim_late(lane, worker)).ids == [a, b, c, d]
