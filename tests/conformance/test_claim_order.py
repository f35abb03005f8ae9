"""Claim: each job to one worker, and in which order [C1] [C2]."""

import asyncio
from collections import Counter

import pytest

from tests.conformance.kit import Rig
from windlass.core.states import Kind, Priority, State

HOUR = 3600.0


async def test_a_lane_gives_its_jobs_in_enqueue_order(rig: Rig) -> None:
    """[C2] Over several calls of either kind."""
    ids = await rig.add("a", "b")
    ids += await rig.add("c")
    ids += await rig.add("d", "e", "f")
    worker = await rig.worker()
    seen = [job.id for limit in (1, 2, 10) for job in await rig.claim(worker, limit=limit)]
    assert seen == ids


async def test_ten_jobs_three_workers_each_once(rig: Rig) -> None:
    """[C1] A claimed job is invisible to others, a finished one is gone."""
    ids = await rig.add(*(["t"] * 10))
    workers = [await rig.worker() for _ in range(3)]
    claimed = [await rig.claim(worker, limit=4) for worker in workers]
    assert [len(jobs) for jobs in claimed] == [4, 4, 2]
    assert [job.id for jobs in claimed for job in jobs] == ids
    for worker, jobs in zip(workers, claimed, strict=True):
        await rig.finish(worker, jobs)
    assert await rig.claim(workers[0]) == []
    assert {await rig.state(id) for id in ids} == {State.SUCCEEDED}


async def test_workers_at_the_same_time_never_share_a_job(rig: Rig) -> None:
    """[C1] Eight claimers and two producers at once: all that was enqueued is claimed, each job once."""
    workers = [await rig.worker() for _ in range(8)]
    made = await rig.add("first")  # so that the queue is known: what comes before that may be put off
    seen: list[int] = []
    producing = True

    async def produce(name: str) -> list[int]:
        ids = []
        for _ in range(10):
            ids += await rig.add(*([name] * 10))
        return ids

    async def consume(worker: int) -> None:
        while True:
            last_look = not producing
            claimed = await rig.claim(worker, limit=7)
            seen.extend(job.id for job in claimed)
            if claimed:
                await rig.finish(worker, claimed)
            elif last_look:
                return
            await asyncio.sleep(0)

    consumers = [asyncio.create_task(consume(worker)) for worker in workers]
    for ids in await asyncio.gather(produce("a"), produce("b")):
        made += ids
    producing = False
    await asyncio.gather(*consumers)
    # A busy lane may send a claimer away empty-handed, so the last of them may leave something behind.
    seen += [job.id for job in await rig.claim(workers[0], limit=1000)]
    assert Counter(seen) == Counter(made)


async def test_a_claim_is_a_batch_of_one_lane(rig: Rig) -> None:
    """[C1] Its jobs carry the fence: lane, claim and a seq of their own."""
    await rig.add("a", "b", priority=Priority.HIGH)
    await rig.add("c", "d", "e", queue="other")
    worker = await rig.worker()
    claims = await rig.claims(worker, "default", "other")
    assert {(claim.queue, claim.priority, len(claim.jobs)) for claim in claims} == {
        ("default", Priority.HIGH, 2),
        ("other", Priority.NORMAL, 3),
    }
    assert len({claim.id for claim in claims}) == len({claim.lane for claim in claims}) == 2
    for claim in claims:
        assert {(job.claim, job.lane, job.queue, job.priority) for job in claim.jobs} == {
            (claim.id, claim.lane, claim.queue, claim.priority)
        }
        assert len({job.seq for job in claim.jobs}) == len(claim.jobs)
        for job in claim.jobs:
            record = await rig.look(job.id)
            assert (record.state, record.worker, record.claim) == (State.RUNNING, worker, claim.id)
            assert record.claimed_at is not None


async def test_a_limit_holds_over_all_lanes(rig: Rig) -> None:
    """[C1]"""
    for priority in Priority:
        await rig.add("t", "t", priority=priority)
        await rig.add("t", "t", priority=priority, queue="other")
    worker = await rig.worker()
    assert await rig.claim(worker, "default", "other", limit=0) == []
    assert len(await rig.claim(worker, "default", "other", limit=5)) == 5
    assert len(await rig.claim(worker, "default", "other", limit=100)) == 11


async def test_the_higher_priority_first(rig: Rig) -> None:
    """[C2]"""
    for priority in (Priority.LOW, Priority.NORMAL, Priority.URGENT, Priority.HIGH):
        await rig.add(priority.name.lower(), priority=priority)
    worker = await rig.worker()
    first = [job.task for job in await rig.claim(worker, limit=2)]
    assert first == ["urgent", "high"]
    assert [job.task for job in await rig.claim(worker)] == ["normal", "low"]


async def test_waiting_makes_a_job_more_urgent(rig: Rig) -> None:
    """[C2] One step per 60 s waited, so low is never starved."""
    await rig.add("low", priority=Priority.LOW)
    await rig.clock.advance(70)
    await rig.add("normal", "normal")
    worker = await rig.worker()
    # One step up makes them equals, and among equals the one that has waited longest comes first.
    assert [job.task for job in await rig.claim(worker, limit=1)] == ["low"]
    await rig.add("low", priority=Priority.LOW)
    assert [job.task for job in await rig.claim(worker, limit=1)] == ["normal"]
    await rig.clock.advance(4 * 60)
    await rig.add("urgent", priority=Priority.URGENT)
    assert [job.task for job in await rig.claim(worker, limit=3)] == ["normal", "low", "urgent"]


async def test_urgent_work_does_not_starve_low(rig: Rig) -> None:
    """[C2] While a new urgent job comes for every one that is taken, a low one waits 3 steps at most."""
    await rig.add("low", priority=Priority.LOW)
    worker = await rig.worker()
    served: list[str] = []
    for _ in range(5):
        await rig.add("urgent", priority=Priority.URGENT)
        served += [job.task for job in await rig.claim(worker, limit=1)]
        await rig.clock.advance(61)
    assert "low" in served


async def test_a_scheduled_job_does_not_age_before_it_is_due(rig: Rig) -> None:
    """[C2] It has not waited: what was due only now does not overtake urgent work."""
    await rig.one("low", priority=Priority.LOW, delay=10 * HOUR)
    await rig.clock.advance(10 * HOUR + 1)
    await rig.add("urgent", priority=Priority.URGENT)
    await rig.store.promote()
    assert [job.task for job in await rig.claim(await rig.worker())] == ["urgent", "low"]


async def test_a_retry_does_not_age_while_it_is_put_off(rig: Rig) -> None:
    """[C2]"""
    worker = await rig.worker()
    job = await rig.run(worker, (await rig.one("low", priority=Priority.LOW)).id)
    await rig.finish(worker, job, Kind.RETRY, delay=10 * HOUR)
    await rig.clock.advance(10 * HOUR + 1)
    await rig.add("urgent", priority=Priority.URGENT)
    await rig.store.promote()
    assert [job.task for job in await rig.claim(worker)] == ["urgent", "low"]


async def test_among_equals_the_longest_wait_first(rig: Rig) -> None:
    """[C2] Two queues of one priority: nobody prefers a queue for its name."""
    await rig.add("first", queue="zebra")
    await rig.clock.advance(5)
    await rig.add("second", queue="ant")
    assert [job.task for job in await rig.claim(await rig.worker(), "ant", "zebra")] == ["first", "second"]


@pytest.mark.parametrize("kind", [Kind.RETRY, Kind.RELEASED])
async def test_a_job_offered_again_goes_to_the_back(rig: Rig, kind: Kind) -> None:
    """[C2] With its id, as a new place in the lane."""
    first, second, third = await rig.add("a", "b", "c")
    worker = await rig.worker()
    old = await rig.run(worker, first)
    await rig.finish(worker, old, kind)
    claimed = await rig.claim(worker)
    assert [job.id for job in claimed] == [second, third, first]
    assert claimed[-1].seq > old.seq


async def test_only_the_queues_asked_for(rig: Rig) -> None:
    """[C1] An unknown queue gives nothing, and is no error."""
    await rig.add("here", queue="here")
    await rig.add("there", queue="there")
    worker = await rig.worker()
    assert await rig.claim(worker, "nowhere") == []
    assert [job.task for job in await rig.claim(worker, "nowhere", "there")] == ["there"]
    assert await rig.claim(worker, "there") == []


async def test_a_paused_queue_gives_nothing(rig: Rig) -> None:
    """[K2] Its jobs wait, and come in order when it is resumed."""
    ids = await rig.add("a", "b")
    worker = await rig.worker()
    running = await rig.run(worker, ids[0])
    await rig.store.set_queue("default", {"paused": True})
    assert await rig.claim(worker) == []
    assert (await rig.finish(worker, running)).applied == 1
    ids += await rig.add("c")
    await rig.store.set_queue("default", {"paused": False})
    assert [job.id for job in await rig.claim(worker)] == ids[1:]


async def test_an_empty_queue_gives_nothing(rig: Rig) -> None:
    """[C1]"""
    assert await rig.claims(await rig.worker()) == []


async def test_held_lists_what_a_worker_has_not_finished(rig: Rig) -> None:
    """[C1] After a lost answer a worker finds its claims here, and gives back what it does not know."""
    ids = await rig.add("a", "b", "c")
    worker, other = await rig.worker(), await rig.worker()
    claims = await rig.claims(worker, limit=2)
    await rig.claims(other)
    assert await rig.store.unfinished(worker) == claims
    assert await rig.store.fences(worker) == {job.fence for job in claims[0].jobs}
    await rig.finish(worker, claims[0].jobs[0])
    (left,) = await rig.store.unfinished(worker)
    assert [job.id for job in left.jobs] == [ids[1]]
    assert left.jobs == claims[0].jobs[1:]
    assert await rig.store.fences(worker) == {left.jobs[0].fence}
    assert await rig.store.fences(worker, left.id) == {left.jobs[0].fence}
    assert await rig.store.fences(worker, left.id + 1) == set()
    assert (await rig.finish(worker, left.jobs, Kind.RELEASED)).applied == 1
    assert await rig.store.unfinished(worker) == []
    assert [job.id for job in await rig.claim(worker)] == [ids[1]]


async def test_an_unknown_worker_holds_nothing(rig: Rig) -> None:
    """[C1]"""
    assert await rig.store.unfinished(404) == []
    assert await rig.store.fences(404) == set()
