"""Rescue: what a worker's death does to its jobs [C8]."""

import pytest

from tests.conformance.kit import POLICY, Rig
from windlass.core.retry import Backoff, DeathPolicy
from windlass.core.states import Kind, Priority, State
from windlass.errors import WorkerLost
from windlass.store.records import Checkpoint, Outcome, Rescued


async def test_a_worker_whose_heartbeat_moved_is_not_rescued(rig: Rig) -> None:
    """[C8] Somebody watched it for a lease, and it has sent a heartbeat since: nothing happens."""
    worker = await rig.worker()
    await rig.add("t")
    jobs = await rig.claim(worker)
    seen = await rig.heartbeat_of(worker)
    await rig.store.heartbeat(worker)
    assert await rig.store.rescue(worker, seen, POLICY) is None
    assert (await rig.finish(worker, jobs)).applied == 1


async def test_an_unknown_worker_is_not_rescued(rig: Rig) -> None:
    """[C8]"""
    assert await rig.store.rescue(404, 0, POLICY) is None


async def test_the_first_death_costs_nothing(rig: Rig) -> None:
    """[C8] Offered again at once, no attempt charged; finished jobs are left alone."""
    worker, other = await rig.worker(), await rig.worker()
    await rig.add("done", "lost")
    done, lost = await rig.claim(worker)
    await rig.finish(worker, done)
    assert await rig.die(worker) == Rescued(offered=1)
    record = await rig.look(lost.id)
    assert (record.state, record.attempt, record.deaths) == (State.READY, 1, 1)
    assert (record.worker, record.claim) == (None, None)
    again = await rig.run(other, lost.id)
    assert (again.attempt, again.deaths) == (1, 1)
    assert await rig.state(done.id) is State.SUCCEEDED


async def test_a_dead_worker_is_gone(rig: Rig) -> None:
    """[C8] [C5] From that moment its writes are refused; another rescue finds nothing left."""
    worker = await rig.worker()
    await rig.add("t")
    (job,) = await rig.claim(worker)
    heartbeat = await rig.heartbeat_of(worker)
    await rig.die(worker)
    assert [record for record in await rig.store.workers() if record.alive] == []
    with pytest.raises(WorkerLost):
        await rig.finish(worker, job)
    assert await rig.store.rescue(worker, heartbeat, POLICY) in (None, Rescued())
    assert (await rig.look(job.id)).deaths == 1
    assert await rig.store.unfinished(worker) == []


async def test_a_worker_without_jobs_is_rescued_too(rig: Rig) -> None:
    """[C8] It is dead from then on."""
    worker = await rig.worker()
    await rig.add("t")
    assert await rig.die(worker) == Rescued()
    with pytest.raises(WorkerLost):
        await rig.claim(worker)


async def test_one_death_is_claimed_alone(rig: Rig) -> None:
    """[C8] Its claim holds nothing else and is the last of the answer, so its neighbours are safe."""
    worker, other = await rig.worker(), await rig.worker()
    await rig.add("crashed")
    await rig.claim(worker)
    await rig.add("before", "before")
    await rig.die(worker)
    await rig.add("after", "after")
    seen: list[list[str]] = []
    for _ in range(5):
        claims = await rig.claims(other)
        if not claims:
            break
        for claim in claims:
            seen.append([job.task for job in claim.jobs])
            if any(job.deaths for job in claim.jobs):
                assert claim is claims[-1]
    assert ["crashed"] in seen
    assert [task for tasks in seen for task in tasks] == ["before", "before", "crashed", "after", "after"]


async def test_a_crashed_job_is_the_last_of_the_answer_over_all_lanes(rig: Rig) -> None:
    """[C8] Nothing of a later lane comes with it."""
    worker, other = await rig.worker(), await rig.worker()
    await rig.add("crashed", priority=Priority.URGENT)
    await rig.claim(worker)
    await rig.die(worker)
    await rig.add("t", "t", priority=Priority.LOW)
    (claim,) = await rig.claims(other)
    assert [job.task for job in claim.jobs] == ["crashed"]
    assert [job.task for job in await rig.claim(other)] == ["t", "t"]


async def test_two_crashed_jobs_come_one_at_a_time(rig: Rig) -> None:
    """[C8]"""
    worker, other = await rig.worker(), await rig.worker()
    await rig.add("a", "b")
    await rig.claim(worker)
    assert await rig.die(worker) == Rescued(offered=2)
    assert [job.task for job in await rig.claim(other)] == ["a"]
    assert [job.task for job in await rig.claim(other)] == ["b"]


async def test_the_second_death_brings_back_off(rig: Rig) -> None:
    """[C8] From the second on the job waits for the policy's delay."""
    policy = DeathPolicy(poison=4, backoff=Backoff(base=100, cap=1000, jitter=0))
    (id,) = await rig.add("t")
    for deaths, delay in ((1, 0), (2, 100), (3, 200)):
        worker = await rig.worker()
        await rig.run(worker, id)
        expected = Rescued(deferred=1) if delay else Rescued(offered=1)
        assert await rig.die(worker, policy) == expected
        record = await rig.look(id)
        assert (record.attempt, record.deaths) == (1, deaths)
        assert record.state is (State.RETRYING if delay else State.READY)
        await rig.clock.advance(max(0, delay - 50))
        assert (await rig.store.promote()).due == 0
        await rig.clock.advance(60)
        assert (await rig.store.promote()).due == (1 if delay else 0)
    assert (await rig.run(await rig.worker(), id)).deaths == 3


async def test_the_third_death_is_poison(rig: Rig) -> None:
    """[C8] It goes to the dead letters with its payload."""
    (id,) = await rig.add("t", payload="[1]")
    for expected in (Rescued(offered=1), Rescued(deferred=1), Rescued(dead=1)):
        worker = await rig.worker()
        await rig.run(worker, id)
        assert await rig.die(worker) == expected
        await rig.clock.advance(60)
        await rig.store.promote()
    record = await rig.look(id)
    assert (record.state, record.reason, record.deaths, record.attempt) == (State.DEAD, "poison", 3, 1)
    assert record.payload == "[1]"
    assert (await rig.depth()).dead == 1


async def test_deaths_and_attempts_are_counted_apart(rig: Rig) -> None:
    """[C8] A failed attempt between two deaths changes neither count."""
    (id,) = await rig.add("t", max_attempts=2)
    worker = await rig.worker()
    await rig.run(worker, id)
    await rig.die(worker)
    second = await rig.worker()
    await rig.finish(second, await rig.run(second, id), Kind.RETRY)
    record = await rig.look(id)
    assert (record.attempt, record.deaths) == (2, 1)
    job = await rig.run(second, id)
    assert (job.attempt, job.deaths) == (2, 1)


async def test_a_job_wished_cancelled_is_cancelled(rig: Rig) -> None:
    """[C8] [O5]"""
    worker = await rig.worker()
    wished, other = await rig.add("wished", "other")
    await rig.claim(worker)
    await rig.store.cancel([wished])
    assert await rig.die(worker) == Rescued(offered=1, cancelled=1)
    assert (await rig.state(wished), await rig.state(other)) == (State.CANCELLED, State.READY)


async def test_checkpoints_stay(rig: Rig) -> None:
    """[C8] The next worker begins where the dead one stopped."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await rig.store.checkpoint(worker, await rig.run(worker, id), Checkpoint('{"at":40}', 40, 100))
    await rig.die(worker)
    checkpoint = (await rig.store.checkpoints([id]))[id]
    assert (checkpoint.data, checkpoint.done, checkpoint.total) == ('{"at":40}', 40, 100)


async def test_many_jobs_of_several_lanes(rig: Rig) -> None:
    """[C8] All of them come back, each once."""
    worker, other = await rig.worker(), await rig.worker()
    for queue in ("a", "b"):
        for priority in (Priority.HIGH, Priority.LOW):
            await rig.add(*(["t"] * 5), queue=queue, priority=priority)
    claimed = await rig.claim(worker, "a", "b", limit=100)
    await rig.finish(worker, claimed[::4])
    assert await rig.die(worker) == Rescued(offered=15)
    again = [job for _ in range(20) for job in await rig.claim(other, "a", "b")]
    left = {job.id for job in claimed} - {job.id for job in claimed[::4]}
    assert sorted(job.id for job in again) == sorted(left)
    assert {job.deaths for job in again} == {1}


async def test_after_a_rotation(rig: Rig) -> None:
    """[C8] [K6] A worker that slept through every turn of the logs loses nothing."""
    worker = await rig.worker()
    await rig.add("a", "b", "c")
    jobs = await rig.claim(worker)
    await rig.finish(worker, jobs[1])
    await rig.turn()
    assert await rig.die(worker) == Rescued(offered=2)
    assert [await rig.state(jobs[n].id) for n in (0, 2)] == [State.READY, State.READY]


async def test_a_late_flush_of_the_dead_changes_nothing(rig: Rig) -> None:
    """[C5] [C8] Also one that was applied before: the worker is told that it is lost."""
    worker, other = await rig.worker(), await rig.worker()
    (id,) = await rig.add("t")
    outcomes = [Outcome(job=await rig.run(worker, id), kind=Kind.RETRY)]
    await rig.store.finish(worker, 1, outcomes)
    await rig.die(worker)
    await rig.run(other, id)
    with pytest.raises(WorkerLost):
        await rig.store.finish(worker, 1, outcomes)
    assert (await rig.look(id)).worker == other
