"""Splitting: a claimed job becomes a parent, with its parts, in one step [P4]."""

import asyncio
from typing import Any

import pytest

from tests.conformance.kit import Rig, job, sample
from windlass.core.states import Kind, Priority, State
from windlass.errors import ClaimLost, ResultTimeout, WorkerLost
from windlass.store.records import CARRIED, Checkpoint, Options, PartPlan, Plan, Rescued

PLAN = Plan(parts=[PartPlan("1", 5), PartPlan("2", 5)])


async def test_the_parent_waits_and_its_first_part_is_offered(rig: Rig) -> None:
    """[P4] [P8] The lowest index, without waiting for anybody's next step; a claim that has room for more
    takes more, up to `parallel`."""
    worker = await rig.worker()
    id = await rig.parent(worker, 5, parallel=2, tolerated=1)
    waiting = [State.WAITING] * 4
    assert [part.state for part in await rig.store.parts(id)] == [State.READY, *waiting]
    parent = await rig.store.parent(id)
    assert parent is not None
    assert (parent.id, parent.task, parent.queue, parent.state) == (id, "t", "default", State.WAITING)
    assert (parent.total, parent.out, parent.parallel, parent.tolerated) == (5, 1, 2, 1)
    assert (parent.succeeded, parent.dead, parent.cancelled, parent.final) == (0, 0, 0, None)
    assert (parent.size, parent.done, parent.finished_at) == (50, 0, None)
    claimed = await rig.claim(worker)
    assert [part.options.part.index for part in claimed if part.options.part] == [0, 1]
    assert [part.job for part in await rig.store.parts(id)][:2] == [part.id for part in claimed]


async def test_the_parent_holds_no_lease(rig: Rig) -> None:
    """[P4] Its worker may die: nothing of it is running."""
    worker = await rig.worker()
    id = await rig.parent(worker)
    record = await rig.look(id)
    assert (record.state, record.worker, record.claim) == (State.WAITING, None, None)
    assert await rig.store.unfinished(worker) == []
    assert (await rig.depth()).running == 0
    assert await rig.die(worker) == Rescued()
    assert (await rig.parent_record(id)).state is State.WAITING


async def test_the_job_of_a_part(rig: Rig) -> None:
    """[P4] Like its parent, but for what is the parent's alone; it says whose part it is."""
    worker = await rig.worker("q")
    (done,) = await rig.add("first", queue="q")
    options: dict[str, Any] = {"chunked": True, "replay_of": done}
    for field in CARRIED:
        options |= {} if field.name == "needs" else sample(field, done)
    options["otherwise"] = "run"
    await rig.finish(worker, await rig.run(worker, done, "q"))
    (id,) = await rig.add(
        "big",
        queue="q",
        priority=Priority.HIGH,
        payload='{"file":"x"}',
        **options,
    )
    await rig.store.promote()
    await rig.split(worker, await rig.run(worker, id, "q"), 3, parallel=1)
    split_at = (await rig.store.parts(id))[0].created_at
    await rig.clock.advance(50)
    (first,) = await rig.claim(worker, "q")
    await rig.finish(worker, first)
    await rig.store.promote()
    (part,) = await rig.claim(worker, "q")
    assert (part.task, part.payload, part.queue, part.priority) == ("big", '{"file":"x"}', "q", Priority.HIGH)
    assert (part.attempt, part.deaths) == (1, 0)
    of = part.options.part
    assert of is not None
    assert (of.parent, of.index, of.total, of.span, of.size) == (id, 1, 3, "[1]", 10)
    assert of.created_at == pytest.approx(split_at, abs=0.01)
    assert part.options == Options(**options).of_part(of)
    assert (await rig.look(part.id)).options == part.options


async def test_a_part_is_listed_before_it_is_offered(rig: Rig) -> None:
    """[P4] Parent, index, total, span and when it was split."""
    worker = await rig.worker()
    id = await rig.parent(worker, 2, parallel=1)
    parts = await rig.store.parts(id)
    assert [(part.parent, part.index, part.total, part.span) for part in parts] == [
        (id, 0, 2, [0]),
        (id, 1, 2, [1]),
    ]
    assert [(part.size, part.done, part.records, part.error) for part in parts] == [(10, 0, 0, None)] * 2
    assert (parts[0].attempt, parts[1].attempt, parts[1].job) == (1, 0, None)
    parent = await rig.parent_record(id)
    assert {part.created_at for part in parts} == {parent.created_at}
    assert parent.created_at == pytest.approx((await rig.look(id)).enqueued_at, abs=30)


async def test_it_is_splitting_while_it_runs(rig: Rig) -> None:
    """[P4] Where its task is a chunked one; others are running."""
    worker = await rig.worker()
    ids = await rig.add("big", chunked=True), await rig.add("small")
    await rig.claim(worker)
    assert [await rig.state(id) for (id,) in ids] == [State.SPLITTING, State.RUNNING]
    assert [record.task for record in await rig.listing(state=State.SPLITTING)] == ["big"]
    assert [record.task for record in await rig.listing(state=State.RUNNING)] == ["small"]


async def test_a_waiting_parent_is_listed(rig: Rig) -> None:
    """[P4] As waiting; parts that are not offered are no jobs yet."""
    worker = await rig.worker()
    id = await rig.parent(worker, 5, parallel=2)
    assert [record.id for record in await rig.listing(state=State.WAITING)] == [id]
    assert len(await rig.listing()) == 2
    await rig.claim(worker)
    assert len(await rig.listing()) == 3


async def test_sent_again_it_changes_nothing(rig: Rig) -> None:
    """[P4] [C5] Not at once, and not after a part has ended."""
    worker = await rig.worker()
    (id,) = await rig.add("t", chunked=True)
    claimed, flush = await rig.run(worker, id), rig.next_flush(worker)
    await rig.store.split(worker, flush, claimed, PLAN)
    before = await rig.store.parts(id)
    await rig.store.split(worker, flush, claimed, PLAN)
    assert await rig.store.parts(id) == before
    await rig.finish(worker, await rig.claim(worker))
    assert (await rig.parent_record(id)).state is State.SUCCEEDED
    await rig.store.split(worker, flush, claimed, PLAN)
    assert await rig.states(id) == [State.SUCCEEDED] * 2
    assert (await rig.parent_record(id)).state is State.SUCCEEDED
    assert await rig.claim(worker) == []


async def test_sent_twice_at_once(rig: Rig) -> None:
    """[P4] Parts are made once."""
    worker = await rig.worker()
    (id,) = await rig.add("t", chunked=True)
    claimed, flush = await rig.run(worker, id), rig.next_flush(worker)
    await asyncio.gather(*(rig.store.split(worker, flush, claimed, PLAN) for _ in range(3)))
    assert len(await rig.claim(worker)) == 2
    assert (await rig.parent_record(id)).total == 2


async def test_a_stranger_cannot_split(rig: Rig) -> None:
    """[C5] Nor the worker itself once the attempt has ended, nor a lost one; nothing is written."""
    worker, other = await rig.worker(), await rig.worker()
    (id,) = await rig.add("t", chunked=True)
    claimed = await rig.run(worker, id)
    with pytest.raises(ClaimLost):
        await rig.split(other, claimed)
    await rig.finish(worker, claimed, Kind.RELEASED)
    with pytest.raises(ClaimLost):
        await rig.split(worker, claimed)
    again = await rig.run(other, id)
    await rig.die(other)
    with pytest.raises(WorkerLost):
        await rig.split(other, again)
    assert await rig.store.parent(id) is None
    assert await rig.state(id) is State.READY
    await rig.split(worker, await rig.run(worker, id))
    assert (await rig.parent_record(id)).out == 1


async def test_a_split_attempt_has_no_other_end(rig: Rig) -> None:
    """[C5] An outcome, a checkpoint or a hand-back that comes later is refused."""
    worker = await rig.worker()
    (id,) = await rig.add("t", chunked=True)
    claimed = await rig.run(worker, id)
    await rig.split(worker, claimed)
    assert (await rig.finish(worker, claimed)).refused == (id,)
    with pytest.raises(ClaimLost):
        await rig.store.checkpoint(worker, claimed, Checkpoint("1"))
    assert await rig.state(id) is State.WAITING


async def test_a_crash_before_it_loses_nothing(rig: Rig) -> None:
    """[P4] The next worker splits, with what the first has saved of its plan."""
    worker, other = await rig.worker(), await rig.worker()
    (id,) = await rig.add("t", chunked=True)
    await rig.store.checkpoint(worker, await rig.run(worker, id), Checkpoint('"half"'))
    await rig.die(worker)
    claimed = await rig.run(other, id)
    assert (await rig.store.checkpoints([id]))[id].data == '"half"'
    await rig.split(other, claimed)
    assert await rig.store.checkpoints([id]) == {}
    assert (await rig.look(id)).checkpoint is None
    assert (await rig.parent_record(id)).total == 3


async def test_a_cancel_that_came_before(rig: Rig) -> None:
    """[O5] The job is cancelled, without parts."""
    worker = await rig.worker()
    (id,) = await rig.add("t", chunked=True, unique_key="k")
    claimed, flush = await rig.run(worker, id), rig.next_flush(worker)
    await rig.store.cancel([id])
    for _ in range(2):
        await rig.store.split(worker, flush, claimed, PLAN)
        assert await rig.state(id) is State.CANCELLED
        assert (await rig.store.parent(id), await rig.store.parts(id)) == (None, [])
    assert await rig.claim(worker) == []
    assert (await rig.one(unique_key="k")).status == "enqueued"


async def test_no_parts(rig: Rig) -> None:
    """[P1] [P3] Ends well."""
    worker = await rig.worker()
    id = await rig.parent(worker, 0)
    parent = await rig.parent_record(id)
    assert (parent.state, parent.total, parent.size, parent.records) == (State.SUCCEEDED, 0, 0, 0)
    assert await rig.state(id) is State.SUCCEEDED
    assert parent.finished_at is not None
    assert await rig.strip(id) == []


async def test_no_parts_and_a_finalizer(rig: Rig) -> None:
    """[P9] It runs all the same."""
    worker = await rig.worker()
    id = await rig.parent(worker, 0, finalizer=True)
    parent = await rig.parent_record(id)
    assert parent.state is State.WAITING
    assert parent.final is not None
    await rig.finish(worker, await rig.run(worker, parent.final), result='"empty"')
    assert (await rig.parent_record(id)).state is State.SUCCEEDED
    assert (await rig.look(id)).result == '"empty"'


async def test_parts_of_a_fair_key_take_their_turns(rig: Rig) -> None:
    """[C3] [P8] They are held aside, as other jobs of the key are."""
    worker = await rig.worker()
    (id,) = await rig.add("t", chunked=True, fair_key="big")
    await rig.store.promote()
    await rig.split(worker, await rig.run(worker, id), 2, parallel=1)
    for _ in range(2):
        await rig.store.promote()
        await rig.store.promote()
        (part,) = await rig.claim(worker)
        await rig.finish(worker, part)
    assert (await rig.parent_record(id)).state is State.SUCCEEDED


async def test_waiting_for_a_parent(rig: Rig) -> None:
    """[P9] `wait_finished` hears of its end, not of its split."""
    worker = await rig.worker()
    id = await rig.parent(worker, 1)
    with pytest.raises(ResultTimeout):
        await rig.store.wait_finished(id, 0.05)
    waiting = asyncio.ensure_future(rig.store.wait_finished(id, 10))
    await rig.finish(worker, await rig.claim(worker))
    await rig.store.promote()
    assert (await waiting).state is State.SUCCEEDED


async def test_a_parent_nobody_knows(rig: Rig) -> None:
    """[P4] Other jobs are no parents."""
    (id,) = [receipt.id for receipt in await rig.store.enqueue([job()])]
    for stranger in (id, 404):
        assert await rig.store.parent(stranger) is None
        assert await rig.store.parts(stranger) == []
        assert await rig.store.set_parent(stranger, parallel=2) is None
        assert await rig.store.redrive(stranger) == 0
    assert await rig.store.parents() == []


async def test_a_part_is_not_split(rig: Rig) -> None:
    """[P4] It says so, and the part goes on."""
    worker = await rig.worker()
    await rig.parent(worker, 1)
    (part,) = await rig.claim(worker)
    with pytest.raises(ValueError, match="a part cannot be split"):
        await rig.store.split(worker, 99, part, PLAN)
    assert (await rig.finish(worker, part)).applied == 1
