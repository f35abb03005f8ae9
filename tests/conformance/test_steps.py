"""Steps: what a job has done is found by every later attempt [W1]."""

import pytest

from tests.conformance.kit import Rig
from windlass.core.states import Kind
from windlass.errors import ClaimLost, WorkerLost
from windlass.store.records import Step


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
