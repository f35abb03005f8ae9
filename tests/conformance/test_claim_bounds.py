"""Claim with a bound for each queue: what a worker has slots for, and no more [K1]."""

from collections import Counter

from tests.conformance.kit import Rig
from windlass.core.slots import MAX_PARTS


async def taken(rig: Rig, worker: int, bounds: dict[str, int], limit: int = 100) -> Counter[str]:
    """How many jobs of each queue one call to claim gives."""
    claims = await rig.store.claim(worker, bounds, limit)
    return Counter(job.queue for claim in claims for job in claim.jobs)


async def fill(rig: Rig, *queues: str, jobs: int = 5) -> None:
    for queue in queues:
        await rig.add(*["t"] * jobs, queue=queue)


async def test_at_most_so_many_of_each_queue(rig: Rig) -> None:
    """[K1] And the rest of a queue is there for the next call."""
    await fill(rig, "a", "b", "c")
    worker = await rig.worker()
    assert await taken(rig, worker, {"a": 2, "b": 4}) == {"a": 2, "b": 4}
    assert await taken(rig, worker, {"a": 9, "b": 9, "c": 1}) == {"a": 3, "b": 1, "c": 1}


async def test_none_means_none(rig: Rig) -> None:
    """[K1] A queue without a free slot gives nothing; nor does the worker claim where all are such."""
    await fill(rig, "a", "b")
    worker = await rig.worker()
    assert await taken(rig, worker, {"a": 0, "b": 3}) == {"b": 3}
    assert await taken(rig, worker, {"a": 0}) == {}
    assert await taken(rig, worker, {}) == {}
    assert (await rig.depth("a")).ready == 5


async def test_the_limit_holds_over_all_of_them(rig: Rig) -> None:
    """[K1]"""
    await fill(rig, "a", "b")
    worker = await rig.worker()
    assert (await taken(rig, worker, {"a": 4, "b": 4}, limit=6)).total() == 6
    assert await taken(rig, worker, {"a": 4, "b": 4}, limit=0) == {}


async def test_the_bound_is_the_queues_and_not_the_lanes(rig: Rig) -> None:
    """[K1] [C2] Four priorities of one queue share it, the most urgent first."""
    for priority in range(4):
        await rig.add("t", "t", queue="q", priority=priority)
    worker = await rig.worker()
    claims = await rig.store.claim(worker, {"q": 3}, 100)
    assert [job.priority for claim in claims for job in claim.jobs] == [0, 0, 1]


async def test_the_bound_counts_jobs_that_are_claimed_alone(rig: Rig) -> None:
    """[K1] [C8] One that has seen a death takes a slot like any other."""
    await rig.add("crashed", queue="q")
    lost = await rig.worker()
    await rig.claim(lost, "q")
    await rig.die(lost)
    await rig.add("next", queue="q")
    worker = await rig.worker()
    assert await taken(rig, worker, {"q": 1}) == {"q": 1}
    assert await taken(rig, worker, {"q": 1}) == {"q": 1}


async def test_unknown_queues_give_nothing(rig: Rig) -> None:
    """[K1] And are not declared by being asked for."""
    await fill(rig, "a")
    worker = await rig.worker()
    assert await taken(rig, worker, {"nobody": 5, "a": 1}) == {"a": 1}
    assert [queue.name for queue in await rig.store.queues()] == ["a"]


async def test_k10_a_share_counts_what_can_be_claimed(rig: Rig) -> None:
    """[K10] Jobs that wait, and parts that are not offered; of a parent no more than it lets run, or the
    first worker would take all of these."""
    worker = await rig.worker()

    async def share(peers: int) -> int:
        claims = await rig.store.claim(worker, {"default": 16}, 16, {}, {"default": peers})
        return sum(len(claim.jobs) for claim in claims)

    await rig.add(*["t"] * 9)
    assert [await share(3), await share(3), await share(100)] == [3, 2, 1]
    assert await share(1) == 3
    await rig.parent(worker, 12)
    assert await share(3) == 4
    assert await share(1) == 8
    await rig.parent(worker, 100, parallel=4)
    assert [await share(4), await share(3), await share(1), await share(1)] == [1, 1, 2, 0]


async def test_p8_parts_are_not_claimed_far_ahead(rig: Rig) -> None:
    """[P8] A worker that knows its queue for short jobs has room for a thousand. What it took of one parent's
    parts beyond its slots would go back to the lane a second later, before those of all other parents."""
    worker = await rig.worker()
    await rig.parent(worker, 300)
    assert len(await rig.claim(worker, limit=1000)) == 1 + MAX_PARTS
