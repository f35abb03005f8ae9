"""Wait: a hint that there may be work; never relied upon alone [C1]."""

import asyncio

from tests.conformance.kit import Rig
from tests.stopwatch import within
from windlass.core.states import Kind

PATIENCE = 20.0


async def work_comes(rig: Rig, worker: int, *queues: str) -> int:
    """What a worker does: wait, look, and wait again. The id of the first job."""
    async with within(PATIENCE):
        while True:
            await rig.store.wait(queues, 5.0)
            jobs = await rig.claim(worker, *queues)
            if jobs:
                return jobs[0].id


async def test_work_that_is_there_already(rig: Rig) -> None:
    """[C1] Look now."""
    await rig.add("t")
    async with within(PATIENCE):
        assert await rig.store.wait(["default"], PATIENCE)


async def test_work_that_comes(rig: Rig) -> None:
    """[C1] The sleeper wakes for an enqueue into one of its queues."""
    worker = await rig.worker()
    assert await rig.claim(worker, "a", "b") == []
    waiter = asyncio.create_task(work_comes(rig, worker, "a", "b"))
    await asyncio.sleep(0)
    (id,) = await rig.add("t", queue="b")
    assert await waiter == id


async def test_work_that_is_given_back(rig: Rig) -> None:
    """[C1] A job offered again wakes, too."""
    worker, other = await rig.worker(), await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(other, id)
    assert await rig.claim(worker) == []
    waiter = asyncio.create_task(work_comes(rig, worker, "default"))
    await asyncio.sleep(0)
    await rig.finish(other, job, Kind.RELEASED)
    assert await waiter == id


async def test_work_that_is_promoted(rig: Rig) -> None:
    """[C1] [E2]"""
    worker = await rig.worker()
    id = (await rig.one(delay=60)).id
    waiter = asyncio.create_task(work_comes(rig, worker, "default"))
    await asyncio.sleep(0)
    await rig.clock.advance(61)
    await rig.store.promote()
    assert await waiter == id


async def test_several_wait(rig: Rig) -> None:
    """[C1] Each gets a job of its own."""
    workers = [await rig.worker() for _ in range(3)]
    waiters = [asyncio.create_task(work_comes(rig, worker, "default")) for worker in workers]
    await asyncio.sleep(0)
    ids: list[int] = []
    for _ in range(3):
        ids += await rig.add("t")
        done, _ = await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
        assert done
        waiters = [waiter for waiter in waiters if waiter not in done]
    assert waiters == []


async def test_nothing_comes(rig: Rig) -> None:
    """[C1] False after the time given; a wake-up for nothing is allowed, an endless row of them is not."""
    async with within(PATIENCE):
        while await rig.store.wait(["default"], 0.02):
            pass
