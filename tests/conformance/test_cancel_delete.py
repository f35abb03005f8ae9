"""Cancel and delete [O5]."""

import pytest

from tests.conformance.kit import Rig
from windlass.core.states import Kind, State
from windlass.store.records import Finished

WAITING = [State.READY, State.SCHEDULED, State.RETRYING]
ENDED = [State.SUCCEEDED, State.DEAD, State.CANCELLED]


@pytest.mark.parametrize("state", WAITING)
async def test_a_waiting_job_is_cancelled_now(rig: Rig, state: State) -> None:
    """[O5] It is shown as cancelled, never runs, and is counted nowhere."""
    worker = await rig.worker()
    id = await rig.bring(state, worker)
    assert await rig.store.cancel([id]) == {id: "cancelled"}
    record = await rig.look(id)
    assert record.state is State.CANCELLED
    assert record.finished_at is not None
    await rig.clock.advance(7200)
    assert (await rig.store.promote()).due == 0
    assert await rig.claim(worker) == []
    depth = await rig.depth()
    assert (depth.ready, depth.scheduled, depth.retrying) == (0, 0, 0)
    assert await rig.store.cancel([id]) == {id: "finished"}


async def test_a_held_job_is_cancelled_now(rig: Rig) -> None:
    """[O5] [C3]"""
    id = (await rig.one(fair_key="f")).id
    assert await rig.store.cancel([id]) == {id: "cancelled"}
    assert (await rig.store.promote()).admitted == 0
    assert await rig.state(id) is State.CANCELLED
    assert (await rig.depth()).ready == 0


async def test_an_admitted_and_a_promoted_job_are_cancelled_now(rig: Rig) -> None:
    """[O5] They keep their id in the lane, so that is where they are found."""
    fair = (await rig.one(fair_key="f")).id
    later = (await rig.one(delay=60)).id
    await rig.clock.advance(61)
    await rig.store.promote()
    await rig.store.promote()
    assert await rig.store.cancel([fair, later]) == {fair: "cancelled", later: "cancelled"}
    assert await rig.claim(await rig.worker()) == []
    assert [await rig.state(id) for id in (fair, later)] == [State.CANCELLED, State.CANCELLED]


async def test_cancelling_among_many_leaves_the_others_in_order(rig: Rig) -> None:
    """[O5] [C2]"""
    ids = await rig.add(*(["t"] * 10))
    worker = await rig.worker()
    first = await rig.run(worker, ids[0])
    taken = [ids[2], ids[3], ids[9]]
    assert await rig.store.cancel(taken) == dict.fromkeys(taken, "cancelled")
    assert (await rig.depth()).ready == 6
    ids += await rig.add("u")
    assert [job.id for job in await rig.claim(worker)] == [id for id in ids[1:] if id not in taken]
    assert (await rig.finish(worker, first)).applied == 1
    assert (await rig.depth()).ready == 0


async def test_the_worker_hears_of_it_with_its_next_heartbeat(rig: Rig) -> None:
    """[O5] With every heartbeat while the job runs, and only its own worker."""
    worker, other = await rig.worker(), await rig.worker()
    wished, spared = await rig.add("a", "b")
    jobs = await rig.claim(worker)
    assert await rig.store.cancel([wished]) == {wished: "requested"}
    assert await rig.store.cancel([wished]) == {wished: "requested"}
    record = await rig.look(wished)
    assert (record.state, record.cancel_requested) == (State.RUNNING, True)
    assert not (await rig.look(spared)).cancel_requested
    assert (await rig.store.heartbeat(worker)).cancel == {wished}
    assert (await rig.store.heartbeat(worker)).cancel == {wished}
    assert (await rig.store.heartbeat(other)).cancel == frozenset()
    await rig.finish(worker, jobs[0], Kind.CANCELLED)
    assert (await rig.store.heartbeat(worker)).cancel == frozenset()
    assert await rig.state(wished) is State.CANCELLED


@pytest.mark.parametrize(
    "kind", [Kind.RETRY, Kind.SNOOZE, Kind.THROTTLED, Kind.UNKNOWN, Kind.RELEASED, Kind.CANCELLED]
)
@pytest.mark.parametrize("delay", [0, 60])
async def test_not_finished_is_cancelled(rig: Rig, kind: Kind, delay: float) -> None:
    """[O5] No retry after a cancel was requested."""
    worker = await rig.worker()
    id = (await rig.one()).id
    job = await rig.run(worker, id)
    await rig.store.cancel([id])
    assert await rig.finish(worker, job, kind, delay=delay) == Finished(applied=1)
    assert await rig.state(id) is State.CANCELLED
    assert await rig.claim(worker) == []
    await rig.clock.advance(120)
    assert (await rig.store.promote()).due == 0


@pytest.mark.parametrize("kind", [Kind.SUCCEEDED, Kind.DEAD])
async def test_finished_first_stands(rig: Rig, kind: Kind) -> None:
    """[O5] What ran to its end has ended so."""
    worker = await rig.worker()
    id = (await rig.one()).id
    job = await rig.run(worker, id)
    await rig.store.cancel([id])
    await rig.finish(worker, job, kind)
    assert await rig.state(id) is State(kind.value)


async def test_retiring_with_a_cancel_requested_cancels(rig: Rig) -> None:
    """[O5] Not finished is cancelled here, too."""
    worker = await rig.worker()
    id = (await rig.one()).id
    await rig.run(worker, id)
    await rig.store.cancel([id])
    await rig.store.retire(worker)
    assert await rig.state(id) is State.CANCELLED


@pytest.mark.parametrize("state", ENDED)
async def test_one_that_has_ended_stays_as_it_is(rig: Rig, state: State) -> None:
    """[O5]"""
    id = await rig.bring(state, await rig.worker())
    assert await rig.store.cancel([id]) == {id: "finished"}
    assert await rig.state(id) is state


@pytest.mark.parametrize("state", [*WAITING, *ENDED])
async def test_delete_removes(rig: Rig, state: State) -> None:
    """[O5] A waiting or ended job is no longer found."""
    worker = await rig.worker()
    id = await rig.bring(state, worker)
    assert await rig.store.delete([id]) == {id: "deleted"}
    assert await rig.store.job(id) is None
    assert await rig.listing() == []
    assert await rig.store.delete([id]) == {id: "not_found"}
    assert await rig.store.cancel([id]) == {id: "not_found"}
    assert await rig.store.retry([id]) == {id: "not_found"}
    await rig.clock.advance(7200)
    assert (await rig.store.promote()).due == 0
    assert await rig.claim(worker) == []
    depth = await rig.depth()
    assert (depth.ready, depth.scheduled, depth.retrying, depth.dead) == (0, 0, 0, 0)


async def test_delete_removes_a_held_job(rig: Rig) -> None:
    """[O5] [C3]"""
    id = (await rig.one(fair_key="f")).id
    assert await rig.store.delete([id]) == {id: "deleted"}
    assert await rig.store.job(id) is None
    assert (await rig.store.promote()).admitted == 0


async def test_deleting_a_running_job_asks_for_its_cancel(rig: Rig) -> None:
    """[O5]"""
    worker = await rig.worker()
    id = (await rig.one()).id
    job = await rig.run(worker, id)
    assert await rig.store.delete([id]) == {id: "requested"}
    assert (await rig.store.heartbeat(worker)).cancel == {id}
    await rig.finish(worker, job, Kind.RETRY)
    assert await rig.state(id) is State.CANCELLED
    assert await rig.store.delete([id]) == {id: "deleted"}


async def test_unknown_jobs(rig: Rig) -> None:
    """[O5] An answer for each id, and an unknown one spoils nothing."""
    (id,) = await rig.add("t")
    assert await rig.store.cancel([1, id, 2**62]) == {1: "not_found", id: "cancelled", 2**62: "not_found"}
    assert await rig.store.delete([1, id, 2**62]) == {1: "not_found", id: "deleted", 2**62: "not_found"}
    assert await rig.store.cancel([]) == {}
    assert await rig.store.delete([]) == {}


async def test_a_job_offered_again_is_cancelled_by_its_id(rig: Rig) -> None:
    """[O5] Its position changed, its name did not."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await rig.finish(worker, await rig.run(worker, id), Kind.RETRY)
    assert await rig.store.cancel([id]) == {id: "cancelled"}
    assert await rig.claim(worker) == []
    assert (await rig.look(id)).state is State.CANCELLED


async def test_deleted_jobs_stay_deleted_through_rotation(rig: Rig) -> None:
    """[O5] [K6]"""
    worker = await rig.worker()
    keep, drop = await rig.add("keep", "drop")
    await rig.store.delete([drop])
    await rig.turn()
    assert await rig.store.job(drop) is None
    assert [job.id for job in await rig.claim(worker)] == [keep]
