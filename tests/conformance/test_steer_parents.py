"""ClusterView a parent while it runs: cancel, delete, and how many of its parts run [P8] [P9] [O5]."""

import pytest

from tests.conformance.kit import Rig
from windlass.core.states import Kind, State

C, D, W = State.CANCELLED, State.DEAD, State.WAITING


@pytest.mark.parametrize("how", ["cancel", "delete"])
async def test_cancel_cascades(rig: Rig, how: str) -> None:
    """[P9] [O5] What waits is cancelled, what runs is asked to stop, what was not released never is; with the
    last of them the parent is cancelled."""
    worker = await rig.worker()
    id = await rig.parent(worker, 4, parallel=2)
    (running,) = await rig.claim(worker, limit=1)
    answer = await (rig.store.cancel([id]) if how == "cancel" else rig.store.delete([id]))
    assert answer == {id: "requested"}
    parent = await rig.parent_record(id)
    assert (parent.state, parent.cancel_requested, parent.out, parent.cancelled) == (W, True, 1, 1)
    assert await rig.states(id) == [State.RUNNING, C, W, W]
    assert (await rig.store.beat(worker)).cancel == {running.id}
    assert await rig.claim(worker) == []
    await rig.finish(worker, running, Kind.CANCELLED)
    parent = await rig.parent_record(id)
    assert (parent.state, parent.out, parent.cancelled) == (C, 0, 2)
    assert await rig.state(id) is C
    assert await rig.claim(worker) == []


async def test_cancel_of_a_parent_with_its_parts_in_one_call(rig: Rig) -> None:
    """[O5] Each of them once."""
    worker = await rig.worker()
    id = await rig.parent(worker, 3, parallel=2)
    ids = [id, *(part.job for part in await rig.store.parts(id) if part.job is not None)]
    assert set(await rig.store.cancel(ids)) == set(ids)
    parent = await rig.parent_record(id)
    assert (parent.state, parent.cancelled) == (C, 2)
    assert await rig.claim(worker) == []


async def test_cancel_of_a_parent_whose_parts_all_wait(rig: Rig) -> None:
    """[P9] Nothing is left to wait for."""
    worker = await rig.worker()
    id = await rig.parent(worker, 3, parallel=2, unique_key="k")
    assert (await rig.store.cancel([id]))[id] in ("requested", "cancelled")
    assert (await rig.parent_record(id)).state is C
    assert await rig.states(id) == [C, C, W]
    assert await rig.store.cancel([id]) == {id: "finished"}
    assert (await rig.one(unique_key="k")).status == "enqueued"


async def test_a_part_that_finishes_first_has_succeeded(rig: Rig) -> None:
    """[O5] The parent is cancelled all the same."""
    worker = await rig.worker()
    id = await rig.parent(worker, 2, parallel=1)
    jobs = await rig.claim(worker)
    await rig.store.cancel([id])
    await rig.finish(worker, jobs)
    parent = await rig.parent_record(id)
    assert (parent.state, parent.succeeded, parent.cancelled) == (C, 1, 0)


async def test_cancel_reaches_the_finalizer(rig: Rig) -> None:
    """[P9]"""
    worker = await rig.worker()
    id = await rig.parent(worker, 1, finalizer=True)
    await rig.finish(worker, await rig.claim(worker))
    await rig.store.promote()
    await rig.store.cancel([id])
    assert (await rig.parent_record(id)).state is C
    assert await rig.claim(worker) == []


async def test_delete_of_a_parent_that_has_ended(rig: Rig) -> None:
    """[O5] It is no longer found."""
    worker = await rig.worker()
    id = await rig.parent(worker, 1)
    await rig.finish(worker, await rig.claim(worker))
    await rig.parent_record(id)
    assert await rig.store.delete([id]) == {id: "deleted"}
    assert (await rig.store.job(id), await rig.store.parent(id)) == (None, None)
    assert (await rig.store.parts(id), await rig.store.parents()) == ([], [])


async def test_more_at_a_time(rig: Rig) -> None:
    """[P8] At once."""
    worker = await rig.worker()
    id = await rig.parent(worker, 6, parallel=1)
    parent = await rig.store.set_parent(id, parallel=4)
    assert parent is not None
    assert parent.parallel == 4
    assert (await rig.parent_record(id)).out == 4
    assert [job.options.part.index for job in await rig.claim(worker) if job.options.part] == [0, 1, 2, 3]


async def test_fewer_at_a_time(rig: Rig) -> None:
    """[P8] As parts end: none is taken back, none released until it fits."""
    worker = await rig.worker()
    id = await rig.parent(worker, 6, parallel=3)
    jobs = await rig.claim(worker)
    await rig.store.set_parent(id, parallel=1)
    for left, out in ((2, 2), (1, 1), (0, 1)):
        await rig.finish(worker, jobs.pop())
        assert (len(jobs), (await rig.parent_record(id)).out) == (left, out)


async def test_none_at_a_time_makes_no_sense(rig: Rig) -> None:
    """[P8] To stop a parent there is cancel."""
    worker = await rig.worker()
    id = await rig.parent(worker, 2, parallel=1)
    for parallel in (0, -1):
        with pytest.raises(ValueError, match="parallel"):
            await rig.store.set_parent(id, parallel=parallel)
    assert (await rig.parent_record(id)).parallel == 1


@pytest.mark.parametrize("parallel", [1, 3])
async def test_two_parents_interleave(rig: Rig, parallel: int) -> None:
    """[P8] Between two parts of one parent at most `parallel` of the other run, with one worker, one at a
    time; neither starves."""
    worker = await rig.worker()
    ids = await rig.add("a", "b", chunked=True)
    for job in await rig.claim(worker):
        await rig.split(worker, job, 6, parallel=parallel)
    order: list[int] = []
    while jobs := await rig.claim(worker, limit=1):
        order.append(jobs[0].options.part.parent if jobs[0].options.part else 0)
        await rig.finish(worker, jobs)
        await rig.store.promote()
    assert len(order) == 12
    for id in ids:
        places = [place for place, parent in enumerate(order) if parent == id]
        assert (
            max(after - before - 1 for before, after in zip([-1, *places], places, strict=False)) <= parallel
        )
