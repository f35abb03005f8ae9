"""Steps: what a job has done is found by every later attempt [W1]."""

import asyncio

import pytest

from tests.conformance.conftest import SETTINGS
from tests.conformance.gate_kit import take
from tests.conformance.kit import Rig, failure
from windlass.core.states import Kind, State
from windlass.errors import ClaimLost, WorkerLost
from windlass.store.records import ClaimedJob, Outcome, Room, Step, Wait


async def test_w1_a_step_is_written_once_and_stands(rig: Rig) -> None:
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    assert await rig.store.steps(id) == []
    first = await rig.store.save_step(worker, job, Step(name="plan", result='{"a":1}', code="m.plan"))
    assert (first.name, first.result, first.code, first.attempt) == ("plan", '{"a":1}', "m.plan", 1)
    assert first.at == pytest.approx(job.enqueued_at, abs=30)
    again = await rig.store.save_step(worker, job, Step(name="plan", result="2", code="m.other"))
    assert again == first
    await rig.store.save_step(worker, job, Step(name="act", result="[2]", code="m.act"))
    assert [step.name for step in await rig.store.steps(id)] == ["plan", "act"]


@pytest.mark.parametrize("kind", [Kind.RETRY, Kind.SNOOZE, Kind.RELEASED])
async def test_w1_the_next_attempt_finds_it_on_another_worker(rig: Rig, kind: Kind) -> None:
    worker, other = await rig.worker(), await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await rig.store.save_step(worker, job, Step(name="plan", result="7"))
    await rig.finish(worker, job, kind)
    again = await rig.run(other, id)
    assert [step.result for step in await rig.store.steps(id)] == ["7"]
    await rig.store.save_step(other, again, Step(name="act", result="8", attempt=again.attempt))
    assert [step.result for step in await rig.store.steps(id)] == ["7", "8"]


@pytest.mark.parametrize("kind", [Kind.SUCCEEDED, Kind.DEAD, Kind.CANCELLED])
async def test_w1_steps_stay_with_a_job_that_has_ended(rig: Rig, kind: Kind) -> None:
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await rig.store.save_step(worker, job, Step(name="plan", result="7"))
    await rig.finish(worker, job, kind)
    await rig.store.expire()
    assert [step.name for step in await rig.store.steps(id)] == ["plan"]


async def test_c5_w1_a_worker_that_no_longer_holds_the_job_writes_no_step(rig: Rig) -> None:
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await rig.finish(worker, job, Kind.RELEASED)
    with pytest.raises(ClaimLost):
        await rig.store.save_step(worker, job, Step(name="plan"))
    again = await rig.run(worker, id)
    await rig.store.retire(worker)
    with pytest.raises(WorkerLost):
        await rig.store.save_step(worker, again, Step(name="plan"))
    assert await rig.store.steps(id) == []


async def test_w2_a_sleep_is_fixed_when_it_begins(rig: Rig) -> None:
    """By the store's clock, whatever the next attempt asks for."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    begun = await rig.store.save_step(worker, job, Step(name="sleep", sleep=100.0))
    assert begun.left == pytest.approx(100, abs=5)
    await rig.finish(worker, job, Kind.SNOOZE, delay=100)
    await rig.clock.advance(60)
    (found,) = await rig.store.steps(id)
    assert found.left == pytest.approx(40, abs=5)
    await rig.clock.advance(60)
    await rig.store.promote()
    again = await rig.run(worker, id)
    assert again.attempt == 1
    same = await rig.store.save_step(worker, again, Step(name="sleep", sleep=100.0))
    assert same.left == pytest.approx(-20, abs=5)


async def test_w1_a_retry_by_an_operator_keeps_the_steps_and_a_replay_has_none(rig: Rig) -> None:
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await rig.store.save_step(worker, job, Step(name="plan", result="7"))
    await rig.finish(worker, job, Kind.DEAD, error=failure())
    assert await rig.store.retry([id]) == {id: "retried"}
    again = await rig.run(worker, id)
    assert (again.attempt, again.deaths) == (1, 0)
    assert again.ready_at != again.enqueued_at, "the run would not look for steps"
    assert [step.result for step in await rig.store.steps(id)] == ["7"]


@pytest.mark.parametrize("kind", [Kind.RETRY, Kind.SNOOZE, Kind.RELEASED])
async def test_w1_a_run_can_tell_that_it_is_not_the_first(rig: Rig, kind: Kind) -> None:
    """The first one does not ask for steps."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    assert (job.attempt, job.deaths, job.ready_at) == (1, 0, job.enqueued_at)
    await rig.finish(worker, job, kind)
    again = await rig.run(worker, id)
    assert again.attempt > 1 or again.ready_at != again.enqueued_at


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("how", ["released", "snoozed", "signalled"])
async def test_w1_so_can_one_that_waits_for_its_key_again(rig: Rig, how: str, at_once: bool) -> None:
    """[F3] Of several that were handed over at once it had begun, and goes back to its waiting list with the
    others. Found by reading: it looked like one that nobody had begun, and did its steps again."""
    worker = await rig.worker()
    ids = await rig.add(*(["t"] * 4), concurrency_key="k")
    finished = await rig.flush(
        worker,
        [Outcome(job=job) for job in await take(rig, worker)],
        Room({"default": 10}, runs={"default": 3}),
    )
    run = [job for claim in finished.claims for job in claim.jobs]
    assert [job.id for job in run] == ids[1:]
    await rig.store.save_step(worker, run[0], Step(name="plan", result="7"))
    if how == "signalled":
        wait = Wait(name="wait:go", signal="go")
        assert (await rig.store.wait_for_signal(worker, run[0], wait)).step is None
        await rig.store.signal(run[0].id, "go", "1")
    kind = Kind.RELEASED if how == "released" else Kind.SNOOZE
    begun = Outcome(job=run[0], kind=kind, began=True, delay=3600.0 if how == "signalled" else 0.0)
    rest = [Outcome(job=job, kind=Kind.RELEASED) for job in run[1:]]
    for outcomes in ([begun, *rest],) if at_once else ([begun], rest):
        await rig.flush(worker, outcomes)
    seen: dict[int, bool] = {}
    while jobs := await take(rig, worker):
        seen |= {job.id: (job.attempt, job.deaths, job.ready_at) == (1, 0, job.enqueued_at) for job in jobs}
        await rig.finish(worker, jobs)
    assert seen.keys() == {*ids[1:]}
    assert not seen[run[0].id], "its run would not look for steps"


async def test_w1_of_a_dead_worker_too(rig: Rig) -> None:
    worker, other = await rig.worker(), await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await rig.store.save_step(worker, job, Step(name="plan", result="7"))
    await rig.die(worker)
    again = await rig.run(other, id)
    assert again.deaths == 1
    assert [step.result for step in await rig.store.steps(id)] == ["7"]
    with pytest.raises(WorkerLost):
        await rig.store.save_step(worker, job, Step(name="act"))


async def test_w1_a_part_that_runs_again_has_the_steps_of_its_last_job(rig: Rig) -> None:
    """[P9]"""
    worker = await rig.worker()
    id = await rig.parent(worker, 2)
    jobs = await rig.claim(worker)
    for job in jobs:
        await rig.store.save_step(worker, job, Step(name="plan", result=str(job.id)))
    await rig.finish(worker, jobs, Kind.DEAD, error=failure())
    assert await rig.store.redrive(id) == 2
    await rig.clock.advance(2 * SETTINGS.retention)
    await rig.store.expire()
    seen = []
    for job in jobs:
        (again,) = await rig.claim(worker, limit=1)
        assert again.options.part is not None
        assert [step.result for step in await rig.store.steps(again.id)] == [str(job.id)]
        assert await rig.store.steps(job.id) == []
        seen.append(again)
    await rig.finish(worker, seen)


@pytest.mark.parametrize("state", [State.SCHEDULED, State.DEAD, State.SUCCEEDED, State.RUNNING])
async def test_w1_steps_go_with_a_job_that_is_deleted(rig: Rig, state: State) -> None:
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await rig.store.save_step(worker, job, Step(name="plan", result="7"))
    if state is State.SCHEDULED:
        await rig.finish(worker, job, Kind.SNOOZE, delay=60)
    elif state is State.DEAD:
        await rig.finish(worker, job, Kind.DEAD, error=failure())
    elif state is State.SUCCEEDED:
        await rig.finish(worker, job)
    answers = await rig.store.delete([id])
    gone = state is not State.RUNNING
    assert answers == {id: "deleted" if gone else "requested"}
    assert len(await rig.store.steps(id)) == (0 if gone else 1)


async def test_w1_steps_go_with_many_jobs_that_are_deleted(rig: Rig) -> None:
    """Found by reading: those of jobs deleted in one call stayed for as long as the retention."""
    worker = await rig.worker()
    ids = await rig.add(*"tttt")
    jobs = await rig.claim(worker)
    for job in jobs:
        await rig.store.save_step(worker, job, Step(name="plan", result="7"))
    ready, asleep, dead, over = jobs
    await rig.finish(worker, ready, Kind.RETRY, delay=0)
    await rig.finish(worker, asleep, Kind.SNOOZE, delay=60)
    await rig.finish(worker, dead, Kind.DEAD, error=failure())
    await rig.finish(worker, over)
    assert await rig.store.delete(ids) == dict.fromkeys(ids, "deleted")
    assert [await rig.store.steps(id) for id in ids] == [[]] * 4


async def test_w2_a_sleeper_outlives_every_turn_of_the_logs_and_the_others_leave_nothing(rig: Rig) -> None:
    """[K6]"""
    worker = await rig.worker()
    asleep, ended, dead = await rig.add("asleep", "ended", "dead")
    jobs = await rig.claim(worker)
    for job in jobs:
        await rig.store.save_step(worker, job, Step(name="plan", result="7"))
    length = 5 * SETTINGS.retention
    await rig.store.save_step(worker, jobs[0], Step(name="sleep", sleep=length))
    await rig.finish(worker, jobs[0], Kind.SNOOZE, delay=length)
    await rig.finish(worker, jobs[1])
    await rig.finish(worker, jobs[2], Kind.DEAD, error=failure())
    await rig.store.set_queue("default", {"dead_retention": 3 * SETTINGS.retention})
    for _ in range(4 * 9):
        await rig.clock.advance(SETTINGS.retention / 8)
        await rig.store.rotate()
        await rig.store.expire()
    assert [await rig.state(id) for id in (asleep, ended, dead)] == [State.SCHEDULED, None, None]
    assert [len(await rig.store.steps(id)) for id in (asleep, ended, dead)] == [2, 0, 0]
    await rig.clock.advance(length)
    await rig.store.promote()
    other = await rig.worker()
    again = await rig.run(other, asleep)
    assert (again.attempt, [step.name for step in await rig.store.steps(asleep)]) == (1, ["plan", "sleep"])


async def test_w1_the_steps_of_many_jobs_at_once_are_judged_one_by_one(rig: Rig) -> None:
    """[C5] One of a job that was lost, one that is there already, one that nobody can keep."""
    worker = await rig.worker()
    await rig.add(*(["t"] * 30))
    jobs = await rig.claim(worker)
    lost, again, broken = jobs[3], jobs[7], jobs[11]
    await rig.finish(worker, lost, Kind.RELEASED)
    await rig.store.save_step(worker, again, Step(name="plan", result="0"))

    async def save(job: ClaimedJob) -> Step:
        result = "{not json" if job is broken and rig.lends else str(job.id)
        return await rig.store.save_step(worker, job, Step(name="plan", result=result))

    answers = await asyncio.gather(*map(save, jobs), return_exceptions=True)
    for job, answer in zip(jobs, answers, strict=True):
        if job is lost:
            assert isinstance(answer, ClaimLost)
        elif job is again:
            assert isinstance(answer, Step)
            assert answer.result == "0"
        elif job is not broken:
            assert isinstance(answer, Step)
            assert answer.result == str(job.id)
        expected = [] if job is lost else ["0"] if job is again else [str(job.id)]
        if job is not broken:
            assert [step.result for step in await rig.store.steps(job.id)] == expected


async def test_w1_steps_that_are_younger_do_not_hold_up_those_of_jobs_that_are_gone(rig: Rig) -> None:
    """[K6] What is young is passed over at once: else the more there is of it, the longer the rest stays."""
    worker = await rig.worker()
    gone, other = await rig.add("t", "t")
    jobs = await rig.claim(worker)
    for job, n in zip(jobs, (1, 300), strict=True):
        steps = [Step(name=f"s{i}", result=f'"{i:0300}"') for i in range(n)]
        await asyncio.gather(*(rig.store.save_step(worker, job, step) for step in steps))
        await rig.clock.advance(SETTINGS.retention * 0.6)
        for _ in range(3):
            await rig.store.expire(limit=1)
    await rig.finish(worker, jobs[0])
    for _ in range(9):
        await rig.store.rotate(force=True)
    await rig.store.expire(limit=1)
    assert [len(await rig.store.steps(id)) for id in (gone, other)] == [0, 300]
