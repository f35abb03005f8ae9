"""Ending well and forgetting what went wrong before, as for a source that is gone [O1]."""

import pytest

from tests.conformance.kit import Rig, failure
from windlass.core.states import Kind, State
from windlass.store.records import Finished, JobFilter, Outcome


async def failed(rig: Rig, worker: int, id: int, times: int = 1) -> None:
    for n in range(times):
        await rig.finish(worker, await rig.run(worker, id), Kind.RETRY, error=failure(f"boom {n}"))


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("key", [None, "k"])
async def test_earlier_failures_are_no_longer_shown(rig: Rig, times: int, key: str | None) -> None:
    """[O1] Its result is kept all the same, and its key is free."""
    worker = await rig.worker()
    (id,) = await rig.add("t", unique_key=key)
    await failed(rig, worker, id, times)
    assert len((await rig.look(id)).errors) == times
    assert await rig.finish(worker, await rig.run(worker, id), forget=True, result='"gone"') == Finished(1)
    record = await rig.look(id)
    assert (record.state, record.errors, record.result) == (State.SUCCEEDED, (), '"gone"')
    assert record.attempt == times + 1
    page = await rig.store.jobs(JobFilter(task="t"))
    assert [seen.errors for seen in page.jobs] == [()]
    assert (await rig.one("t", unique_key=key)).status == "enqueued"


async def test_without_it_they_stay(rig: Rig) -> None:
    """[O1]"""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await failed(rig, worker, id)
    await rig.finish(worker, await rig.run(worker, id))
    assert [error.message for error in (await rig.look(id)).errors] == ["boom 0"]


async def test_nothing_to_forget(rig: Rig) -> None:
    """[O1]"""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await rig.finish(worker, await rig.run(worker, id), forget=True)
    record = await rig.look(id)
    assert (record.state, record.errors) == (State.SUCCEEDED, ())


async def test_some_of_a_flush(rig: Rig) -> None:
    """[O1] Each outcome speaks for its own job; sent again, the flush changes nothing."""
    worker = await rig.worker()
    ids = await rig.add(*["t"] * 4)
    await rig.finish(worker, await rig.claim(worker), Kind.RETRY, error=failure())
    jobs = await rig.claim(worker)
    outcomes = [Outcome(job=job, forget=job.id in ids[::2]) for job in jobs]
    flush = rig.next_flush(worker)
    assert await rig.store.finish(worker, flush, outcomes) == Finished(4)
    assert await rig.store.finish(worker, flush, outcomes) == Finished(0, 4)
    assert [len((await rig.look(id)).errors) for id in ids] == [0, 1, 0, 1]


async def test_it_is_for_successes_only(rig: Rig) -> None:
    """[O1] A job that goes on, or is given up, keeps its story."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await failed(rig, worker, id)
    await rig.finish(worker, await rig.run(worker, id), Kind.RETRY, error=failure("again"), forget=True)
    await rig.finish(worker, await rig.run(worker, id), Kind.DEAD, error=failure("last"), forget=True)
    assert [error.message for error in (await rig.look(id)).errors] == ["boom 0", "again", "last"]


async def test_refused_it_forgets_nothing(rig: Rig) -> None:
    """[O1] [C5] Only the worker that runs the job may say so."""
    worker, other = await rig.worker(), await rig.worker()
    (id,) = await rig.add("t")
    await failed(rig, worker, id)
    claimed = await rig.run(worker, id)
    assert (await rig.finish(other, claimed, forget=True)).refused == (id,)
    assert len((await rig.look(id)).errors) == 1
