"""Redrive: the failed parts of a parent run again, and nothing else does [P9] [O6]."""

import asyncio

import pytest

from tests.conformance.kit import Rig, failure
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind, State
from windlass.errors import AlreadyEnqueued, Finalizing
from windlass.store.records import Checkpoint, ClaimedJob, Outcome

S, D, C, W = State.SUCCEEDED, State.DEAD, State.CANCELLED, State.WAITING


async def end(rig: Rig, worker: int, jobs: list[ClaimedJob], *kinds: Kind) -> None:
    """End these parts in these ways, in one flush."""
    outcomes = [
        Outcome(job=job, kind=kind, error=failure() if kind is Kind.DEAD else None)
        for job, kind in zip(jobs, kinds, strict=True)
    ]
    assert (await rig.flush(worker, outcomes)).applied == len(jobs)


async def test_redrive_runs_only_the_failed(rig: Rig) -> None:
    """[P9] As new jobs, from their last checkpoints; the old ones leave the dead letters."""
    worker = await rig.worker()
    id = await rig.parent(worker, 4, unique_key="k")
    jobs = await rig.claim(worker)
    await rig.store.checkpoint(worker, jobs[1], Checkpoint('{"n":3}', done=6, total=10))
    await end(rig, worker, jobs, Kind.SUCCEEDED, Kind.DEAD, Kind.CANCELLED, Kind.SUCCEEDED)
    assert (await rig.parent_record(id)).state is D
    assert await rig.store.redrive(id) == 2
    parent = await rig.parent_record(id)
    assert (parent.state, parent.succeeded, parent.dead, parent.cancelled, parent.out) == (W, 2, 0, 0, 1)
    assert (parent.finished_at, parent.reason, parent.done) == (None, None, 26)
    assert await rig.states(id) == [S, State.READY, W, S]
    assert (await rig.look(id)).state is W
    assert (await rig.one(unique_key="k", on_conflict="skip")).id == id
    assert await rig.state(jobs[1].id) is None
    assert (await rig.depth()).dead == 0
    again = await rig.claim(worker)
    assert [job.options.part.index for job in again if job.options.part] == [1, 2]
    assert not {job.id for job in again} & {job.id for job in jobs}
    assert [(job.attempt, job.deaths) for job in again] == [(1, 0)] * 2
    found = await rig.store.checkpoints([job.id for job in again])
    assert {key: saved.data for key, saved in found.items()} == {again[0].id: '{"n":3}'}
    await end(rig, worker, again, Kind.SUCCEEDED, Kind.SUCCEEDED)
    assert (await rig.parent_record(id)).state is S


@pytest.mark.parametrize("way", ["dead", "cancelled", "poison", "cancelled later", "deleted later"])
async def test_however_it_failed_its_checkpoint_is_kept(rig: Rig, way: str) -> None:
    """[P5] [P9] Through one redrive after the other, until it succeeds."""
    worker, other = await rig.worker(), await rig.worker()
    id = await rig.parent(worker, 1)
    (part,) = await rig.claim(worker)
    await rig.store.checkpoint(worker, part, Checkpoint('{"n":4}', done=4))
    if way == "poison":
        await rig.die(worker, DeathPolicy(poison=1))
    elif way.endswith("later"):
        await rig.finish(worker, part, Kind.RETRY, delay=60)
        await (rig.store.cancel([part.id]) if way == "cancelled later" else rig.store.delete([part.id]))
    else:
        await rig.finish(worker, part, Kind(way))
    for end in (Kind.DEAD, Kind.SUCCEEDED):
        parent = await rig.parent_record(id)
        assert (parent.state, parent.done, parent.records) == (D, 4, 4)
        assert await rig.store.redrive(id) == 1
        (again,) = await rig.claim(other)
        assert (await rig.store.checkpoints([again.id]))[again.id].data == '{"n":4}'
        await rig.finish(other, again, end)
    parent = await rig.parent_record(id)
    assert (parent.state, parent.done, parent.records) == (S, 10, 4)


async def test_two_redrives_at_once(rig: Rig) -> None:
    """[P9] Do the work of one."""
    worker = await rig.worker()
    id = await rig.parent(worker, 3)
    await end(rig, worker, await rig.claim(worker), *[Kind.DEAD] * 3)
    await rig.parent_record(id)
    assert sorted(await asyncio.gather(*(rig.store.redrive(id) for _ in range(3)))) == [0, 0, 3]
    assert len(await rig.claim(worker)) == 3


async def test_redrive_keeps_within_parallel(rig: Rig) -> None:
    """[P8] [P9] Each goes on when its turn comes, from its own checkpoint."""
    worker = await rig.worker()
    id = await rig.parent(worker, 3, parallel=3)
    jobs = await rig.claim(worker)
    for job in jobs:
        await rig.store.checkpoint(
            worker, job, Checkpoint(f'"{job.options.part and job.options.part.index}"')
        )
    await end(rig, worker, jobs, *[Kind.DEAD] * 3)
    await rig.parent_record(id)
    await rig.store.set_parent(id, parallel=1)
    assert await rig.store.redrive(id) == 3
    for index in range(3):
        await rig.store.promote()
        (job,) = await rig.claim(worker)
        assert job.options.part is not None
        assert job.options.part.index == index
        assert (await rig.store.checkpoints([job.id]))[job.id].data == f'"{index}"'
        await rig.finish(worker, job)
    assert (await rig.parent_record(id)).state is S


async def test_redrive_after_a_cancel(rig: Rig) -> None:
    """[P9] Those cancelled and those never offered; what has succeeded stands."""
    worker = await rig.worker()
    id = await rig.parent(worker, 5, parallel=2)
    (first,) = await rig.claim(worker, limit=1)
    await rig.finish(worker, first)
    await rig.store.promote()
    await rig.store.cancel([id])
    assert (await rig.parent_record(id)).state is C
    assert await rig.store.redrive(id) == 4
    parent = await rig.parent_record(id)
    assert (parent.state, parent.cancel_requested, parent.out, parent.cancelled) == (W, False, 1, 0)
    for _ in range(2):
        await rig.finish(worker, await rig.claim(worker))
        await rig.store.promote()
    assert (await rig.parent_record(id)).state is S


async def test_redrive_while_others_run(rig: Rig) -> None:
    """[P9] The failed take their turn again; the parent has not ended meanwhile."""
    worker = await rig.worker()
    id = await rig.parent(worker, 2)
    one, two = await rig.claim(worker)
    await end(rig, worker, [one], Kind.DEAD)
    await rig.store.promote()
    assert await rig.store.redrive(id) == 1
    await end(rig, worker, [two], Kind.SUCCEEDED)
    assert (await rig.parent_record(id)).state is W
    await rig.finish(worker, await rig.claim(worker))
    assert (await rig.parent_record(id)).state is S


async def test_nothing_to_redrive(rig: Rig) -> None:
    """[P9] Nothing has changed."""
    worker = await rig.worker()
    id = await rig.parent(worker, 1)
    assert await rig.store.redrive(id) == 0
    await rig.finish(worker, await rig.claim(worker))
    before = await rig.parent_record(id)
    assert await rig.store.redrive(id) == 0
    assert await rig.parent_record(id) == before


async def test_redrive_of_tolerated_failures(rig: Rig) -> None:
    """[P9] A finalizer that has succeeded does not run again, and its result stands."""
    worker = await rig.worker()
    id = await rig.parent(worker, 2, tolerated=1, finalizer=True)
    await end(rig, worker, await rig.claim(worker), Kind.DEAD, Kind.SUCCEEDED)
    await rig.store.promote()
    await rig.finish(worker, await rig.claim(worker), result="1")
    assert (await rig.parent_record(id)).state is S
    assert await rig.store.redrive(id) == 1
    assert (await rig.parent_record(id)).state is W
    await rig.finish(worker, await rig.claim(worker))
    assert (await rig.parent_record(id)).state is S
    assert await rig.claim(worker) == []
    assert (await rig.look(id)).result == "1"


async def test_a_finalizer_that_failed_runs_again_after_them(rig: Rig) -> None:
    """[P9]"""
    worker = await rig.worker()
    id = await rig.parent(worker, 2, tolerated=1, finalizer=True)
    await end(rig, worker, await rig.claim(worker), Kind.DEAD, Kind.SUCCEEDED)
    await rig.store.promote()
    (old,) = await rig.claim(worker)
    await rig.finish(worker, old, Kind.DEAD)
    assert (await rig.parent_record(id)).state is D
    assert await rig.store.redrive(id) >= 1
    (part,) = await rig.claim(worker)
    await rig.finish(worker, part)
    final = (await rig.parent_record(id)).final
    assert final not in (None, old.id)
    await rig.finish(worker, await rig.claim(worker), result="2")
    assert (await rig.parent_record(id)).state is S
    assert (await rig.look(id)).result == "2"
    assert (await rig.depth()).dead == 0


async def test_redrive_where_another_holds_the_key(rig: Rig) -> None:
    """[E6] Refused, and nothing is changed."""
    worker = await rig.worker()
    id = await rig.parent(worker, 1, unique_key="k")
    jobs = await rig.claim(worker)
    await end(rig, worker, jobs, Kind.DEAD)
    before = await rig.parent_record(id)
    (twin,) = await rig.add("twin", unique_key="k")
    with pytest.raises(AlreadyEnqueued) as refused:
        await rig.store.redrive(id)
    assert refused.value.job == twin
    assert await rig.store.retry([id, jobs[0].id]) == {id: "unchanged", jobs[0].id: "unchanged"}
    assert await rig.parent_record(id) == before
    assert [job.task for job in await rig.claim(worker)] == ["twin"]


async def test_retry_of_a_dead_parent_is_its_redrive(rig: Rig) -> None:
    """[O6] [P9]"""
    worker = await rig.worker()
    id = await rig.parent(worker, 2)
    await end(rig, worker, await rig.claim(worker), Kind.DEAD, Kind.SUCCEEDED)
    assert (await rig.parent_record(id)).state is D
    assert await rig.store.retry([id]) == {id: "retried"}
    assert await rig.states(id) == [State.READY, S]
    await rig.finish(worker, await rig.claim(worker))
    assert (await rig.parent_record(id)).state is S


async def test_retry_of_a_dead_part_brings_its_parent_back(rig: Rig) -> None:
    """[O6] [P9] The same job, from its checkpoint; the other failed part stays dead."""
    worker = await rig.worker()
    id = await rig.parent(worker, 2, tolerated=1)
    one, _ = jobs = await rig.claim(worker)
    await rig.store.checkpoint(worker, one, Checkpoint('"here"'))
    await end(rig, worker, jobs, Kind.DEAD, Kind.DEAD)
    assert (await rig.parent_record(id)).state is D
    assert await rig.store.retry([one.id]) == {one.id: "retried"}
    assert (await rig.parent_record(id)).state is W
    again = await rig.run(worker, one.id)
    assert again.options.part == one.options.part
    assert (await rig.store.checkpoints([one.id]))[one.id].data == '"here"'
    await rig.finish(worker, again)
    parent = await rig.parent_record(id)
    assert (parent.state, parent.succeeded, parent.dead) == (S, 1, 1)
    assert await rig.states(id) == [S, D]


async def test_retry_of_a_dead_part_while_others_run(rig: Rig) -> None:
    """[O6] [P9] It is out once more."""
    worker = await rig.worker()
    id = await rig.parent(worker, 2)
    one, two = await rig.claim(worker)
    await end(rig, worker, [one], Kind.DEAD)
    assert (await rig.parent_record(id)).dead == 1
    assert await rig.store.retry([one.id]) == {one.id: "retried"}
    parent = await rig.parent_record(id)
    assert (parent.dead, parent.out) == (0, 2)
    await end(rig, worker, [two], Kind.SUCCEEDED)
    assert (await rig.parent_record(id)).state is W
    await rig.finish(worker, await rig.run(worker, one.id))
    assert (await rig.parent_record(id)).state is S


async def test_retry_of_a_dead_finalizer(rig: Rig) -> None:
    """[O6] [P9] Its parent waits for it again."""
    worker = await rig.worker()
    id = await rig.parent(worker, 0, finalizer=True)
    await rig.store.promote()
    (last,) = await rig.claim(worker)
    await rig.finish(worker, last, Kind.DEAD)
    assert (await rig.parent_record(id)).state is D
    assert await rig.store.retry([last.id]) == {last.id: "retried"}
    assert (await rig.parent_record(id)).state is W
    await rig.finish(worker, await rig.run(worker, last.id), result="3")
    assert (await rig.parent_record(id)).state is S
    assert (await rig.look(id)).result == "3"


async def test_retry_of_a_parent_that_waits(rig: Rig) -> None:
    """[O6] Unchanged, like that of a job that runs."""
    worker = await rig.worker()
    id = await rig.parent(worker, 1)
    assert await rig.store.retry([id]) == {id: "unchanged"}
    assert (await rig.parent_record(id)).out == 1


async def test_redrive_runs_a_finalizer_again_that_failed_alone(rig: Rig) -> None:
    """[P9] It counts as one, and while it is dead its parent says why."""
    worker = await rig.worker()
    id = await rig.parent(worker, 2, finalizer=True)
    await end(rig, worker, await rig.claim(worker), Kind.SUCCEEDED, Kind.SUCCEEDED)
    await rig.parent_record(id)
    (final,) = await rig.claim(worker)
    await end(rig, worker, [final], Kind.DEAD)
    error = failure()
    dead = await rig.parent_record(id)
    assert (dead.state, dead.reason) == (D, f"its finalizer is dead: {error.type}: {error.message}")
    assert await rig.store.redrive(id) == 1
    assert await rig.state(final.id) is None
    (again,) = await rig.claim(worker)
    assert again.options.part is not None
    assert again.options.part.index == -1
    await end(rig, worker, [again], Kind.SUCCEEDED)
    assert (await rig.parent_record(id)).state is S
    assert await rig.store.redrive(id) == 0


async def test_a_dead_part_of_a_cancelled_parent_comes_back_alone(rig: Rig) -> None:
    """[P9] Its parent waits for it, and is cancelled once more."""
    worker = await rig.worker()
    id = await rig.parent(worker, 4, parallel=2)
    one, two = await rig.claim(worker)
    await end(rig, worker, [one], Kind.DEAD)
    await rig.store.cancel([id])
    await rig.finish(worker, two, Kind.CANCELLED)
    await rig.parent_record(id)
    for job in await rig.claim(worker):  # offered before the cancel
        await rig.finish(worker, job, Kind.CANCELLED)
    assert (await rig.parent_record(id)).state is C
    assert (await rig.store.retry([one.id]))[one.id] == "retried"
    assert (await rig.parent_record(id)).state is W
    (again,) = await rig.claim(worker)
    assert again.id == one.id
    await rig.finish(worker, again, Kind.SUCCEEDED)
    assert (await rig.parent_record(id)).state is C
    assert (await rig.states(id))[0] is S


@pytest.mark.parametrize("runs", [False, True])
async def test_nothing_comes_back_while_the_finalizer_is_out(rig: Rig, runs: bool) -> None:
    """[P9] One rule for all stores: the finalizer never runs beside parts. A part that was brought back ran
    beside it, and its parent ended with what the finalizer had made of the rest."""
    worker = await rig.worker()
    id = await rig.parent(worker, 2, tolerated=1, finalizer=True)
    parts = await rig.claim(worker)
    await end(rig, worker, parts, Kind.DEAD, Kind.SUCCEEDED)
    final = (await rig.parent_record(id)).final
    assert final is not None
    job = await rig.run(worker, final) if runs else None
    with pytest.raises(Finalizing, match=f"job {final}.*has not ended.*Wait for its end") as refused:
        await rig.store.redrive(id)
    assert refused.value.final == final
    assert await rig.store.retry([parts[0].id]) == {parts[0].id: "unchanged"}
    assert (await rig.parent_record(id)).out == 0
    assert await rig.state(parts[0].id) is D
    job = job or await rig.run(worker, final)
    await rig.finish(worker, job)
    assert (await rig.parent_record(id)).state is S
    assert await rig.store.redrive(id) == 1


@pytest.mark.parametrize("way", ["redrive", "retry"])
async def test_parts_come_back_after_a_finalizer_that_was_cancelled(rig: Rig, way: str) -> None:
    """[P9] What the refusal says works: cancel it, and it runs again after the parts."""
    worker = await rig.worker()
    id = await rig.parent(worker, 2, tolerated=1, finalizer=True)
    parts = await rig.claim(worker)
    await end(rig, worker, parts, Kind.DEAD, Kind.SUCCEEDED)
    final = (await rig.parent_record(id)).final
    assert final is not None
    await rig.store.cancel([final])
    assert (await rig.parent_record(id)).state is C
    if way == "redrive":
        assert await rig.store.redrive(id) == 2
    else:
        assert await rig.store.retry([parts[0].id]) == {parts[0].id: "retried"}
    (again,) = await rig.claim(worker)
    await rig.finish(worker, again)
    last = (await rig.parent_record(id)).final
    assert last not in (None, final)
    (job,) = await rig.claim(worker)
    assert job.id == last
    await rig.finish(worker, job)
    assert (await rig.parent_record(id)).state is S
