"""Room: what is kept for how long, and that nothing unfinished ever goes [K6]."""

import asyncio

from tests.conformance.conftest import SETTINGS
from tests.conformance.kit import Rig, failure, job
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind, State

DAY = 86400.0


async def turn_for(rig: Rig, seconds: float) -> None:
    """Let time pass as a coordinator lives it: the logs turn when they are due."""
    step = SETTINGS.retention / 8 + 1
    passed = 0.0
    while passed < seconds:
        await rig.clock.advance(step)
        await rig.store.rotate()
        passed += step


async def test_finished_jobs_stay_for_their_retention(rig: Rig) -> None:
    """[K6] Through turns of the logs that are due."""
    worker = await rig.worker()
    done = await rig.bring(State.SUCCEEDED, worker)
    gone = await rig.bring(State.CANCELLED, worker)
    await turn_for(rig, SETTINGS.retention * 0.6)
    assert (await rig.state(done), await rig.state(gone)) == (State.SUCCEEDED, State.CANCELLED)
    await turn_for(rig, SETTINGS.retention * 2)
    assert (await rig.state(done), await rig.state(gone)) == (None, None)
    assert await rig.listing() == []


async def test_nothing_unfinished_ever_goes(rig: Rig) -> None:
    """[K6] Ready, held, running, scheduled, retrying, dead: all outlive the logs, in every detail."""
    worker = await rig.worker()
    for state in (State.SCHEDULED, State.RETRYING, State.DEAD, State.RUNNING):
        await rig.bring(state, worker, str(state), payload=f'["{state}"]')
    await rig.add("ready", "ready")
    await rig.add("held", fair_key="k")
    before = await rig.listing()
    await rig.store.set_queue("default", {"dead_retention": 365 * DAY})
    await turn_for(rig, 3 * SETTINGS.retention)
    await rig.turn()
    after = await rig.listing()
    assert sorted(after, key=lambda record: record.id) == sorted(before, key=lambda record: record.id)


async def test_running_jobs_finish_after_a_rotation(rig: Rig) -> None:
    """[K6] [C5] The claim is the same, and only what is left of it."""
    worker = await rig.worker()
    await rig.add(*(["t"] * 6))
    jobs = await rig.claim(worker)
    await rig.finish(worker, jobs[::2])
    await rig.turn()
    (held,) = await rig.store.unfinished(worker)
    assert held.jobs == jobs[1::2]
    assert (await rig.finish(worker, jobs[1::2])).applied == 3
    assert (await rig.depth()).running == 0


async def test_waiting_jobs_keep_their_order_through_a_rotation(rig: Rig) -> None:
    """[K6] [C2]"""
    worker = await rig.worker()
    ids = await rig.add(*(["t"] * 5))
    first = await rig.run(worker, ids[0])
    await rig.turn()
    ids += await rig.add("u")
    assert [job.id for job in await rig.claim(worker)] == ids[1:]
    assert (await rig.finish(worker, first)).applied == 1


async def test_jobs_lost_in_a_lane_are_never_given_out_twice(rig: Rig) -> None:
    """[K6] [C1] Rotation at every point of a job's life: each is claimed once."""
    worker = await rig.worker()
    seen: list[int] = []
    ids: list[int] = []
    for _ in range(12):
        ids += await rig.add("a", "b", "c")
        await rig.store.rotate(force=True)
        jobs = await rig.claim(worker, limit=2)
        await rig.store.rotate(force=True)
        seen += [job.id for job in jobs]
        await rig.finish(worker, jobs)
    seen += [job.id for job in await rig.claim(worker, limit=100)]
    assert seen == ids


async def test_force_removes_finished_jobs_but_not_the_dead(rig: Rig) -> None:
    """[K6] Errors and payload of the dead are still there."""
    worker = await rig.worker()
    await rig.bring(State.SUCCEEDED, worker)
    await rig.bring(State.CANCELLED, worker)
    (id,) = await rig.add("t", payload="[1]")
    await rig.finish(worker, await rig.run(worker, id), Kind.DEAD, error=failure("why"))
    await rig.turn()
    (dead,) = await rig.listing()
    assert (dead.id, dead.state, dead.payload, dead.reason) == (id, State.DEAD, "[1]", "why")
    assert [error.message for error in dead.errors] == ["why"]
    await rig.store.retry([id])
    assert (await rig.run(worker, id)).payload == "[1]"


async def test_poisonous_and_exhausted_jobs_are_not_removed_by_force(rig: Rig) -> None:
    """[K6] [C8] [O4] Dead is dead, whatever it died of."""
    worker, other = await rig.worker(), await rig.worker()
    (poison,) = await rig.add("poison")
    await rig.claim(worker)
    await rig.die(worker, DeathPolicy(poison=1))
    (last,) = await rig.add("last", max_attempts=1)
    await rig.finish(other, await rig.run(other, last), Kind.RETRY)
    await rig.turn()
    assert [(await rig.look(id)).reason for id in (poison, last)] == ["poison", "exhausted"]


async def test_failures_of_an_unfinished_job_survive(rig: Rig) -> None:
    """[K6] [O4] Those of attempts long ago, too."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await rig.finish(worker, await rig.run(worker, id), Kind.RETRY, error=failure("old"))
    await rig.turn()
    assert [error.message for error in (await rig.look(id)).errors] == ["old"]


async def test_a_queue_may_forget_sooner(rig: Rig) -> None:
    """[K6] Its succeeded jobs are no longer shown after its own retention."""
    worker = await rig.worker()
    await rig.store.set_queue("brief", {"retention": 600.0})
    brief, usual = await rig.add("t", queue="brief"), await rig.add("t")
    await rig.finish(worker, await rig.claim(worker, "brief", "default"))
    await rig.clock.advance(500)
    await rig.store.rotate()
    assert await rig.state(brief[0]) is State.SUCCEEDED
    await rig.clock.advance(200)
    await rig.store.rotate()
    assert await rig.state(brief[0]) is None
    assert [record.id for record in await rig.listing()] == usual


async def test_rotation_when_nothing_is_due(rig: Rig) -> None:
    """[K6] Removes nothing."""
    done = await rig.bring(State.SUCCEEDED, await rig.worker())
    rotation = await rig.store.rotate()
    assert rotation.removed == 0
    assert await rig.state(done) is State.SUCCEEDED


async def test_several_rotations_at_once_do_the_work_of_one(rig: Rig) -> None:
    """[K6] And harm nobody who works meanwhile."""
    worker = await rig.worker()
    ids = await rig.add(*(["t"] * 20))
    jobs = await rig.claim(worker, limit=10)
    await asyncio.gather(*(rig.store.rotate(force=True) for _ in range(4)), rig.finish(worker, jobs))
    assert [job.id for job in await rig.claim(worker)] == ids[10:]


async def test_the_dead_are_kept_for_their_own_retention(rig: Rig) -> None:
    """[K6] Per queue, in bounded steps."""
    worker = await rig.worker()
    await rig.store.set_queue("short", {"dead_retention": 3600.0})
    await rig.store.enqueue([job(queue="short") for _ in range(5)])
    await rig.finish(worker, await rig.claim(worker, "short"), Kind.DEAD)
    long = await rig.bring(State.DEAD, worker)
    await rig.clock.advance(3000)
    assert (await rig.store.expire()).dead == 0
    await rig.clock.advance(1000)
    assert (await rig.store.expire(limit=3)).dead == 3
    assert (await rig.store.expire(limit=3)).dead == 2
    assert [record.id for record in await rig.listing()] == [long]
    assert (await rig.depth("short")).dead == 0
    await rig.clock.advance(30 * DAY)
    assert (await rig.store.expire()).dead == 1
    assert await rig.listing() == []


async def test_workers_at_work_are_not_expired(rig: Rig) -> None:
    """[K6] However long they have been here."""
    worker = await rig.worker()
    await rig.clock.advance(60 * DAY)
    await rig.store.expire()
    (id,) = await rig.add("t")
    assert (await rig.run(worker, id)).id == id
