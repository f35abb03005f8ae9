"""What operators do is told to hosts by NOTIFY, in the operator's transaction [O5] [K2] [rule 10]."""

import json

import pytest

from tests.stock import BOTH
from tests.store.postgres.claims.test_wakeup import listening
from tests.store.postgres.kit import Base
from tests.store.postgres.waiting import begun

pytestmark = BOTH


@pytest.mark.parametrize("call", ["cancel", "delete"])
async def test_o5_the_host_of_the_worker_is_called_when_the_cancel_commits(alone: Base, call: str) -> None:
    """Once, however often it is asked for; and never where it is rolled back."""
    _, worker, job = await begun(alone)
    ear, session = await listening(alone)
    (caller,) = await alone.sessions(1)
    for end in (caller.rollback, caller.commit):
        await caller.begin()
        assert await caller.value(f"SELECT windlass.{call}($1)", job.id) == "requested"
        assert await caller.value(f"SELECT windlass.{call}($1)", job.id) == "requested"
        assert await ear.words(session) == []
        await end()
    assert await ear.words(session) == [f"@{worker}"]
    assert await alone.look.value(f"SELECT windlass.{call}($1)", job.id) == "requested"
    assert await ear.words(session) == []


@pytest.mark.parametrize(("verb", "done"), [("cancel", "cancelled"), ("delete", "deleted")])
async def test_o5_many_cancels_in_one_call_call_each_host_once(alone: Base, verb: str, done: str) -> None:
    """A thousand calls of one host would lead to as many heartbeats."""
    lane, store, jobs, workers = await alone.lane(), await alone.store(), list[int](), list[int]()
    for _ in range(2):
        workers.append(await alone.worker())
        for _ in range(5):
            await alone.look.enqueue()
        jobs += (await alone.claim(lane, workers[-1], limit=5)).ids
    waits = await alone.look.enqueue()
    ear, session = await listening(alone)
    answers = await getattr(store, verb)([*jobs, waits])
    assert answers == {**dict.fromkeys(jobs, "requested"), waits: done}
    words = [word for word in await ear.words(session) if word.startswith("@")]
    assert sorted(words) == sorted(f"@{worker}" for worker in workers)


async def test_a_transaction_that_will_be_prepared_may_cancel(alone: Base) -> None:
    """[rule 10] One that has notified could not be."""
    _, _, job = await begun(alone)
    ear, session = await listening(alone)
    (caller,) = await alone.sessions(1)
    await caller.begin()
    await caller.run("SET LOCAL windlass.notify = off")
    assert await caller.value("SELECT windlass.cancel($1)", job.id) == "requested"
    await caller.commit()
    assert await ear.words(session) == []


async def test_hosts_are_called_when_the_settings_of_a_queue_have_changed(alone: Base) -> None:
    await alone.lane()
    ear, session = await listening(alone)

    async def called(**changes: object) -> bool:
        await alone.look.run("SELECT windlass.set_queue($1, $2)", alone.queue, json.dumps(changes))
        return "@" in await ear.words(session)

    assert await called(paused=True)
    assert not await called(paused=True)
    assert not await called()
    assert await called(max_workers=3)
    assert await called(paused=False)


async def test_the_life_of_a_plain_job_calls_no_host(alone: Base) -> None:
    """[rule 10] Nor does a cancel of a job that waits."""
    lane, worker = await alone.lane(), await alone.worker()
    ear, session = await listening(alone)
    await alone.look.enqueue()
    await alone.finish(worker, (await alone.claim(lane, worker)).jobs)
    assert await alone.look.value("SELECT windlass.cancel($1)", await alone.look.enqueue()) == "cancelled"
    assert [word for word in await ear.words(session) if word.startswith("@")] == []
