"""Finish: each way an attempt can end, alone and mixed in one flush [O1] [O4] [O8]."""

import msgspec
import pytest

from tests.conformance.kit import Rig, failure
from windlass.core.states import Kind, State
from windlass.store.records import Finished, Outcome

PUT_OFF = [Kind.SNOOZE, Kind.THROTTLED, Kind.UNKNOWN]


async def test_success_ends_a_job_with_its_result(rig: Rig) -> None:
    """[O1] [O8]"""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await rig.finish(worker, await rig.run(worker, id), result='{"sent":3}')
    record = await rig.look(id)
    assert (record.state, record.result, record.attempt) == (State.SUCCEEDED, '{"sent":3}', 1)
    assert record.finished_at is not None
    assert await rig.claim(worker) == []


async def test_success_without_a_result(rig: Rig) -> None:
    """[O8]"""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await rig.finish(worker, await rig.run(worker, id))
    assert (await rig.look(id)).result is None


async def test_a_worker_may_cancel_its_job(rig: Rig) -> None:
    """[O5] As the end of a handler that was asked to stop."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await rig.finish(worker, await rig.run(worker, id), Kind.CANCELLED)
    record = await rig.look(id)
    assert record.state is State.CANCELLED
    assert record.finished_at is not None
    assert await rig.claim(worker) == []


async def test_a_retry_waits_for_its_delay_and_counts(rig: Rig) -> None:
    """[O1] [O2] Retrying until it is due, then ready as the next attempt with the same id."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await rig.finish(worker, await rig.run(worker, id), Kind.RETRY, delay=100, error=failure("first"))
    record = await rig.look(id)
    assert (record.state, record.attempt) == (State.RETRYING, 2)
    assert (record.worker, record.claim) == (None, None)
    assert record.run_at is not None
    assert [error.message for error in record.errors] == ["first"]
    await rig.clock.advance(50)
    await rig.store.promote()
    assert await rig.claim(worker) == []
    await rig.clock.advance(60)
    assert (await rig.store.promote()).due == 1
    assert await rig.state(id) is State.READY
    again = await rig.run(worker, id)
    assert again.attempt == 2
    await rig.finish(worker, again)
    assert (await rig.look(id)).attempt == 2


async def test_a_retry_without_delay_is_offered_at_once(rig: Rig) -> None:
    """[O2] Back-off off = at once."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await rig.finish(worker, await rig.run(worker, id), Kind.RETRY, error=failure())
    assert await rig.state(id) is State.READY
    assert (await rig.run(worker, id)).attempt == 2


async def test_the_last_attempt_is_the_last(rig: Rig) -> None:
    """[O4] max_attempts = 3: three runs, then dead as exhausted, however long the delay asked for."""
    worker = await rig.worker()
    (id,) = await rig.add("t", max_attempts=3)
    for attempt in (1, 2, 3):
        job = await rig.run(worker, id)
        assert job.attempt == attempt
        await rig.finish(
            worker, job, Kind.RETRY, delay=0 if attempt < 3 else 60, error=failure(f"no {attempt}")
        )
    record = await rig.look(id)
    assert (record.state, record.attempt, record.reason) == (State.DEAD, 3, "exhausted")
    assert [(error.attempt, error.message) for error in record.errors] == [
        (1, "no 1"), (2, "no 2"), (3, "no 3"),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", PUT_OFF)
async def test_put_off_does_not_charge_the_attempt(rig: Rig, kind: Kind) -> None:
    """[O1] [O3] [O4] Offered again after the delay, as the same attempt, as often as it takes."""
    worker = await rig.worker()
    (id,) = await rig.add("t", max_attempts=1)
    for _ in range(3):
        job = await rig.run(worker, id)
        assert job.attempt == 1
        await rig.finish(worker, job, kind, delay=100)
        assert await rig.claim(worker) == []
        assert await rig.state(id) in (State.SCHEDULED, State.RETRYING)
        await rig.clock.advance(101)
        assert (await rig.store.promote()).due == 1
    assert await rig.state(id) is State.READY


@pytest.mark.parametrize("kind", [*PUT_OFF, Kind.RELEASED])
async def test_put_off_by_nothing_is_offered_at_once(rig: Rig, kind: Kind) -> None:
    """[O1] A release has no delay, and a delay of 0 is none."""
    worker = await rig.worker()
    (id,) = await rig.add("t", max_attempts=1)
    await rig.finish(worker, await rig.run(worker, id), kind)
    assert await rig.state(id) is State.READY
    assert (await rig.run(worker, id)).attempt == 1


@pytest.mark.parametrize("kind", [Kind.RETRY, *PUT_OFF, Kind.RELEASED])
async def test_what_is_offered_again_is_the_same_job(rig: Rig, kind: Kind) -> None:
    """[O1] Payload, options and the time of its enqueue go with it."""
    worker = await rig.worker()
    (id,) = await rig.add("t", payload='{"n":1}', tags=("x",), queue="q")
    first = await rig.run(worker, id, "q")
    await rig.clock.advance(30)
    await rig.finish(worker, first, kind)
    again = await rig.run(worker, id, "q")
    options = msgspec.structs.replace(again.options, unknown_since=None)
    assert (again.task, again.payload, options) == (first.task, first.payload, first.options)
    assert again.enqueued_at == pytest.approx(first.enqueued_at, abs=1e-3)


async def test_one_flush_of_everything(rig: Rig) -> None:
    """[O1] Mixed kinds over several claims and lanes, in one step."""
    worker = await rig.worker()
    ends = [Kind.SUCCEEDED, Kind.DEAD, Kind.CANCELLED]
    kinds = [*ends, Kind.RETRY, Kind.SNOOZE, Kind.THROTTLED, Kind.RELEASED]
    names = [f"{kind}-{queue}" for queue in "ab" for kind in kinds]
    for queue in "ab":
        await rig.add(*[f"{kind}-{queue}" for kind in kinds], queue=queue)
    jobs = await rig.claim(worker, "a", "b")
    assert sorted(job.task for job in jobs) == sorted(names)
    outcomes = [
        Outcome(job=job, kind=Kind(job.task.split("-")[0]), delay=0 if job.task[0] == "r" else 60)
        for job in sorted(jobs, key=lambda job: job.task)
    ]
    assert await rig.store.finish(worker, 1, outcomes) == Finished(applied=14)
    states = {job.task: await rig.state(job.id) for job in jobs}
    for queue in "ab":
        assert states[f"succeeded-{queue}"] is State.SUCCEEDED
        assert states[f"dead-{queue}"] is State.DEAD
        assert states[f"cancelled-{queue}"] is State.CANCELLED
        assert states[f"retry-{queue}"] is State.READY
        assert states[f"released-{queue}"] is State.READY
        depth = await rig.depth(queue)
        assert (depth.ready, depth.running, depth.dead) == (2, 0, 1)
        assert depth.scheduled + depth.retrying == 2
    assert await rig.store.unfinished(worker) == []
    again = await rig.claim(worker, "a", "b")
    assert {job.task: job.attempt for job in again} == {
        "retry-a": 2, "retry-b": 2, "released-a": 1, "released-b": 1,
    }  # fmt: skip


async def test_a_part_of_a_claim_may_end_before_the_rest(rig: Rig) -> None:
    """[C1] The claim lives on with what is left, whatever order the outcomes come in."""
    worker = await rig.worker()
    ids = await rig.add(*(["t"] * 9))
    jobs = await rig.claim(worker)
    for picked in (jobs[1::3], jobs[0::3]):
        assert (await rig.finish(worker, picked)).applied == 3
    (left,) = await rig.store.unfinished(worker)
    assert left.jobs == jobs[2::3]
    depth = await rig.depth()
    assert (depth.ready, depth.running) == (0, 3)
    assert [await rig.state(id) for id in ids].count(State.RUNNING) == 3


async def test_a_succeeded_job_remembers_its_failures(rig: Rig) -> None:
    """[O4] Attempt and time of each are filled in by the store."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await rig.finish(worker, await rig.run(worker, id), Kind.RETRY, error=failure("once"))
    await rig.finish(worker, await rig.run(worker, id))
    record = await rig.look(id)
    assert record.state is State.SUCCEEDED
    (error,) = record.errors
    assert (error.type, error.message, error.attempt) == ("ValueError", "once", 1)
    assert error.traceback == "Traceback ..."
    assert error.at == pytest.approx(record.enqueued_at, abs=30)


async def test_o9_a_death_may_have_a_reason_of_its_own(rig: Rig) -> None:
    """Beside the error that it died of, which keeps its message; no attempt is left that anybody takes."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    said = "not retried: ValueError is in never"
    await rig.finish(worker, await rig.run(worker, id), Kind.DEAD, error=failure("no ä"), reason=said)
    record = await rig.look(id)
    assert (record.state, record.reason, record.attempt) == (State.DEAD, said, 1)
    assert [error.message for error in record.errors] == ["no ä"]
    assert await rig.claim(worker) == []
