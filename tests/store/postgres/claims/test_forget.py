"""Failures that a success has made pointless are forgotten for good [O1]; a task that nobody knows [O4]."""

from tests.conformance.kit import failure
from tests.store.postgres.kit import Base
from tests.store.postgres.ring import Ring
from windlass.core.states import Kind, State
from windlass.store.records import NewJob, Options


async def test_what_was_forgotten_does_not_come_back_when_the_logs_turn(alone: Base) -> None:
    """[O1] [rule 7] The failure is in a segment that is passed over; the word about it is reclaimed first."""
    lane, worker, store = await alone.lane(), await alone.worker(), await alone.store()
    job = await alone.look.enqueue()
    (first,) = (await alone.claim(lane, worker)).jobs
    await alone.finish(worker, [first], Kind.RETRY, error=failure())
    (second,) = (await alone.claim(lane, worker)).jobs
    ring = Ring(alone, await alone.session())
    assert await ring.begin() == 0, "another segment is current from here on"
    await alone.finish(worker, [second], forget=True)
    found = await store.job(job)
    assert found is not None
    assert (found.state, found.errors) == (State.SUCCEEDED, ())
    await ring.begin(0)
    await ring.begin()
    await ring.turn(1, 0)
    assert ring.victim == 1
    found = await store.job(job)
    assert found is not None
    assert (found.state, found.errors) == (State.SUCCEEDED, ())
    await ring.turn(8)
    assert await alone.look.value("SELECT count(*) FROM windlass.failure") == 0, (
        "and it does not stay for good"
    )


async def test_forgetting_sent_twice_is_written_once(base: Base) -> None:
    """[O1] [C5] A flush sent again changes nothing."""
    lane, worker = await base.lane(), await base.worker()
    job = await base.look.enqueue()
    (claimed,) = (await base.claim(lane, worker)).jobs
    for _ in range(2):
        await base.finish(worker, [claimed], flush=1, forget=True)
    assert await base.look.value("SELECT count(*) FROM windlass.failure WHERE job = $1", job) == 1


async def test_an_unknown_task_is_told_in_the_view_and_only_by_the_store(alone: Base) -> None:
    """[O4] What a producer says of it is left out; an operator's retry of the dead job starts anew."""
    store, worker = await alone.store(), await alone.worker()
    new = NewJob(task="t", payload="{}", queue="q", options=Options(unknown_since=1.0, replay_of=7))
    (receipt,) = await store.enqueue([new])
    (claim,) = await store.claim(worker, {"q": 1}, 5)
    assert claim.jobs[0].options == Options(replay_of=7)
    await alone.finish(worker, claim.jobs, Kind.UNKNOWN, delay=60.0)
    assert await alone.look.value("SELECT reason FROM windlass.job") == "no worker knows this task"
    await alone.look.run("SELECT windlass.retry($1)", receipt.id)
    (claim,) = await store.claim(worker, {"q": 1}, 5)
    assert claim.jobs[0].options.unknown_since is not None, "it still counts from the first time"
    await alone.finish(worker, claim.jobs, Kind.DEAD)
    await alone.look.run("SELECT windlass.retry($1)", receipt.id)
    (claim,) = await store.claim(worker, {"q": 1}, 5)
    assert claim.jobs[0].options == Options(replay_of=7)
