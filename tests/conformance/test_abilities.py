"""Abilities: a job that needs some is run only by a worker that has all of them [K14], and is in nobody's
way."""

import asyncio
from typing import Any

import pytest

from tests.conformance.gate_kit import settle
from tests.conformance.kit import POLICY, Rig, failure
from windlass.core.states import Kind, Priority, State
from windlass.store.records import Depth, JobChange, Outcome, Room

GPU: frozenset[str] = frozenset({"gpu"})
BOTH: frozenset[str] = frozenset({"big-memory", "gpu"})


async def able(rig: Rig, *queues: str) -> int:
    """A worker that has more than any of these tests need."""
    return await rig.worker(*queues, abilities=frozenset({"big-memory", "gpu", "disk"}))


async def test_only_a_worker_that_has_them_all_gets_the_job(rig: Rig) -> None:
    """[K14] One ability of two is not enough, and one more than is needed does no harm."""
    plain, gpu, both = [(await rig.one(needs=needs)).id for needs in ("", "gpu", "big-memory,gpu")]
    expected = [(frozenset[str](), [plain]), (GPU, [gpu]), (BOTH | {"disk"}, [both])]
    for abilities, ids in expected:
        worker = await rig.worker(abilities=abilities)
        jobs = await rig.claim(worker)
        assert [job.id for job in jobs] == ids
        assert await rig.claim(worker) == []
        await rig.finish(worker, jobs)
    assert {await rig.state(id) for id in (plain, gpu, both)} == {State.SUCCEEDED}


async def test_those_in_front_are_in_nobodys_way(rig: Rig) -> None:
    """[K14] However many wait for another worker, also of a higher priority, the others come as if these were
    not there; and who waits for work is not called for them."""
    await rig.add(*["t"] * 300, needs="gpu")
    await rig.add(*["t"] * 300, needs="gpu", priority=Priority.HIGH)
    worker = await rig.worker()
    assert await rig.claim(worker) == []
    async with asyncio.timeout(20.0):  # it may begin to listen, and hear of what is over
        while await rig.store.wait(["default"], 0.05):
            pass
    ids = await rig.add("a", "b")
    assert [job.id for job in await rig.claim(worker, limit=1)] == ids[:1]
    assert [job.id for job in await rig.claim(worker)] == ids[1:]
    assert (await rig.depth()).ready == 600
    assert len(await rig.claim(await able(rig), limit=1000)) == 600


async def test_priorities_hold_among_the_jobs_of_one_worker(rig: Rig) -> None:
    """[C2] [K14] Whether they need something or not."""
    low = await rig.add("t", priority=Priority.LOW, needs="gpu")
    normal = await rig.add("t")
    high = await rig.add("t", priority=Priority.HIGH, needs="big-memory")
    jobs = await rig.claim(await able(rig))
    assert [job.id for job in jobs] == high + normal + low


async def attempts(rig: Rig, way: str, worker: int, id: int) -> None:
    """Bring a claimed job back to its lane in some way."""
    job = await rig.run(worker, id)
    match way:
        case "retried at once":
            await rig.finish(worker, job, Kind.RETRY, error=failure())
        case "retried later":
            await rig.finish(worker, job, Kind.RETRY, error=failure(), delay=60.0)
        case "snoozed":
            await rig.finish(worker, job, Kind.SNOOZE, delay=60.0)
        case "released":
            await rig.finish(worker, job, Kind.RELEASED)
        case "left behind":
            await rig.store.retire(worker)
        case "rescued":
            await rig.die(worker, POLICY)
        case "retried by an operator":
            await rig.finish(worker, job, Kind.DEAD, reason="no use")
            await rig.store.retry([id])
    await rig.clock.advance(61.0)
    await settle(rig)


@pytest.mark.parametrize(
    "way",
    [
        "retried at once", "retried later", "snoozed", "released", "left behind", "rescued",
        "retried by an operator",
    ],
)  # fmt: skip
async def test_a_job_that_comes_back_needs_what_it_needed(rig: Rig, way: str) -> None:
    """[K14] However its attempt has ended."""
    (id,) = await rig.add("t", needs="gpu")
    await attempts(rig, way, await able(rig), id)
    other = await rig.worker()
    assert await rig.claim(other) == []
    job = await rig.run(await able(rig), id)
    assert job.options.needs == "gpu"


@pytest.mark.parametrize("given", [{"delay": 30.0}, {"unique_key": "k"}, {"delay": 30.0, "fair_key": "f"}])
async def test_a_job_on_its_way_needs_what_it_needed(rig: Rig, given: dict[str, Any]) -> None:
    """[K14] One that is due later, and one with keys."""
    (id,) = await rig.add("t", needs="gpu", **given)
    await rig.clock.advance(31.0)
    await settle(rig)
    assert await rig.claim(await rig.worker()) == []
    await rig.run(await able(rig), id)


async def test_one_after_others_needs_what_it_needed(rig: Rig) -> None:
    """[P12] [K14]"""
    (first,) = await rig.add("t")
    (second,) = await rig.add("t", needs="gpu", after=(first,))
    worker = await rig.worker()
    await rig.finish(worker, await rig.run(worker, first))
    await settle(rig)
    assert await rig.claim(worker) == []
    await rig.run(await able(rig), second)


async def test_parts_need_what_their_parent_needs(rig: Rig) -> None:
    """[P4] [K14] The finalizer, too."""
    worker, other = await able(rig), await rig.worker()
    (id,) = await rig.add("t", chunked=True, needs="gpu")
    await rig.split(worker, await rig.run(worker, id), 2, finalizer=True)
    for _ in range(3):
        await rig.store.promote()
        assert await rig.claim(other) == []
        (job,) = await rig.claim(worker, limit=1)
        assert job.options.part is not None
        await rig.finish(worker, job)
    await settle(rig)
    assert await rig.state(id) is State.SUCCEEDED


@pytest.mark.parametrize("where", ["ready", "scheduled", "held"])
async def test_a_change_keeps_what_it_needs(rig: Rig, where: str) -> None:
    """[E8] [K14] Another queue or priority; and what it needs can be changed as well."""
    ways: dict[str, dict[str, Any]] = {"scheduled": {"delay": 30.0}, "held": {"fair_key": "f"}}
    given = ways.get(where, {})
    (id,) = await rig.add("t", needs="gpu", **given)
    assert await rig.store.change(id, JobChange(queue="other", priority=Priority.HIGH)) == "changed"
    await rig.clock.advance(31.0)
    await settle(rig)
    worker = await rig.worker()
    assert await rig.claim(worker, "default", "other") == []
    assert (await rig.look(id)).options.needs == "gpu"
    assert await rig.store.change(id, JobChange(options={"needs": "big-memory"})) == "changed"
    await settle(rig)
    assert await rig.claim(await rig.worker(abilities=GPU), "other") == []
    assert await rig.store.change(id, JobChange(options={"needs": ""})) == "changed"
    await settle(rig)
    await rig.run(worker, id, "other")


async def test_each_lane_has_a_ring_of_fair_keys(rig: Rig) -> None:
    """[C3] [K14] Jobs that nobody can run fill their own window; the others have theirs, and take turns."""
    await rig.store.set_queue("default", {"window": 10})
    await rig.add(*["t"] * 50, fair_key="a", needs="gpu")
    mine = await rig.add(*["t"] * 20, fair_key="a")
    late = await rig.add(*["t"] * 20, fair_key="b")
    worker = await rig.worker()
    ran: list[int] = []
    while jobs := await rig.claim(worker, limit=5):
        ran += [job.id for job in jobs]
        await rig.finish(worker, jobs)
        await settle(rig)
    assert sorted(ran) == sorted(mine + late)
    assert set(ran[:30]) & set(late)
    other, left = await able(rig), 0
    while jobs := await rig.claim(other, limit=20):
        left += len(jobs)
        await rig.finish(other, jobs)
        await settle(rig)
    assert left == 50


GATES: list[dict[str, Any]] = [{"concurrency_key": "k"}, {"task_limit": 1}]


@pytest.mark.parametrize("gate", GATES, ids=["key", "task"])
async def test_one_that_nobody_can_run_keeps_no_slot(rig: Rig, gate: dict[str, Any]) -> None:
    """[F3] [K14] It waits aside until a worker comes that can, and says so."""
    (first,) = await rig.add("t", needs="gpu", **gate)
    worker = await rig.worker("default")
    second, third = await rig.add("t", "t", **gate)
    for id in (second, third):
        await settle(rig)
        await rig.finish(worker, await rig.run(worker, id))
    await settle(rig)
    assert (await rig.look(first)).reason in (
        None,
        "waits for queue default, which is paused or served by no worker with the ability gpu",
    )
    other = await able(rig, "default")
    await settle(rig)
    await rig.run(other, first)


@pytest.mark.parametrize("gate", [{"concurrency_key": "k"}, {"ordering_key": "k"}], ids=["key", "order"])
async def test_nothing_is_handed_over_that_the_worker_cannot_run(rig: Rig, gate: dict[str, Any]) -> None:
    """[F6] [K14] A flush hands over the next of the key only to one that has what it needs."""
    worker, other = await rig.worker("default"), await able(rig, "default")
    first, second, third = [(await rig.one(needs=needs, **gate)).id for needs in ("", "gpu", "gpu")]
    await settle(rig)
    room = Room({"default": 5}, frozenset(), {"default": 5})
    ended = await rig.finish(worker, await rig.run(worker, first))
    assert ended.claims == ()
    await settle(rig)
    assert await rig.claim(worker) == []
    job = await rig.run(other, second)
    answer = await rig.flush(other, [Outcome(job=job, kind=Kind.SUCCEEDED)], room)
    handed = [job.id for claim in answer.claims for job in claim.jobs]
    await settle(rig)
    assert handed == [third] or [job.id for job in await rig.claim(other)] == [third]


@pytest.mark.parametrize(
    "given",
    [{}, {"fair_key": "f"}, {"concurrency_key": "k"}, {"ordering_key": "o"}, {"unique_key": "u"}],
    ids=["plain", "fair", "key", "order", "unique"],
)
async def test_a_worker_sends_on_what_it_is_not_able_to_run(rig: Rig, given: dict[str, Any]) -> None:
    """[K14] Nobody had said what the job needs, but its task does. It is charged nothing, and stays where it
    was sent."""
    (id,) = await rig.add("t", **given)
    worker = await rig.worker("default")
    await settle(rig)
    await rig.finish(worker, await rig.run(worker, id), Kind.RELEASED, needs="big-memory,gpu")
    await rig.clock.advance(0.01)
    await settle(rig)
    assert await rig.claim(worker) == []
    other = await able(rig, "default")
    await settle(rig)
    job = await rig.run(other, id)
    assert (job.attempt, job.deaths, job.options.needs) == (1, 0, "big-memory,gpu")
    assert (await rig.depth()).running == 1
    await rig.finish(other, job)
    assert await rig.state(id) is State.SUCCEEDED
    assert await rig.depth() == Depth()


async def test_one_that_is_to_be_cancelled_is_not_sent_on(rig: Rig) -> None:
    """[O5] [K14] It has ended."""
    (id,) = await rig.add("t")
    worker = await rig.worker()
    job = await rig.run(worker, id)
    assert await rig.store.cancel([id]) == {id: "requested"}
    await rig.finish(worker, job, Kind.RELEASED, needs="gpu")
    assert await rig.state(id) is State.CANCELLED


async def test_a_worker_tells_what_it_has(rig: Rig) -> None:
    """[K14] Sorted, for all to see."""
    await rig.worker(abilities=BOTH)
    await rig.worker()
    assert [each.abilities for each in await rig.store.workers()] == [("big-memory", "gpu"), ()]
