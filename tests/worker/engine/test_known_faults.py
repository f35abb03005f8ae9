"""Faults that engines of this kind are known for, each shown to be absent here."""

import asyncio
from typing import Any

import pytest

from tests.worker.line import Line, set_quick, until, until_it_is
from tests.worker.scene import living
from windlass import Context, Retry, State, Windlass
from windlass.core.retry import Backoff, DeathPolicy
from windlass.errors import ClaimLost, WorkerLost
from windlass.store.records import Checkpoint, ClusterView, NewJob, Outcome, QueueRecord, WorkerInfo
from windlass.worker.engine.assignment import Assignment, assignment_for

pytestmark = pytest.mark.usefixtures("often")


async def test_a_heartbeat_that_outlives_its_handler(wired: Windlass, line: Line) -> None:
    """[C7] However a handler ends, its job is no longer held, though its worker goes on with heartbeats; and
    when the worker has gone, no heartbeat is sent for it."""
    started = asyncio.Event()

    @wired.task(queue="scene", retry=Retry(1))
    async def ends(how: str) -> None:
        if how == "raises":
            raise OSError
        if how == "is cancelled":
            started.set()
            await asyncio.Event().wait()
        if how == "takes too long":
            await asyncio.Event().wait()

    hows = {
        "returns": State.SUCCEEDED,
        "raises": State.DEAD,
        "is cancelled": State.CANCELLED,
        "takes too long": State.DEAD,
    }
    jobs = {
        how: await ends.using(timeout="50ms" if how == "takes too long" else "1h").aenqueue(how)
        for how in hows
    }
    async with wired.worker({"scene": 4}):
        await started.wait()
        await jobs["is cancelled"].acancel()
        for how, state in hows.items():
            await until_it_is(jobs[how].astatus, state)
        (worker,) = await living(line)
        assert await line.unfinished(worker.id) == []
        heartbeats = line.calls["heartbeat"]
        await until(lambda: line.calls["heartbeat"] > heartbeats)
    with pytest.raises(WorkerLost):
        await line.real.heartbeat(worker.id)


async def test_ownership_by_a_reused_worker_name(line: Line) -> None:
    """[C5] A process that comes back under the same label, host and pid owns nothing of its forerunner's."""
    await line.open()
    await line.enqueue([NewJob(task="t", payload="[]") for _ in range(2)])
    same: dict[str, Any] = {"label": "shop-worker-1", "host": "a", "pid": 7, "queues": ("default",)}
    await line.register(WorkerInfo(id=1, **same))
    (old,) = await line.claim(1, ["default"], 1)
    await line.register(WorkerInfo(id=2, **same))
    (new,) = await line.claim(2, ["default"], 1)
    assert [claim.id for claim in await line.unfinished(2)] == [new.id]
    answer = await line.finish(2, 1, [Outcome(job=old.jobs[0])])
    assert (answer.applied, answer.refused) == (0, (old.jobs[0].id,))
    with pytest.raises(ClaimLost):
        await line.checkpoint(2, old.jobs[0], Checkpoint("1"))
    assert await line.rescue(1, 0, DeathPolicy()) is not None
    assert [claim.id for claim in await line.unfinished(2)] == [new.id]
    with pytest.raises(WorkerLost):
        await line.finish(1, 1, [Outcome(job=old.jobs[0])])


async def test_a_retry_that_does_not_reset_attempts(wired: Windlass, line: Line) -> None:
    """[O6] What an operator retries has all its attempts before it again, and keeps its failures."""
    attempts: list[int] = []

    @wired.task(queue="scene", retry=Retry(2, base=0))
    async def fails(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        raise OSError

    job = await fails.aenqueue()
    async with wired.worker({"scene": 1}):
        await until_it_is(job.astatus, State.DEAD)
        assert await job.aretry() == "retried"
        await until(lambda: len(attempts) == 4)
        await until_it_is(job.astatus, State.DEAD)
    assert attempts == [1, 2, 1, 2]
    assert len((await job.arecord()).errors) == 4


async def test_a_first_delay_of_twice_the_base(wired: Windlass, line: Line) -> None:
    """[O2]"""

    @wired.task(queue="scene", retry=Retry(3, base="100s", jitter=0))
    async def fails() -> None:
        raise OSError

    job = await fails.aenqueue()
    async with wired.worker({"scene": 1}):
        await until_it_is(job.astatus, State.RETRYING)
    record = await job.arecord()
    assert record.run_at is not None
    assert 99 < (record.run_at - record.errors[0].at).total_seconds() < 101


async def test_a_pause_that_kills_running_jobs(wired: Windlass, line: Line) -> None:
    """[K2] Nor does a smaller size."""
    started, proceed = asyncio.Event(), asyncio.Event()

    @wired.task(queue="scene")
    async def waits() -> str:
        started.set()
        await proceed.wait()
        return "undisturbed"

    job = await waits.aenqueue()
    async with wired.worker({"scene": 4}) as worker:
        await started.wait()
        engine = worker._engine
        assert engine is not None
        for change, slots in (({"max_workers": 1}, 1), ({"paused": True}, 0)):
            await line.set_queue("scene", change)
            await until(lambda slots=slots: engine._assignment.slots == {"scene": slots})  # type: ignore[misc]
            assert engine.busy == 1
        proceed.set()
        assert await job.aresult("10s") == "undisturbed"
    assert (await job.arecord()).attempt == 1


def test_a_fallback_that_gives_every_worker_the_full_total() -> None:
    """[K1] Ten workers without an assignment run ten jobs of a queue of ten, not a hundred; nor more because
    the store cannot be read."""
    queue = QueueRecord(name="mail", max_workers=10)
    for trusted in (True, False):
        found = ClusterView({"mail": queue}, {}, {"mail": 10})
        assignments = [
            assignment_for(worker, {"mail": 10}, found, Assignment(), trusted=trusted)[0]
            for worker in range(10)
        ]
        assert sum(assignment.slots["mail"] for assignment in assignments) == 10


async def test_a_reclaim_without_a_cap(wired: Windlass, line: Line) -> None:
    """[C8] A job whose workers die is given out three times and no more."""
    runs = 0
    started = asyncio.Event()

    @wired.task(queue="scene")
    async def poison() -> None:
        nonlocal runs
        runs += 1
        started.set()
        await asyncio.Event().wait()

    job = await poison.aenqueue()
    policy = DeathPolicy(backoff=Backoff(0.0))
    async with wired.worker({"scene": 1}):
        for _ in range(3):
            await started.wait()
            started.clear()
            rescued = None
            while rescued is None:
                (worker,) = await living(line)
                rescued = await line.real.rescue(worker.id, worker.heartbeat, policy)
        await until_it_is(job.astatus, State.DEAD)
        echo = await wired.named("windlass.echo").using(queue="scene").aenqueue(1)
        assert await echo.aresult("10s") == 1
    record = await job.arecord()
    assert (runs, record.deaths, record.attempt, record.reason) == (3, 3, 1, "poison")


async def test_a_local_deadline_tied_to_the_lease(wired: Windlass, line: Line) -> None:
    """[C6] The time a run has is its task's or its queue's, whatever the lease is."""
    set_quick(wired, lease=0.4)
    await line.open()
    await line.set_queue("scene", {"safety_bound": 1000.0})
    started, proceed = asyncio.Event(), asyncio.Event()

    @wired.task(queue="scene")
    async def waits() -> None:
        started.set()
        await proceed.wait()

    jobs = [await waits.aenqueue(), await waits.using(timeout="500s").aenqueue()]
    async with wired.worker({"scene": 2}) as worker:
        await started.wait()
        engine = worker._engine
        assert engine is not None
        await until(lambda: engine.busy == 2)
        session = engine._session
        assert session is not None
        limits = {run.job.id: run.limit for run in session.running}
        assert limits == {jobs[0].id: 1000.0, jobs[1].id: 500.0}
        heartbeats = line.calls["heartbeat"]
        await until(lambda: line.calls["heartbeat"] >= heartbeats + 5)  # that is more than a lease
        proceed.set()
        for job in jobs:
            await until_it_is(job.astatus, State.SUCCEEDED)
