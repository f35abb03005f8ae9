"""Depth: counts per queue, kept through every move of a job [M1]."""

import asyncio

import pytest

from tests.conformance.kit import Rig, job
from tests.stopwatch import within
from windlass.core.states import Kind, Priority, State
from windlass.errors import AlreadyEnqueued
from windlass.store.records import Depth


async def test_every_move_of_one_job(rig: Rig) -> None:
    """[M1] From enqueue to its end, step by step."""
    worker = await rig.worker()
    (id,) = await rig.add("t", max_attempts=2)
    assert await rig.depth() == Depth(ready=1, free=1)
    claimed = await rig.run(worker, id)
    assert await rig.depth() == Depth(running=1)
    await rig.finish(worker, claimed, Kind.RETRY, delay=60)
    assert await rig.depth() == Depth(retrying=1)
    await rig.clock.advance(61)
    await rig.store.promote()
    assert await rig.depth() == Depth(ready=1, free=1)
    await rig.finish(worker, await rig.run(worker, id), Kind.RETRY, delay=60)
    assert await rig.depth() == Depth(dead=1)
    await rig.store.retry([id])
    assert await rig.depth() == Depth(ready=1, free=1)
    await rig.finish(worker, await rig.run(worker, id))
    assert await rig.depth() == Depth()


async def test_every_state_of_one_queue(rig: Rig) -> None:
    """[M1]"""
    worker = await rig.worker()
    for state in (
        State.SCHEDULED, State.SUCCEEDED, State.RETRYING, State.DEAD, State.CANCELLED, State.RUNNING,
    ):  # fmt: skip
        await rig.bring(state, worker)
    await rig.add("t", priority=Priority.LOW)
    await rig.add("t", fair_key="f")
    assert await rig.depth() == Depth(ready=2, running=1, scheduled=1, retrying=1, dead=1, free=2)


async def test_queues_are_counted_apart(rig: Rig) -> None:
    """[M1] None asks for every queue, a list for those."""
    await rig.add("t", queue="a")
    await rig.add("t", "t", queue="b", priority=Priority.URGENT)
    await rig.add("t", queue="b", priority=Priority.LOW)
    every = await rig.store.depth()
    assert {name: depth.ready for name, depth in every.items()} == {"a": 1, "b": 3}
    assert set(await rig.store.depth(["b"])) == {"b"}
    assert await rig.depth("unknown") == Depth()


async def test_the_oldest_ready_job_tells_how_long_it_has_waited(rig: Rig) -> None:
    """[M1] Over all lanes of the queue; None where nothing waits."""
    worker = await rig.worker()
    await rig.one(delay=3600)
    assert (await rig.store.depth())["default"].oldest is None
    await rig.add("old", priority=Priority.LOW)
    await rig.clock.advance(100)
    await rig.add("young", priority=Priority.HIGH)
    oldest = (await rig.store.depth())["default"].oldest
    assert oldest == pytest.approx(100, abs=30)
    await rig.claim(worker)
    assert (await rig.store.depth())["default"].oldest is None


async def test_a_job_put_off_has_not_waited(rig: Rig) -> None:
    """[M1] Its wait begins when it is due."""
    await rig.one(delay=36000)
    await rig.clock.advance(36001)
    await rig.store.promote()
    assert (await rig.store.depth())["default"].oldest == pytest.approx(0, abs=30)


async def test_what_was_taken_back_is_not_counted(rig: Rig) -> None:
    """[M1] Cancelled, deleted and replaced ahead of the claimers, and claimed around."""
    ids = await rig.add(*(["t"] * 6))
    await rig.one(unique_key="k")
    await rig.store.cancel(ids[1:2])
    await rig.store.delete(ids[3:5])
    await rig.one(unique_key="k", on_conflict="replace")
    assert (await rig.depth()).ready == 4
    worker = await rig.worker()
    await rig.claim(worker, limit=2)
    assert await rig.depth() == Depth(ready=2, running=2, free=2)
    await rig.claim(worker)
    assert await rig.depth() == Depth(running=4)


async def test_what_was_refused_is_not_counted_for_long(rig: Rig) -> None:
    """[M1] [E6] A refused call may leave a number behind; looking for work passes it, within 5 s."""
    await rig.one(unique_key="k")
    with pytest.raises(AlreadyEnqueued):
        await rig.store.enqueue([job("a"), job("b"), job("c", unique_key="k", on_conflict="reject")])
    worker = await rig.worker()
    assert len(await rig.claim(worker)) == 1
    async with within(5):
        while await rig.depth() != Depth(running=1):
            assert await rig.claim(worker) == []
            await asyncio.sleep(0.05)


async def test_a_rescue_is_counted(rig: Rig) -> None:
    """[M1] [C8]"""
    worker = await rig.worker()
    await rig.add("a", "b", "c")
    await rig.claim(worker, limit=2)
    await rig.die(worker)
    assert await rig.depth() == Depth(ready=3, free=3)


async def test_counts_through_rotation(rig: Rig) -> None:
    """[M1] [K6] Turning the logs moves jobs and changes no count."""
    worker = await rig.worker()
    await rig.add(*(["t"] * 10))
    jobs = await rig.claim(worker, limit=6)
    await rig.finish(worker, jobs[:2])
    await rig.finish(worker, jobs[2], Kind.RETRY, delay=60)
    await rig.finish(worker, jobs[3], Kind.DEAD)
    before = await rig.depth()
    assert before == Depth(ready=4, running=2, retrying=1, dead=1, free=4)
    for _ in range(20):
        await rig.store.rotate(force=True)
        assert await rig.depth() == before


async def test_parts_that_are_not_offered_yet_are_waiting_work(rig: Rig) -> None:
    """[P8] [M1] [M7] They count in depth and age; `parallel` holds some of them back."""
    worker = await rig.worker()
    id = await rig.parent(worker, 40, parallel=8)
    assert await rig.depth() == Depth(ready=40, pending_parts=39, free=8)
    await rig.clock.advance(30)
    assert ((await rig.store.depth())["default"].oldest or 0) >= 30
    jobs = await rig.claim(worker, limit=3)
    assert await rig.depth() == Depth(ready=37, running=3, pending_parts=36, free=5)
    await rig.store.set_parent(id, parallel=None)
    assert await rig.depth() == Depth(ready=37, running=3, pending_parts=36, free=37)
    await rig.finish(worker, jobs)
    assert await rig.depth() == Depth(ready=37, pending_parts=36, free=37)
    await rig.store.cancel([id])
    await rig.store.promote()
    assert await rig.depth() == Depth()


async def test_parts_behind_a_limit_are_not_free(rig: Rig) -> None:
    """[M7] [F3] More slots would not run them."""
    worker = await rig.worker()
    await rig.parent(worker, 6, concurrency_key="k", key_limit=2)
    await rig.store.promote()
    assert len(await rig.claim(worker)) == 2
    await rig.store.promote()
    depth = await rig.depth()
    assert (depth.ready, depth.running, depth.free) == (4, 2, 0)
