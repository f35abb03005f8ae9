"""A task that no worker knows: put off uncharged, and remembered since when [O4]."""

import pytest

from tests.conformance.kit import Rig, failure
from windlass.core.retry import Backoff, DeathPolicy
from windlass.core.states import Kind, State
from windlass.store.records import ClaimedJob, JobFilter

TOLD = "no worker knows this task"


async def put_off(rig: Rig, worker: int, id: int, delay: float = 10) -> None:
    """A worker claims the job and does not know its task."""
    await rig.finish(worker, await rig.run(worker, id), Kind.UNKNOWN, delay=delay)


async def due(rig: Rig, worker: int, id: int, after: float = 11) -> ClaimedJob:
    """The job's time comes, and the worker claims it."""
    await rig.clock.advance(after)
    await rig.store.promote()
    return await rig.run(worker, id)


async def test_it_waits_and_says_why(rig: Rig) -> None:
    """[O4] [M4] The attempt is not charged."""
    worker = await rig.worker()
    (id,) = await rig.add("t", tags=("x",), max_attempts=1)
    await put_off(rig, worker, id)
    record = await rig.look(id)
    assert (record.state, record.reason, record.attempt) == (State.SCHEDULED, TOLD, 1)
    assert record.options.unknown_since is not None
    assert record.options.tags == ("x",)
    page = await rig.store.jobs(JobFilter(state=State.SCHEDULED))
    assert [(seen.id, seen.reason) for seen in page.jobs] == [(id, TOLD)]


async def test_the_first_time_counts(rig: Rig) -> None:
    """[O4] However often it is put off; its worker sees since when."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await put_off(rig, worker, id)
    since = (await rig.look(id)).options.unknown_since
    for _ in range(3):
        claimed = await due(rig, worker, id)
        assert claimed.options.unknown_since == since
        assert claimed.attempt == 1
        await rig.finish(worker, claimed, Kind.UNKNOWN, delay=10)
        record = await rig.look(id)
        assert (record.options.unknown_since, record.reason) == (since, TOLD)


async def test_ready_or_running_it_waits_for_nothing(rig: Rig) -> None:
    """[O4] Once its time has come it waits for a worker like any other."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await put_off(rig, worker, id)
    await rig.clock.advance(11)
    await rig.store.promote()
    record = await rig.look(id)
    assert (record.state, record.reason) == (State.READY, None)
    assert record.options.unknown_since is not None
    await rig.run(worker, id)
    assert (await rig.look(id)).reason is None


async def test_put_off_by_nothing_it_is_still_remembered(rig: Rig) -> None:
    """[O4]"""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await put_off(rig, worker, id, delay=0)
    record = await rig.look(id)
    assert (record.state, record.reason) == (State.READY, None)
    assert record.options.unknown_since is not None


@pytest.mark.parametrize("delay", [0, 10])
@pytest.mark.parametrize("kind", [Kind.RETRY, Kind.SNOOZE, Kind.THROTTLED, Kind.RELEASED])
async def test_any_other_end_of_an_attempt_forgets_it(rig: Rig, kind: Kind, delay: float) -> None:
    """[O4] A worker has known the task by then, and a later word starts the time anew."""
    worker = await rig.worker()
    (id,) = await rig.add("t", tags=("x",))
    await put_off(rig, worker, id)
    first = (await rig.look(id)).options.unknown_since
    await rig.finish(worker, await due(rig, worker, id), kind, delay=0 if kind is Kind.RELEASED else delay)
    record = await rig.look(id)
    assert (record.options.unknown_since, record.reason) == (None, None)
    assert record.options.tags == ("x",)
    await rig.finish(worker, await due(rig, worker, id), Kind.UNKNOWN, delay=10)
    again = (await rig.look(id)).options.unknown_since
    assert first is not None
    assert again is not None
    assert again > first


async def test_a_worker_that_leaves_or_dies_forgets_it(rig: Rig) -> None:
    """[O4] [C8] Not told what became of it, the store believes that the task was known."""
    policy = DeathPolicy(5, Backoff(base=10))
    worker = await rig.worker()
    (id,) = await rig.add("t")
    for leave in (rig.store.retire, lambda worker: rig.die(worker, policy)):
        await put_off(rig, worker, id)
        last = await rig.worker()
        await due(rig, last, id)
        await leave(last)
        record = await rig.look(id)
        assert (record.state, record.options.unknown_since) == (State.READY, None)


async def test_cancelled_while_it_waits(rig: Rig) -> None:
    """[O5]"""
    worker = await rig.worker()
    (id,) = await rig.add("t", unique_key="k")
    await put_off(rig, worker, id)
    assert await rig.store.cancel([id]) == {id: "cancelled"}
    record = await rig.look(id)
    assert (record.state, record.reason) == (State.CANCELLED, None)
    assert (await rig.one("t", unique_key="k")).status == "enqueued"


async def test_an_operator_offers_it_now(rig: Rig) -> None:
    """[O6] Nobody has known it yet, so the time goes on."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await put_off(rig, worker, id)
    since = (await rig.look(id)).options.unknown_since
    assert await rig.store.retry([id]) == {id: "retried"}
    assert (await rig.look(id)).reason is None
    assert (await rig.run(worker, id)).options.unknown_since == since


async def test_given_up_and_retried_the_time_starts_anew(rig: Rig) -> None:
    """[O4] [O6] Or the first worker to claim it would give it up again at once."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await put_off(rig, worker, id)
    claimed = await due(rig, worker, id)
    await rig.finish(worker, claimed, Kind.DEAD, error=failure(TOLD))
    record = await rig.look(id)
    assert (record.state, record.reason) == (State.DEAD, TOLD)
    assert await rig.store.retry([id]) == {id: "retried"}
    assert (await rig.run(worker, id)).options.unknown_since is None


async def test_it_keeps_its_key_and_its_checkpoint(rig: Rig) -> None:
    """[O4] [E6] Only the options' own field changes."""
    worker = await rig.worker()
    (id,) = await rig.add("t", unique_key="k", fair_key="f")
    await rig.store.promote()
    await put_off(rig, worker, id)
    assert (await rig.one("t", unique_key="k")).status == "skipped"
    await rig.clock.advance(11)
    assert (await rig.store.promote()).due == 1
    claimed = await rig.run(worker, id)
    assert (claimed.options.unique_key, claimed.options.fair_key) == ("k", "f")
    await rig.finish(worker, claimed)
    assert (await rig.one("t", unique_key="k")).status == "enqueued"


async def test_only_the_store_says_so(rig: Rig) -> None:
    """[O4] What a producer writes there is left out, as when a job is repeated with its options."""
    worker = await rig.worker()
    (id,) = await rig.add("t", unknown_since=5.0)
    (later,) = await rig.add("t", unknown_since=5.0, delay=60, tags=("x",))
    assert (await rig.look(later)).reason is None
    assert (await rig.look(later)).options.unknown_since is None
    assert (await rig.run(worker, id)).options.unknown_since is None


async def test_a_repeated_job_names_the_first(rig: Rig) -> None:
    """[O6] Through every state it passes."""
    worker = await rig.worker()
    (first,) = await rig.add("t")
    await rig.finish(worker, await rig.run(worker, first), Kind.DEAD)
    (second,) = await rig.add("t", replay_of=first)
    assert (await rig.look(second)).options.replay_of == first
    claimed = await rig.run(worker, second)
    assert claimed.options.replay_of == first
    await rig.finish(worker, claimed, Kind.RETRY, delay=10)
    assert (await due(rig, worker, second)).options.replay_of == first


async def test_a_parent_that_somebody_knew_at_last_is_not_unknown(rig: Rig) -> None:
    """[O4] [P4] The model said of a job that was split that nobody knew its task."""
    worker = await rig.worker()
    (id,) = await rig.add("t", chunked=True)
    await put_off(rig, worker, id)
    await rig.split(worker, await due(rig, worker, id))
    assert (await rig.look(id)).options.unknown_since is None
    assert all(job.options.unknown_since is None for job in await rig.claim(worker))
