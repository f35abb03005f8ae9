"""Fair share: jobs of different fair keys in one queue interleave [C3].

When a job is admitted into its lane is the store's to choose: with the commit that makes room for it, or with
the next `promote`. The tests promote wherever that would make a difference.
"""

import pytest

from tests.conformance.kit import Rig, job
from windlass.core.states import Kind, Priority, State


async def drain(rig: Rig, worker: int, limit: int = 1000) -> list[str]:
    """Promote, claim and finish until nothing is left; the tasks in the order they were claimed."""
    order: list[str] = []
    while len(order) < limit:
        await rig.store.promote()
        jobs = await rig.claim(worker, limit=min(10, limit - len(order)))
        if not jobs:
            return order
        order += [job.task for job in jobs]
        await rig.finish(worker, jobs)
    return order


async def test_keys_take_turns(rig: Rig) -> None:
    """[C3] One job of each key and round, in the order of each key's enqueues."""
    names = ("a0", "a1", "a2", "a3", "b0", "b1", "c0")
    await rig.store.enqueue([job(name, fair_key=name[0]) for name in names])
    assert await drain(rig, await rig.worker()) == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]


async def test_no_more_than_the_window_waits_in_the_lane(rig: Rig) -> None:
    """[C3] The lane takes `window` jobs and the next ones as it empties: who comes later has his turn among
    these."""
    await rig.store.set_queue("default", {"window": 3})
    await rig.add(*(["a"] * 7), fair_key="a")
    await rig.store.promote()
    assert (await rig.store.promote()).admitted == 0
    await rig.add("b", "b", fair_key="b")
    assert await drain(rig, await rig.worker()) == ["a", "a", "a", "b", "a", "b", "a", "a", "a"]


async def test_a_claim_of_less_than_the_window_keeps_the_turns(rig: Rig) -> None:
    """[C3] One by one or all at once, it is the same order."""
    await rig.store.set_queue("default", {"window": 4})
    names = [f"{key}{n}" for key in "abc" for n in range(4)]
    await rig.store.enqueue([job(name, fair_key=name[0]) for name in names])
    worker, order = await rig.worker(), list[str]()
    for _ in names:
        await rig.store.promote()
        order += [claimed.task for claimed in await rig.claim(worker, limit=1)]
    assert order == [f"{key}{n}" for n in range(4) for key in "abc"]


async def test_a_new_key_waits_for_a_window_at_most(rig: Rig) -> None:
    """[C3] Bounded wait: one key holds a thousand jobs, another comes late and is served among the next."""
    await rig.store.set_queue("default", {"window": 5})
    await rig.add(*(["big"] * 1000), fair_key="big")
    worker = await rig.worker()
    await drain(rig, worker, limit=20)
    await rig.store.promote()
    await rig.add(*(["small"] * 3), fair_key="small")
    order = await drain(rig, worker, limit=20)
    # Five of the big one may stand in the lane already; from then on they take turns.
    assert order[:5].count("small") <= 1
    assert order[:12].count("small") == 3


async def test_the_ring_goes_on_where_it_stopped(rig: Rig) -> None:
    """[C3] A step ends in the middle of a round, and the next begins with the key after it."""
    await rig.store.set_queue("default", {"window": 2})
    names = ("a0", "a1", "b0", "b1", "c0", "c1")
    await rig.store.enqueue([job(name, fair_key=name[0]) for name in names])
    assert await drain(rig, await rig.worker()) == ["a0", "b0", "c0", "a1", "b1", "c1"]


async def test_a_key_between_two_others_is_not_passed_over(rig: Rig) -> None:
    """[C3] The ring remembers a key, not an index: one that comes in between gets its turn."""
    await rig.store.set_queue("default", {"window": 1})
    await rig.store.enqueue([job("a0", fair_key="a"), job("a1", fair_key="a"), job("z0", fair_key="z")])
    await rig.store.promote()
    await rig.store.enqueue([job("m0", fair_key="m")])
    assert await drain(rig, await rig.worker()) == ["a0", "m0", "z0", "a1"]


async def test_each_priority_has_a_ring_of_its_own(rig: Rig) -> None:
    """[C3] [C2]"""
    for priority, name in ((Priority.LOW, "low"), (Priority.HIGH, "high")):
        await rig.store.enqueue(
            [job(f"{name}-{key}{n}", fair_key=key, priority=priority) for key in "ab" for n in range(2)]
        )
    assert await drain(rig, await rig.worker()) == [
        "high-a0", "high-b0", "high-a1", "high-b1", "low-a0", "low-b0", "low-a1", "low-b1",
    ]  # fmt: skip


async def test_plain_jobs_share_the_lane(rig: Rig) -> None:
    """[C3] They stand in the lane from the start, so they fill the window, too."""
    await rig.store.set_queue("default", {"window": 3})
    await rig.add("plain", "plain")
    await rig.add("fair", "fair", fair_key="a")
    await rig.store.promote()
    await rig.add("late")
    worker = await rig.worker()
    tasks = [job.task for job in await rig.claim(worker, limit=4)]
    assert tasks == ["plain", "plain", "fair", "late"]
    assert await drain(rig, worker) == ["fair"]


async def test_admission_is_bounded(rig: Rig) -> None:
    """[C3] One step admits no more than its limit."""
    await rig.store.set_queue("default", {"window": 1})
    await rig.add(*(["t"] * 11), fair_key="a")
    await rig.store.promote()
    await rig.store.set_queue("default", {"window": 100})
    steps = [(await rig.store.promote(limit=4)).admitted for _ in range(4)]
    assert steps == [4, 4, 2, 0]


async def test_held_jobs_are_ready_and_counted(rig: Rig) -> None:
    """[C3] Nobody sees a difference but the claimer."""
    await rig.add("plain")
    await rig.add("a", "b", fair_key="k")
    assert (await rig.depth()).ready == 3
    assert len(await rig.listing(state=State.READY)) == 3
    await rig.store.promote()
    assert (await rig.depth()).ready == 3


@pytest.mark.parametrize("kind", [Kind.RETRY, Kind.RELEASED])
async def test_a_fair_job_offered_again_keeps_its_key(rig: Rig, kind: Kind) -> None:
    """[C3] At once into its lane, without a new turn."""
    id = (await rig.one(fair_key="k")).id
    await rig.store.promote()
    worker = await rig.worker()
    await rig.finish(worker, await rig.run(worker, id), kind)
    assert (await rig.run(worker, id)).options.fair_key == "k"


async def test_waiting_for_a_turn_is_waiting(rig: Rig) -> None:
    """[C3] [M1] Admission moves a job and does not make it younger."""
    await rig.one(fair_key="k")
    await rig.clock.advance(300)
    assert (await rig.store.depth())["default"].oldest == pytest.approx(300, abs=30)
    await rig.store.promote()
    assert (await rig.store.depth())["default"].oldest == pytest.approx(300, abs=30)


async def test_a_scheduled_fair_job_waits_from_its_time(rig: Rig) -> None:
    """[C3] [M1] Not from its enqueue, whether it is held or admitted."""
    await rig.store.set_queue("default", {"window": 1})
    await rig.add("a", "b", fair_key="k", delay=36000)
    await rig.clock.advance(36001)
    await rig.store.promote()
    await rig.store.promote()
    assert (await rig.depth()).ready == 2
    assert (await rig.store.depth())["default"].oldest == pytest.approx(0, abs=30)


async def test_a_fair_job_keeps_what_it_has_been_through(rig: Rig) -> None:
    """[C3] [C8] Put off by a second death, or by a failure, it comes back with its counts."""
    id = (await rig.one(fair_key="k")).id
    await rig.store.promote()
    for _ in range(2):
        worker = await rig.worker()
        await rig.run(worker, id)
        await rig.die(worker)
    await rig.clock.advance(60)
    await rig.store.promote()
    await rig.store.promote()
    worker = await rig.worker()
    job = await rig.run(worker, id)
    assert (job.attempt, job.deaths) == (1, 2)
    await rig.finish(worker, job, Kind.RETRY, delay=60)
    await rig.clock.advance(61)
    await rig.store.promote()
    await rig.store.promote()
    again = await rig.run(worker, id)
    assert (again.attempt, again.deaths) == (2, 2)


async def test_a_scheduled_fair_job_takes_its_turn_when_due(rig: Rig) -> None:
    """[C3] [E2]"""
    assert (await rig.one("later", fair_key="k", delay=60)).status == "scheduled"
    await rig.clock.advance(61)
    await rig.store.promote()
    await rig.store.promote()
    assert [job.task for job in await rig.claim(await rig.worker())] == ["later"]


async def test_a_fair_job_put_off_takes_a_new_turn(rig: Rig) -> None:
    """[C3] [C2] Behind the others of its key: a retry goes to the back, so a failing key delays nobody."""
    await rig.store.set_queue("default", {"window": 1})
    await rig.store.enqueue([job(name, fair_key=name[0]) for name in ("a0", "a1", "b0", "b1")])
    worker = await rig.worker()
    await rig.store.promote()
    (first,) = await rig.claim(worker, limit=1)
    await rig.finish(worker, first, Kind.RETRY, delay=60)
    await rig.clock.advance(61)
    assert first.task == "a0"
    assert await drain(rig, worker) == ["b0", "a1", "b1", "a0"]


async def test_held_jobs_survive_rotation(rig: Rig) -> None:
    """[C3] [K6]"""
    ids = await rig.add("a", "b", fair_key="k")
    await rig.turn()
    await rig.store.promote()
    assert [job.id for job in await rig.claim(await rig.worker())] == ids
