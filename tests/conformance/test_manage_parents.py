"""ClusterView a parent while it runs: cancel, delete, and how many of its parts run [P8] [P9] [O5]."""

from itertools import pairwise

import pytest

from tests.conformance.kit import Rig
from windlass.core.states import Kind, State
from windlass.store.records import ClaimedJob

C, D, W = State.CANCELLED, State.DEAD, State.WAITING


@pytest.mark.parametrize("how", ["cancel", "delete"])
async def test_cancel_cascades(rig: Rig, how: str) -> None:
    """[P9] [O5] What waits is cancelled, what runs is asked to stop, what was not offered never is; with the
    last of them the parent is cancelled."""
    worker = await rig.worker()
    id = await rig.parent(worker, 4, parallel=2)
    (running,) = await rig.claim(worker, limit=1)
    answer = await (rig.store.cancel([id]) if how == "cancel" else rig.store.delete([id]))
    assert answer == {id: "requested"}
    parent = await rig.parent_record(id)
    assert (parent.state, parent.cancel_requested, parent.out, parent.cancelled) == (W, True, 1, 1)
    assert await rig.states(id) == [State.RUNNING, C, W, W]
    assert (await rig.store.heartbeat(worker)).cancel == {running.id}
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
    assert (parent.state, parent.cancelled) == (C, 1)
    assert await rig.claim(worker) == []


async def test_cancel_of_a_parent_whose_parts_all_wait(rig: Rig) -> None:
    """[P9] Nothing is left to wait for."""
    worker = await rig.worker()
    id = await rig.parent(worker, 3, parallel=2, unique_key="k")
    assert (await rig.store.cancel([id]))[id] in ("requested", "cancelled")
    assert (await rig.parent_record(id)).state is C
    assert await rig.states(id) == [C, W, W]
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
    """[P8] At once; None is any number."""
    worker = await rig.worker()
    id = await rig.parent(worker, 6, parallel=1)
    assert len(await rig.claim(worker)) == 1
    parent = await rig.store.set_parent(id, parallel=4)
    assert parent is not None
    assert (parent.parallel, parent.out) == (4, 2)
    assert [job.options.part.index for job in await rig.claim(worker) if job.options.part] == [1, 2, 3]
    parent = await rig.store.set_parent(id, parallel=None)
    assert parent is not None
    assert parent.parallel is None
    assert len(await rig.claim(worker)) == 2


async def test_fewer_at_a_time(rig: Rig) -> None:
    """[P8] As parts end: none is taken back, none offered until it fits."""
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


SLOTS = 3


@pytest.mark.parametrize("parts", [(8, 8), (20, 20), (2, 200), (1, 5, 5)])
async def test_parents_take_turns(rig: Rig, parts: tuple[int, ...]) -> None:
    """[P8] Without any option, whatever their sizes: while both have parts left, between two parts of one
    parent at most as many of the others run as there are slots."""
    worker = await rig.worker()
    ids = await rig.add(*(["t"] * len(parts)), chunked=True)
    for job, n in zip(await rig.claim(worker), parts, strict=True):
        await rig.split(worker, job, n)
    order: list[int] = []
    running: list[ClaimedJob] = []
    while running := running[1:] + await rig.claim(worker, limit=SLOTS - len(running[1:])):
        await rig.finish(worker, running[0])
        order.append(running[0].options.part.parent if running[0].options.part else 0)
        await rig.store.promote()
    assert sorted(order) == sorted(id for id, n in zip(ids, parts, strict=True) for _ in range(n))
    for id in ids:
        places = [-1, *(place for place, parent in enumerate(order) if parent == id)]
        gaps = [after - before - 1 for before, after in pairwise(places)]
        assert max(gaps) <= SLOTS + len(parts), (id, order)


async def test_a_parent_that_comes_late_waits_for_one_part_a_slot(rig: Rig) -> None:
    """[P8] However many parts the other has, and however long it has run."""
    worker = await rig.worker()
    long = await rig.parent(worker, 100)
    running = await rig.claim(worker, limit=SLOTS)
    (late,) = await rig.add("t", chunked=True)
    (waiting,) = await rig.claim(worker, limit=1)
    assert waiting.options.part is not None
    assert waiting.options.part.parent == long
    await rig.split(worker, await rig.run(worker, late), 2)
    order = []
    for job in running:
        await rig.finish(worker, job)
        order += [job.options.part.parent for job in await rig.claim(worker, limit=1) if job.options.part]
    assert order == [long, late, long]
