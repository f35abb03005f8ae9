"""Dead letters and the operator's retry [O4] [O6]."""

import pytest

from tests.conformance.kit import Rig, failure
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind, State
from windlass.store.records import Outcome


async def test_a_dead_job_keeps_payload_times_and_reason(rig: Rig) -> None:
    """[O4] All that somebody needs to understand it and to try again."""
    worker = await rig.worker()
    (id,) = await rig.add("t", payload='{"order":7}', tags=("vip",), queue="q")
    await rig.finish(worker, await rig.run(worker, id, "q"), Kind.DEAD, error=failure("no such order"))
    record = await rig.look(id)
    assert (record.state, record.reason) == (State.DEAD, "no such order")
    assert (record.payload, record.options.tags, record.queue) == ('{"order":7}', ("vip",), "q")
    assert [(error.attempt, error.message) for error in record.errors] == [(1, "no such order")]
    assert record.finished_at is not None
    assert record.finished_at >= record.enqueued_at
    assert await rig.claim(worker, "q") == []


async def test_dead_without_an_error_is_dead(rig: Rig) -> None:
    """[O4]"""
    worker = await rig.worker()
    id = await rig.bring(State.DEAD, worker)
    record = await rig.look(id)
    assert (record.state, record.reason, record.errors) == (State.DEAD, "dead", ())


async def test_the_last_32_failures_are_kept(rig: Rig) -> None:
    """[O4] Bounded, whatever max_attempts says, and still in order."""
    worker = await rig.worker()
    (id,) = await rig.add("t", max_attempts=40)
    for attempt in range(1, 41):
        job = await rig.run(worker, id)
        await rig.finish(worker, job, Kind.RETRY, error=failure(f"no {attempt}"))
    record = await rig.look(id)
    assert record.state is State.DEAD
    assert [error.attempt for error in record.errors] == list(range(9, 41))
    assert record.errors[-1].message == "no 40"


async def test_retrying_a_dead_job_starts_it_afresh(rig: Rig) -> None:
    """[O6] Attempts and deaths are reset, failures kept, the id stays."""
    worker = await rig.worker()
    (id,) = await rig.add("t", max_attempts=1)
    await rig.finish(worker, await rig.run(worker, id), Kind.RETRY, error=failure("before"))
    assert await rig.store.retry([id]) == {id: "retried"}
    record = await rig.look(id)
    assert (record.state, record.attempt, record.deaths, record.reason) == (State.READY, 1, 0, None)
    assert [error.message for error in record.errors] == ["before"]
    assert (await rig.depth()).dead == 0
    job = await rig.run(worker, id)
    assert (job.attempt, job.deaths) == (1, 0)
    await rig.finish(worker, job, Kind.RETRY, error=failure("after"))
    record = await rig.look(id)
    assert [error.message for error in record.errors] == ["before", "after"]
    assert record.state is State.DEAD


async def test_retrying_a_poisonous_job_resets_its_deaths(rig: Rig) -> None:
    """[O6] [C8] It is no longer claimed alone."""
    worker, other = await rig.worker(), await rig.worker()
    (id,) = await rig.add("t")
    await rig.claim(worker)
    await rig.die(worker, DeathPolicy(poison=1))
    assert (await rig.look(id)).reason == "poison"
    await rig.store.retry([id])
    await rig.add("u")
    (claim,) = await rig.claims(other)
    assert [(job.task, job.deaths) for job in claim.jobs] == [("t", 0), ("u", 0)]


async def test_retrying_a_scheduled_job_offers_it_now(rig: Rig) -> None:
    """[O6]"""
    id = (await rig.one(delay=3600)).id
    assert await rig.store.retry([id]) == {id: "retried"}
    assert await rig.state(id) is State.READY
    assert (await rig.run(await rig.worker(), id)).attempt == 1
    await rig.clock.advance(7200)
    assert (await rig.store.promote()).due == 0


async def test_retrying_a_retrying_job_offers_it_now_with_fresh_attempts(rig: Rig) -> None:
    """[O6]"""
    worker = await rig.worker()
    (id,) = await rig.add("t", max_attempts=2)
    await rig.finish(worker, await rig.run(worker, id), Kind.RETRY, delay=3600, error=failure())
    assert await rig.store.retry([id]) == {id: "retried"}
    job = await rig.run(worker, id)
    assert job.attempt == 1
    assert len((await rig.look(id)).errors) == 1


async def test_retrying_a_job_put_off_by_deaths_keeps_them(rig: Rig) -> None:
    """[O6] [C8] Only a dead job starts with a clean record."""
    (id,) = await rig.add("t")
    for _ in range(2):
        worker = await rig.worker()
        await rig.run(worker, id)
        await rig.die(worker)
    assert await rig.state(id) is State.RETRYING
    assert await rig.store.retry([id]) == {id: "retried"}
    assert (await rig.run(await rig.worker(), id)).deaths == 2


@pytest.mark.parametrize("state", [State.READY, State.RUNNING, State.SUCCEEDED, State.CANCELLED])
async def test_there_is_nothing_to_retry_in_other_states(rig: Rig, state: State) -> None:
    """[O6]"""
    id = await rig.bring(state, await rig.worker())
    assert await rig.store.retry([id]) == {id: "unchanged"}
    assert await rig.state(id) is state


async def test_retry_answers_for_each_job(rig: Rig) -> None:
    """[O6] In one call, and an unknown id spoils nothing."""
    worker = await rig.worker()
    dead = await rig.bring(State.DEAD, worker)
    later = await rig.bring(State.SCHEDULED, worker)
    ready = await rig.bring(State.READY, worker)
    answers = await rig.store.retry([dead, later, ready, 987654321])
    assert answers == {dead: "retried", later: "retried", ready: "unchanged", 987654321: "not_found"}
    assert await rig.store.retry([]) == {}


async def test_a_revived_job_takes_its_unique_key_again(rig: Rig) -> None:
    """[O6] [E6]"""
    worker = await rig.worker()
    dead = await rig.bring(State.DEAD, worker, unique_key="k")
    await rig.store.retry([dead])
    receipt = await rig.one(unique_key="k")
    assert (receipt.id, receipt.status) == (dead, "skipped")
    await rig.finish(worker, await rig.run(worker, dead))
    assert (await rig.one(unique_key="k")).status == "enqueued"


async def test_a_dead_job_whose_key_is_taken_stays_dead(rig: Rig) -> None:
    """[O6] [E6] Two unfinished jobs of one key may not exist."""
    worker = await rig.worker()
    dead = await rig.bring(State.DEAD, worker, unique_key="k")
    twin = await rig.one(unique_key="k")
    assert await rig.store.retry([dead]) == {dead: "unchanged"}
    assert await rig.state(dead) is State.DEAD
    await rig.finish(worker, await rig.run(worker, twin.id))
    assert await rig.store.retry([dead]) == {dead: "retried"}


async def test_two_dead_jobs_of_one_key_are_not_both_revived(rig: Rig) -> None:
    """[O6] [E6] Also within one call."""
    worker = await rig.worker()
    first = await rig.bring(State.DEAD, worker, unique_key="k")
    second = await rig.bring(State.DEAD, worker, unique_key="k")
    answers = await rig.store.retry([first, second])
    assert sorted(answers.values()) == ["retried", "unchanged"]
    assert len(await rig.claim(worker)) == 1


async def test_a_wish_to_cancel_dies_with_the_run(rig: Rig) -> None:
    """[O5] [O6] Dead stood against the cancel; the revived job is not cancelled by an old wish."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await rig.store.cancel([id])
    await rig.finish(worker, job, Kind.DEAD)
    assert await rig.state(id) is State.DEAD
    await rig.store.retry([id])
    again = await rig.run(worker, id)
    assert (await rig.store.heartbeat(worker)).cancel == frozenset()
    await rig.flush(worker, [Outcome(job=again, kind=Kind.RELEASED)])
    assert await rig.state(id) is State.READY
