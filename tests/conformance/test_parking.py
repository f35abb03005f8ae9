"""Parking: automatic enqueues of a unique key whose jobs died again and again wait for a while [O7]."""

from typing import Any

import pytest

from tests.conformance.kit import Rig, failure, job
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind, State
from windlass.store.records import EnqueueStatus

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


async def die(rig: Rig, worker: int, times: int = 1, key: str = "k") -> None:
    """Let jobs of this key, enqueued by hand, die one after the other."""
    for _ in range(times):
        (id,) = await rig.add("t", unique_key=key)
        await rig.finish(worker, await rig.run(worker, id), Kind.DEAD, error=failure())


async def status(rig: Rig, key: str = "k", **fields: Any) -> EnqueueStatus:
    """What becomes of an automatic enqueue of this key; what it added is taken back."""
    receipt = await rig.one(unique_key=key, automatic=True, **fields)
    if receipt.status == "parked":
        assert receipt.id == 0
    else:
        await rig.store.delete([receipt.id])
    return receipt.status


async def test_the_third_death_parks(rig: Rig) -> None:
    """[O7] Nothing is added then."""
    worker = await rig.worker()
    for expected in ("enqueued", "enqueued", "parked"):
        await die(rig, worker)
        before = len(await rig.listing())
        assert await status(rig) == expected
        assert len(await rig.listing()) == before


async def test_twice_as_long_each_time(rig: Rig) -> None:
    """[O7] From the last death on: 30 min, doubling to 6 h."""
    worker = await rig.worker()
    await die(rig, worker, 2)
    for parked in (30 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR, 6 * HOUR, 6 * HOUR):
        await die(rig, worker)
        await rig.clock.advance(parked - 30)
        assert await status(rig) == "parked"
        await rig.clock.advance(60)
        assert await status(rig) == "enqueued"


async def test_each_death_parks_anew(rig: Rig) -> None:
    """[O7] Also that of a job that was let through, and that of one enqueued by hand."""
    worker = await rig.worker()
    await die(rig, worker, 3)
    await rig.clock.advance(31 * MINUTE)
    receipt = await rig.one(unique_key="k", automatic=True)
    await rig.finish(worker, await rig.run(worker, receipt.id), Kind.DEAD)
    await rig.clock.advance(59 * MINUTE)
    assert await status(rig) == "parked"
    await die(rig, worker)
    await rig.clock.advance(119 * MINUTE)
    assert await status(rig) == "parked"


async def test_what_is_enqueued_by_hand_passes(rig: Rig) -> None:
    """[O7] And jobs of other keys, and those without one."""
    await die(rig, await rig.worker(), 5)
    assert await status(rig) == "parked"
    assert (await rig.one(unique_key="k")).status == "enqueued"
    assert (await rig.one(unique_key="other", automatic=True)).status == "enqueued"
    assert (await rig.one(automatic=True)).status == "enqueued"


async def test_a_success_forgets(rig: Rig) -> None:
    """[O7] The next three deaths are counted from the beginning."""
    worker = await rig.worker()
    await die(rig, worker, 4)
    (id,) = await rig.add("t", unique_key="k")
    await rig.finish(worker, await rig.run(worker, id))
    assert await status(rig) == "enqueued"
    await die(rig, worker, 2)
    assert await status(rig) == "enqueued"
    await die(rig, worker)
    assert await status(rig) == "parked"


async def test_seven_days_forget(rig: Rig) -> None:
    """[O7] Without a death."""
    worker = await rig.worker()
    await die(rig, worker, 2)
    await rig.clock.advance(6 * DAY)
    await rig.store.expire()
    await die(rig, worker)
    assert await status(rig) == "parked"
    await rig.clock.advance(7 * DAY + 60)
    worker = await rig.worker()
    await die(rig, worker, 2)
    assert await status(rig) == "enqueued"


@pytest.mark.parametrize("way", ["exhausted", "poison", "parent"])
async def test_every_way_to_die_counts(rig: Rig, way: str) -> None:
    """[O7] A parent's death is one, however many of its parts have died."""
    for _ in range(3):
        assert await status(rig) == "enqueued"
        worker = await rig.worker()
        if way == "parent":
            id = await rig.parent(worker, 3, unique_key="k")
            await rig.finish(worker, await rig.claim(worker), Kind.DEAD)
            assert (await rig.parent_record(id)).state is State.DEAD
            continue
        (id,) = await rig.add("t", unique_key="k", max_attempts=1)
        claimed = await rig.run(worker, id)
        if way == "poison":
            await rig.die(worker, DeathPolicy(poison=1))
        else:
            await rig.finish(worker, claimed, Kind.RETRY)
    assert await status(rig) == "parked"


async def test_it_is_judged_before_the_key(rig: Rig) -> None:
    """[O7] [E6] Whoever holds the key by now is left alone, and nothing is raised."""
    await die(rig, await rig.worker(), 3)
    twin = await rig.one("twin", unique_key="k")
    for policy in ("skip", "replace", "reject"):
        assert await status(rig, on_conflict=policy) == "parked"
    assert [record.id for record in await rig.listing(state=State.READY)] == [twin.id]


async def test_it_is_judged_after_the_idempotency_key(rig: Rig) -> None:
    """[O7] [E7] What was enqueued before is repeated; what was parked was not enqueued."""
    worker = await rig.worker()
    first = await rig.one(unique_key="k", automatic=True, idempotency_key="x")
    await rig.finish(worker, await rig.run(worker, first.id), Kind.DEAD)
    await die(rig, worker, 2)
    again = await rig.one(unique_key="k", automatic=True, idempotency_key="x")
    assert (again.id, again.status) == (first.id, "repeated")
    assert await status(rig, idempotency_key="y") == "parked"
    assert (await rig.one(unique_key="k", idempotency_key="y")).status == "enqueued"


async def test_the_rest_of_the_call_is_enqueued(rig: Rig) -> None:
    """[O7] [E1] Receipts stand in the order of the jobs."""
    await die(rig, await rig.worker(), 3)
    jobs = [job(unique_key=key, automatic=True) for key in ("a", "k", "b")]
    receipts = await rig.store.enqueue(jobs)
    assert [receipt.status for receipt in receipts] == ["enqueued", "parked", "enqueued"]


async def test_deaths_survive_rotation(rig: Rig) -> None:
    """[K6] [O7]"""
    worker = await rig.worker()
    await die(rig, worker, 2)
    await rig.turn()
    await die(rig, worker)
    await rig.turn()
    assert await status(rig) == "parked"


async def test_cancelled_runs_change_nothing(rig: Rig) -> None:
    """[O7] Neither a death nor a success."""
    worker = await rig.worker()
    await die(rig, worker, 2)
    (id,) = await rig.add("t", unique_key="k")
    await rig.store.cancel([id])
    assert await status(rig) == "enqueued"
    await die(rig, worker)
    assert await status(rig) == "parked"
