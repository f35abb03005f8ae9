"""Jobs that run only where one that they come after has not succeeded [P12]."""

import pytest

from tests.conformance.kit import Rig
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind, State

NEEDLESS = "all jobs that it comes after have succeeded"


@pytest.mark.parametrize("way", ["dead", "cancelled", "deleted", "poison", "dead before", "cancelled before"])
@pytest.mark.parametrize("alone", [True, False])
async def test_it_runs_where_the_other_ends_in_another_way(rig: Rig, way: str, alone: bool) -> None:
    """[P12] Whatever that way is, also where it has ended before."""
    worker, observer = await rig.worker(), await rig.worker()
    if way.endswith("before"):
        first = await rig.bring(State.DEAD if way == "dead before" else State.CANCELLED, worker)
    else:
        (first,) = await rig.add("first")
    tasks = ["undo"] if alone else ["undo", "undo", "undo"]
    ids = await rig.add(*tasks, after=(first,), otherwise="run_only")
    if way == "deleted":
        await rig.store.delete([first])
    elif not way.endswith("before"):
        assert {await rig.state(id) for id in ids} == {State.SCHEDULED}
        job = await rig.run(worker, first)
        if way == "poison":
            await rig.die(worker, DeathPolicy(poison=1))
        else:
            await rig.finish(worker, job, Kind(way))
    await rig.store.promote()
    assert [job.id for job in await rig.claim(observer)] == ids


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("alone", [True, False])
async def test_it_is_cancelled_where_all_have_succeeded(rig: Rig, before: bool, alone: bool) -> None:
    """[P12] Visibly, with the reason; its unique key is free, and who comes after it ends by its policy."""
    worker = await rig.worker()
    if before:
        first = await rig.bring(State.SUCCEEDED, worker)
    else:
        (first,) = await rig.add("first")
    tasks = ["undo"] if alone else ["undo", "undo"]
    ids = await rig.add(*tasks, after=(first,), otherwise="run_only")
    (keyed,) = await rig.add("keyed", after=(first,), otherwise="run_only", unique_key="k")
    (follower,) = await rig.add("follower", after=(ids[0],), otherwise="cancel")
    if not before:
        await rig.finish(worker, await rig.run(worker, first))
    await rig.store.promote()
    await rig.store.promote()
    for id in (*ids, keyed):
        record = await rig.look(id)
        assert (record.state, record.reason) == (State.CANCELLED, NEEDLESS)
    assert {found.reason for found in await rig.listing(task="undo")} == {NEEDLESS}
    assert (await rig.one(unique_key="k")).status == "enqueued"
    record = await rig.look(follower)
    assert (record.state, record.reason) == (
        State.CANCELLED,
        f"job {ids[0]}, which it comes after, is cancelled",
    )


async def test_one_that_fails_is_enough_and_all_must_succeed(rig: Rig) -> None:
    """[P12] It does not wait for the others then; where none has failed, it waits for all."""
    worker = await rig.worker()
    good, bad, open_ = await rig.add("good", "bad", "open")
    (undo,) = await rig.add("undo", after=(good, bad, open_), otherwise="run_only")
    (needless,) = await rig.add("needless", after=(good, open_), otherwise="run_only")
    jobs = {job.id: job for job in await rig.claim(worker)}
    await rig.finish(worker, jobs[good])
    await rig.store.promote()
    assert (await rig.state(undo), await rig.state(needless)) == (State.SCHEDULED, State.SCHEDULED)
    await rig.finish(worker, jobs[bad], Kind.DEAD)
    await rig.store.promote()
    assert (await rig.state(undo), await rig.state(needless)) == (State.READY, State.SCHEDULED)
    await rig.finish(worker, jobs[open_])
    await rig.store.promote()
    assert (await rig.state(undo), await rig.state(needless)) == (State.READY, State.CANCELLED)


async def test_several_that_end_at_once(rig: Rig) -> None:
    """[P12] Two last ones in one flush; one of two that had ended before."""
    worker = await rig.worker()
    done, dead = await rig.bring(State.SUCCEEDED, worker), await rig.bring(State.DEAD, worker)
    (mixed,) = await rig.add("mixed", after=(done, dead), otherwise="run_only")
    await rig.store.promote()
    await rig.run(worker, mixed)
    a, b = await rig.add("a", "b")
    (both,) = await rig.add("both", after=(done, a, b), otherwise="run_only")
    jobs = {job.id: job for job in await rig.claim(worker)}
    await rig.finish(worker, [jobs[a], jobs[b]])
    await rig.store.promote()
    await rig.store.promote()
    assert await rig.state(both) is State.CANCELLED


@pytest.mark.parametrize("way", ["deleted", "rotated"])
async def test_a_success_counts_where_it_is_gone(rig: Rig, way: str) -> None:
    """[P12] [K6] Before anybody has looked."""
    worker = await rig.worker()
    (first,) = await rig.add("first")
    (undo,) = await rig.add("undo", after=(first,), otherwise="run_only")
    await rig.finish(worker, await rig.run(worker, first))
    if way == "deleted":
        assert await rig.store.delete([first]) == {first: "deleted"}
        await rig.store.promote()
        assert await rig.state(undo) is State.CANCELLED
    else:
        await rig.turn()
        await rig.store.promote()
        assert await rig.state(undo) in (State.CANCELLED, None)
    assert await rig.claim(worker) == []


async def test_many_after_one_end_in_bounded_steps(rig: Rig) -> None:
    """[P12] And so do those beside them that go on."""
    worker = await rig.worker()
    (first,) = await rig.add("first")
    needless = await rig.add(*(["undo"] * 25), after=(first,), otherwise="run_only")
    others = await rig.add(*(["t"] * 5), after=(first,))
    await rig.finish(worker, await rig.run(worker, first))
    for _ in range(8):
        await rig.store.promote(limit=10)
    assert {await rig.state(id) for id in needless} == {State.CANCELLED}
    assert {job.id for job in await rig.claim(worker)} == set(others)


async def test_an_operators_retry_and_cancel(rig: Rig) -> None:
    """[P12] [O5] [O6] The one runs it all the same, the other gives no reason of ours."""
    worker = await rig.worker()
    (first,) = await rig.add("first")
    one, two = await rig.add("one", "two", after=(first,), otherwise="run_only")
    assert await rig.store.retry([one]) == {one: "retried"}
    assert await rig.store.cancel([two]) == {two: "cancelled"}
    jobs = {job.id: job for job in await rig.claim(worker)}
    await rig.finish(worker, jobs[first])
    await rig.store.promote()
    assert one in jobs
    assert (await rig.look(two)).reason is None
    await rig.finish(worker, jobs[one], Kind.RETRY)
    await rig.store.promote()
    assert (await rig.run(worker, one)).attempt == 2
