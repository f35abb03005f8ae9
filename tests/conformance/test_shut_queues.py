"""Jobs of queues that are paused, or that nobody serves, keep no slot of a key or a task from others [F3]."""

from typing import Any

import pytest

from tests.conformance.gate_kit import settle
from tests.conformance.kit import Rig
from windlass.core.states import State

GATES: list[dict[str, Any]] = [{"concurrency_key": "k"}, {"task_limit": 1}]
BY = pytest.mark.parametrize("gate", GATES, ids=["key", "task"])
SHUT = "waits for queue away, which is paused or served by no worker"


async def shut(rig: Rig, way: str) -> int:
    """A worker that runs no jobs of the queue away, for the given reason."""
    if way == "paused":
        await rig.store.set_queue("away", {"paused": True})
    return await rig.worker("here", *(["away"] if way == "paused" else []))


async def open_up(rig: Rig, way: str) -> int:
    """From now on somebody runs them."""
    if way == "paused":
        await rig.store.set_queue("away", {"paused": False})
    return await rig.worker("here", "away")


@BY
@pytest.mark.parametrize("way", ["paused", "unserved"])
async def test_they_leave_their_slots_to_others(rig: Rig, way: str, gate: dict[str, Any]) -> None:
    """[F3] [fault 35] The first was let into the lane of its queue, and kept the slot for as long as nobody
    came."""
    (first,) = await rig.add("t", queue="away", **gate)
    worker = await shut(rig, way)
    (other,) = await rig.add("t", queue="here", **gate)
    await settle(rig)
    job = await rig.run(worker, other, "here")
    assert (await rig.look(first)).state is State.READY
    assert (await rig.look(first)).reason == SHUT
    assert (await rig.depth("away")).ready == 1
    await rig.finish(worker, job)
    worker = await open_up(rig, way)
    await settle(rig)
    assert (await rig.look(first)).reason is None
    await rig.run(worker, first, "away", "here")


@BY
@pytest.mark.parametrize("way", ["paused", "unserved"])
async def test_however_many_stand_before_the_others(rig: Rig, way: str, gate: dict[str, Any]) -> None:
    """[F3] Nobody lets them in one by one."""
    worker = await shut(rig, way)
    away = await rig.add(*["t"] * 30, queue="away", **gate)
    (other,) = await rig.add("t", queue="here", **gate)
    await settle(rig)
    await rig.finish(worker, await rig.run(worker, other, "here"))
    worker = await open_up(rig, way)
    ran: list[int] = []
    for _ in away:
        await settle(rig)
        (job,) = await rig.claim(worker, "away", "here")
        ran.append(job.id)
        await rig.finish(worker, job)
    assert sorted(ran) == sorted(away)


async def test_a_queue_paused_later_gives_its_slots_back(rig: Rig) -> None:
    """[F3] [K2] What runs goes on and keeps its own; what only waits does not."""
    worker = await rig.worker("here", "away")
    running, waiting = await rig.add("t", "t", queue="away", concurrency_key="k", key_limit=2)
    job = await rig.run(worker, running, "away")
    (other,) = await rig.add("t", queue="here", concurrency_key="k", key_limit=2)
    await settle(rig)
    assert await rig.claim(worker, "here") == []
    await rig.store.set_queue("away", {"paused": True})
    await settle(rig)
    await rig.run(worker, other, "here")
    assert await rig.state(running) is State.RUNNING
    assert (await rig.look(waiting)).reason == SHUT
    await rig.finish(worker, job)


async def test_nobody_needs_to_leave_where_nobody_waits(rig: Rig) -> None:
    """[F3] A paused queue keeps its jobs in their lane: the resumed one runs them at once."""
    worker = await rig.worker()
    (id,) = await rig.add("t", concurrency_key="k")
    await settle(rig)
    await rig.store.set_queue("default", {"paused": True})
    await settle(rig)
    assert (await rig.look(id)).reason is None
    await rig.store.set_queue("default", {"paused": False})
    await rig.run(worker, id)


@pytest.mark.parametrize("verb", ["cancel", "delete"])
async def test_one_who_waits_for_his_queue_can_be_ended(rig: Rig, verb: str) -> None:
    """[F3] [O5]"""
    (first,) = await rig.add("t", queue="away", concurrency_key="k")
    await shut(rig, "paused")
    await rig.add("t", queue="here", concurrency_key="k")
    await settle(rig)
    answer = await getattr(rig.store, verb)([first])
    assert answer == {first: {"cancel": "cancelled", "delete": "deleted"}[verb]}
    assert (await rig.depth("away")).ready == 0


async def test_they_outlive_the_turn_of_the_logs(rig: Rig) -> None:
    """[F3] Their place in the lane is over for the log, and they are where they wait."""
    (first,) = await rig.add("t", queue="away", concurrency_key="k")
    worker = await shut(rig, "paused")
    (other,) = await rig.add("t", queue="here", concurrency_key="k")
    await settle(rig)
    await rig.finish(worker, await rig.run(worker, other, "here"))
    await rig.turn()
    await rig.store.set_queue("away", {"paused": False})
    await settle(rig)
    job = await rig.run(worker, first, "away")
    assert (job.attempt, job.deaths) == (1, 0)
    await rig.finish(worker, job)
    assert await rig.state(first) is State.SUCCEEDED
