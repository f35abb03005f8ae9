"""Promote: deferred jobs that are due go into their lanes, earliest first [C2] [E2]."""

from tests.conformance.kit import Rig, job
from windlass.core.states import Kind, Priority, State
from windlass.store.records import Promoted


async def test_nothing_to_do(rig: Rig) -> None:
    """[E2]"""
    await rig.add("ready")
    await rig.one(delay=60)
    assert await rig.store.promote() == Promoted()


async def test_earliest_first(rig: Rig) -> None:
    """[C2] In the order of their times, behind what is waiting already."""
    await rig.store.enqueue([job("third", delay=30), job("first", delay=10), job("second", delay=20)])
    await rig.add("waiting")
    await rig.clock.advance(60)
    assert await rig.store.promote() == Promoted(due=3)
    tasks = [job.task for job in await rig.claim(await rig.worker())]
    assert tasks == ["waiting", "first", "second", "third"]
    assert await rig.store.promote() == Promoted()


async def test_only_what_is_due(rig: Rig) -> None:
    """[E2]"""
    await rig.store.enqueue([job("soon", delay=60), job("late", delay=600)])
    await rig.clock.advance(120)
    assert (await rig.store.promote()).due == 1
    worker = await rig.worker()
    assert [job.task for job in await rig.claim(worker)] == ["soon"]
    await rig.clock.advance(600)
    assert (await rig.store.promote()).due == 1
    assert [job.task for job in await rig.claim(worker)] == ["late"]


async def test_a_step_is_bounded(rig: Rig) -> None:
    """[E2] Ten due, three a step: four steps, and the order holds over them."""
    await rig.store.enqueue([job(f"t{n}", delay=10 + n) for n in range(10)])
    await rig.clock.advance(60)
    steps = [(await rig.store.promote(limit=3)).due for _ in range(5)]
    assert steps == [3, 3, 3, 1, 0]
    assert [job.task for job in await rig.claim(await rig.worker())] == [f"t{n}" for n in range(10)]


async def test_each_to_its_own_lane(rig: Rig) -> None:
    """[C2] A promoted job keeps id, queue, priority and all it carries."""
    urgent = await rig.one("urgent", delay=10, priority=Priority.URGENT, queue="q", tags=("x",))
    low = await rig.one("low", delay=5, priority=Priority.LOW, queue="q")
    await rig.clock.advance(20)
    await rig.store.promote()
    claimed = await rig.claim(await rig.worker(), "q")
    assert [(job.id, job.priority) for job in claimed] == [
        (urgent.id, Priority.URGENT),
        (low.id, Priority.LOW),
    ]
    assert claimed[0].options.tags == ("x",)


async def test_a_job_enqueued_behind_others_that_were_promoted(rig: Rig) -> None:
    """[E2] What is due earlier but came later is still found."""
    await rig.one("first", delay=50)
    await rig.clock.advance(100)
    await rig.store.promote()
    now = (await rig.look((await rig.one(queue="probe")).id)).enqueued_at
    await rig.one("late", run_at=now + 30)
    await rig.clock.advance(31)
    assert (await rig.store.promote()).due == 1
    assert [job.task for job in await rig.claim(await rig.worker())] == ["first", "late"]


async def test_a_paused_queue_is_promoted_too(rig: Rig) -> None:
    """[K2] Pause stops claims, nothing else."""
    id = (await rig.one(delay=10)).id
    await rig.store.set_queue("default", {"paused": True})
    await rig.clock.advance(20)
    assert (await rig.store.promote()).due == 1
    assert await rig.state(id) is State.READY


async def test_deferred_jobs_survive_rotation(rig: Rig) -> None:
    """[K6] However long they sleep."""
    worker = await rig.worker()
    later = (await rig.one(delay=3600)).id
    job = await rig.run(worker, (await rig.one()).id)
    await rig.finish(worker, job, Kind.RETRY, delay=1800)
    await rig.turn()
    assert (await rig.state(later), await rig.state(job.id)) == (State.SCHEDULED, State.RETRYING)
    await rig.clock.advance(3700)
    assert (await rig.store.promote()).due == 2
    assert [job.id for job in await rig.claim(worker)] == [job.id, later]
