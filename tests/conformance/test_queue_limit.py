"""How many jobs of a queue run at a time, over the whole cluster and exactly [F3]."""

import asyncio

from tests.conformance.kit import Rig, failure
from windlass.core.states import Kind, Priority
from windlass.store.records import ClaimedJob


async def limited(rig: Rig, concurrency: int, ready: int = 10) -> None:
    """A queue with a limit and so many jobs."""
    await rig.store.set_queue("default", {"concurrency": concurrency})
    await rig.add(*(["t"] * ready))


async def test_off_by_default(rig: Rig) -> None:
    """[F3]"""
    assert (await rig.store.set_queue("default", {})).concurrency is None
    await rig.add(*(["t"] * 10))
    assert len(await rig.claim(await rig.worker())) == 10


async def test_two_workers_share_it_exactly(rig: Rig) -> None:
    """[F3] Whoever asks, and however much is asked for."""
    await limited(rig, 3)
    one, other = await rig.worker(), await rig.worker()
    running = [(one, job) for job in await rig.claim(one, limit=2)]
    running += [(other, job) for job in await rig.claim(other)]
    assert len(running) == 3
    assert await rig.claim(one) == await rig.claim(other) == []
    for worker, claimed in running:
        await rig.finish(worker, claimed)
        assert len(await rig.claim(other)) == 1


async def test_workers_that_claim_at_once_do_not_exceed_it(rig: Rig) -> None:
    """[F3]"""
    await limited(rig, 4, ready=20)
    workers = [await rig.worker() for _ in range(4)]
    claimed = await asyncio.gather(*(rig.claim(worker, limit=3) for worker in workers))
    assert sum(map(len, claimed)) <= 4
    assert sum(map(len, claimed)) + len(await rig.claim(workers[0])) == 4


async def test_priorities_share_it_and_the_higher_goes_first(rig: Rig) -> None:
    """[F3] [C2]"""
    await rig.store.set_queue("default", {"concurrency": 3})
    await rig.add("low", "low", priority=Priority.LOW)
    await rig.add("high", "high", priority=Priority.HIGH)
    assert [job.task for job in await rig.claim(await rig.worker())] == ["high", "high", "low"]


async def test_other_queues_are_not_concerned(rig: Rig) -> None:
    """[F3] Also in the same claim."""
    await limited(rig, 1)
    await rig.add("u", "u", queue="other")
    claimed = await rig.claim(await rig.worker(), "default", "other")
    assert sorted(job.queue for job in claimed) == ["default", "other", "other"]


async def end(rig: Rig, worker: int, job: ClaimedJob, way: str) -> None:
    match way:
        case "retire":
            await rig.store.retire(worker)
        case "rescue":
            await rig.die(worker)
        case "split":
            await rig.split(worker, job, parts=0)
        case "retry":
            await rig.finish(worker, job, Kind.RETRY, delay=60, error=failure())
        case _:
            await rig.finish(worker, job, Kind(way))


ENDS = ("succeeded", "dead", "cancelled", "released", "retry", "split", "retire", "rescue")


async def test_however_a_run_ends_its_place_is_free(rig: Rig) -> None:
    """[F3] What is not running does not count."""
    await limited(rig, 1, ready=20)
    for way in ENDS:
        worker, other = await rig.worker(), await rig.worker()
        (claimed,) = await rig.claim(worker)
        assert await rig.claim(other) == []
        await end(rig, worker, claimed, way)
        (then,) = await rig.claim(other)
        await rig.finish(other, then)


async def test_it_is_changed_live(rig: Rig) -> None:
    """[F3] More at once, fewer as runs end, and all without a limit."""
    await limited(rig, 1)
    worker = await rig.worker()
    running = await rig.claim(worker)
    await rig.store.set_queue("default", {"concurrency": 3})
    running += await rig.claim(worker)
    assert len(running) == 3
    await rig.store.set_queue("default", {"concurrency": 2})
    await rig.finish(worker, running.pop())
    assert await rig.claim(worker) == []
    await rig.finish(worker, running.pop())
    assert len(await rig.claim(worker)) == 1
    await rig.store.set_queue("default", {"concurrency": None})
    assert len(await rig.claim(worker)) == 6


async def test_parts_count_and_their_parent_does_not(rig: Rig) -> None:
    """[F3] [P9] A parent holds no claim."""
    await rig.store.set_queue("default", {"concurrency": 2})
    worker = await rig.worker()
    parent = await rig.parent(worker, parts=5)
    ran = 0
    while claimed := await rig.claim(worker):
        assert len(claimed) <= 2
        await rig.finish(worker, claimed)
        await rig.store.promote()
        ran += len(claimed)
    assert ran == 5
    assert (await rig.parent_record(parent)).succeeded == 5


async def test_it_is_counted_from_what_runs_also_after_rotation(rig: Rig) -> None:
    """[F3] [K6]"""
    await limited(rig, 2)
    worker = await rig.worker()
    claimed = await rig.claim(worker)
    await rig.turn()
    assert await rig.claim(worker) == []
    await rig.finish(worker, claimed[0])
    assert len(await rig.claim(worker)) == 1
