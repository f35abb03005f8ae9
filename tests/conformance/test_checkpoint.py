"""Checkpoints: durable progress that the next attempt finds [C5] [P6]. Who may write one: see fencing."""

import pytest

from tests.conformance.kit import Rig
from windlass.core.states import Kind, State
from windlass.errors import ClaimLost
from windlass.store.records import Checkpoint, JobFilter


async def test_progress_is_kept_and_overwritten(rig: Rig) -> None:
    """[P6] The newest one stands, with the time the store wrote it."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    assert await rig.store.checkpoints([id]) == {}
    await rig.store.checkpoint(worker, job, Checkpoint('{"cursor":1}', done=1, total=10))
    await rig.store.checkpoint(worker, job, Checkpoint('{"cursor":5}', done=5, total=10))
    (checkpoint,) = (await rig.store.checkpoints([id])).values()
    assert (checkpoint.data, checkpoint.done, checkpoint.total) == ('{"cursor":5}', 5, 10)
    assert checkpoint.at == pytest.approx(job.enqueued_at, abs=30)
    assert (await rig.look(id)).checkpoint == checkpoint


async def test_n_of_m_is_optional(rig: Rig) -> None:
    """[P6]"""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await rig.store.checkpoint(worker, await rig.run(worker, id), Checkpoint("[3]"))
    checkpoint = (await rig.store.checkpoints([id]))[id]
    assert (checkpoint.data, checkpoint.done, checkpoint.total) == ("[3]", None, None)


@pytest.mark.parametrize("kind", [Kind.RETRY, Kind.SNOOZE, Kind.RELEASED])
@pytest.mark.parametrize("delay", [0, 60])
async def test_the_next_attempt_finds_it(rig: Rig, kind: Kind, delay: float) -> None:
    """[P5] However the attempt ended, short of the job's end."""
    worker, other = await rig.worker(), await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await rig.store.checkpoint(worker, job, Checkpoint('"here"'))
    await rig.finish(worker, job, kind, delay=delay)
    assert id in await rig.store.checkpoints([id])
    await rig.clock.advance(61)
    await rig.store.promote()
    again = await rig.run(other, id)
    assert (await rig.store.checkpoints([id]))[id].data == '"here"'
    await rig.store.checkpoint(other, again, Checkpoint('"further"'))
    assert (await rig.store.checkpoints([id]))[id].data == '"further"'


@pytest.mark.parametrize("kind", [Kind.SUCCEEDED, Kind.DEAD, Kind.CANCELLED])
async def test_it_goes_when_the_job_ends_for_good(rig: Rig, kind: Kind) -> None:
    """[P6]"""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await rig.store.checkpoint(worker, job, Checkpoint("1"))
    await rig.finish(worker, job, kind)
    assert await rig.store.checkpoints([id]) == {}
    assert (await rig.look(id)).checkpoint is None


@pytest.mark.parametrize("kind", [Kind.SUCCEEDED, Kind.DEAD, Kind.CANCELLED])
@pytest.mark.parametrize("result", [None, '"made"'])
async def test_p6_how_far_it_was_stays_with_a_job_that_ended(
    rig: Rig, kind: Kind, result: str | None
) -> None:
    """[P6] The last progress it told of, and when; beside its result, where it has one."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    assert (await rig.look(id)).progress is None
    await rig.store.checkpoint(worker, job, Checkpoint('"here"', done=3, total=10))
    await rig.store.checkpoint(worker, job, Checkpoint('"there"', done=7, total=10))
    before = (await rig.look(id)).progress
    assert before is not None
    assert (before.done, before.total) == (7, 10)
    await rig.finish(worker, job, kind, result=result if kind is Kind.SUCCEEDED else None)
    ended = await rig.look(id)
    assert (ended.progress, ended.checkpoint) == (before, None)
    assert ended.result == (result if kind is Kind.SUCCEEDED else None)
    (listed,) = (await rig.store.jobs(JobFilter())).jobs
    assert listed.progress == before


async def test_p6_a_job_that_told_of_no_progress_ends_with_none(rig: Rig) -> None:
    """[P6]"""
    worker = await rig.worker()
    silent, other = await rig.add("t", "t")
    jobs = {job.id: job for job in await rig.claim(worker)}
    await rig.store.checkpoint(worker, jobs[silent], Checkpoint('"here"'))
    await rig.store.checkpoint(worker, jobs[other], Checkpoint("null", total=5))
    for job in jobs.values():
        await rig.finish(worker, job)
    assert (await rig.look(silent)).progress is None
    kept = (await rig.look(other)).progress
    assert kept is not None
    assert (kept.done, kept.total) == (None, 5)


async def test_p6_a_dead_job_that_runs_again_begins_without_progress(rig: Rig) -> None:
    """[P6] [O6] What it told of in its first life is not taken for that of the second."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await rig.store.checkpoint(worker, job, Checkpoint("1", done=4, total=5))
    await rig.finish(worker, job, Kind.DEAD)
    await rig.store.retry([id])
    assert (await rig.look(id)).progress is None
    await rig.finish(worker, await rig.run(worker, id))
    assert (await rig.look(id)).progress is None


async def test_p6_a_job_cancelled_between_two_attempts_keeps_its_progress(rig: Rig) -> None:
    """[P6] [O5]"""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await rig.store.checkpoint(worker, job, Checkpoint("1", done=4, total=5))
    await rig.finish(worker, job, Kind.RETRY, delay=60)
    await rig.store.cancel([id])
    kept = (await rig.look(id)).progress
    assert kept is not None
    assert (kept.done, kept.total) == (4, 5)


@pytest.mark.parametrize("kind", [Kind.SUCCEEDED, Kind.DEAD, Kind.CANCELLED])
async def test_p6_the_job_of_a_part_keeps_its_progress(rig: Rig, kind: Kind) -> None:
    """[P6] [P10]"""
    worker = await rig.worker()
    await rig.parent(worker, 1)
    (job,) = await rig.claim(worker)
    await rig.store.checkpoint(worker, job, Checkpoint('{"n":2}', done=2, total=3))
    await rig.finish(worker, job, kind)
    ended = await rig.look(job.id)
    assert ended.progress is not None
    assert (ended.progress.done, ended.progress.total) == (2, 3)
    assert ended.checkpoint is None


@pytest.mark.parametrize("end", ["cancel", "delete"])
async def test_it_goes_when_a_waiting_job_is_taken_away(rig: Rig, end: str) -> None:
    """[P6] [O5]"""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await rig.store.checkpoint(worker, job, Checkpoint("1"))
    await rig.finish(worker, job, Kind.RETRY, delay=60)
    await (rig.store.cancel([id]) if end == "cancel" else rig.store.delete([id]))
    assert await rig.store.checkpoints([id]) == {}


async def test_only_for_a_job_that_runs(rig: Rig) -> None:
    """[C5] After its outcome the attempt has no progress to report."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await rig.finish(worker, job, Kind.RETRY, delay=60)
    with pytest.raises(ClaimLost):
        await rig.store.checkpoint(worker, job, Checkpoint("1"))
    assert await rig.store.checkpoints([id]) == {}


async def test_only_for_the_worker_that_runs_it(rig: Rig) -> None:
    """[C5]"""
    worker, other = await rig.worker(), await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    with pytest.raises(ClaimLost):
        await rig.store.checkpoint(other, job, Checkpoint("1"))
    assert await rig.store.checkpoints([id]) == {}


async def test_many_at_once(rig: Rig) -> None:
    """[P6] For those that have one; unknown ids are left out."""
    worker = await rig.worker()
    ids = await rig.add("a", "b", "c")
    for job in await rig.claim(worker):
        if job.task != "b":
            await rig.store.checkpoint(worker, job, Checkpoint(f'"{job.task}"'))
    found = await rig.store.checkpoints([*ids, 987654321])
    assert {id: checkpoint.data for id, checkpoint in found.items()} == {ids[0]: '"a"', ids[2]: '"c"'}
    assert await rig.store.checkpoints([]) == {}


async def test_it_survives_rotation(rig: Rig) -> None:
    """[K6] While its job runs, waits or sleeps."""
    worker = await rig.worker()
    ids = await rig.add("a", "b")
    jobs = await rig.claim(worker)
    for job in jobs:
        await rig.store.checkpoint(worker, job, Checkpoint("1"))
    await rig.finish(worker, jobs[1], Kind.RETRY, delay=60)
    await rig.turn()
    assert set(await rig.store.checkpoints(ids)) == set(ids)
    await rig.store.checkpoint(worker, jobs[0], Checkpoint("2"))
    assert (await rig.store.checkpoints(ids))[ids[0]].data == "2"
    assert await rig.state(ids[0]) is State.RUNNING


@pytest.mark.parametrize("kind", [Kind.RETRY, Kind.SNOOZE, Kind.RELEASED, Kind.DEAD, Kind.SUCCEEDED])
@pytest.mark.parametrize("part", [False, True])
async def test_c5_an_attempt_that_saved_before_it_ended_saves_no_more(
    rig: Rig, kind: Kind, part: bool
) -> None:
    """[C5] Though nobody else has saved since: a thread left behind must not put old data back."""
    worker = await rig.worker()
    if part:
        await rig.parent(worker, 1)
        (job,) = await rig.claim(worker)
    else:
        (id,) = await rig.add("t")
        job = await rig.run(worker, id)
    await rig.store.checkpoint(worker, job, Checkpoint("1"))
    await rig.store.checkpoint(worker, job, Checkpoint("2"))
    await rig.finish(worker, job, kind)
    with pytest.raises(ClaimLost):
        await rig.store.checkpoint(worker, job, Checkpoint("3"))
    found = await rig.store.checkpoints([job.id])
    assert all(saved.data == "2" for saved in found.values())
