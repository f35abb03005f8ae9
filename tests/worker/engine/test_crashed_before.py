"""A job that has seen a worker die: it waits until no clean job runs, for so long, and leaves the wait
like any other; several of them run beside each other, unless the next death would be the last."""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.worker.line import Line, until, until_it_is
from tests.worker.worker_sessions import Handlers, crashed_job, on_session
from windlass import State, Windlass
from windlass.worker.engine import capacity, claimer, quarantine
from windlass.worker.engine.assignment import Assignment
from windlass.worker.engine.worker_session import WorkerSession


@asynccontextmanager
async def one_that_waits(
    wired: Windlass, line: Line, handlers: Handlers
) -> AsyncIterator[tuple[WorkerSession, int, int]]:
    """A worker session in which a crashed job waits for a clean job that runs; their ids."""
    alone = await crashed_job(line, "waits", queue="other")
    await line.set_queue("default", {})
    async with on_session(wired, line) as session:
        beside = await handlers.waits.aenqueue()
        await until(lambda: handlers.running == {beside.id})
        session.assign(Assignment({"default": 4, "other": 4}))
        await until(lambda: session.slots.quarantine.waiting is not None)
        yield session, alone, beside.id


async def test_a_job_with_a_death_waits_until_the_others_have_ended(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """[C8] It takes nobody along, and nobody starts beside it."""
    async with one_that_waits(wired, line, handlers) as (_session, alone, beside):
        late = await handlers.waits.aenqueue()
        assert handlers.running == {beside}
        handlers.proceed.set()
        await until(lambda: not handlers.running)
        await until_it_is(lambda: wired.job(alone).astatus(), State.SUCCEEDED)
        await until_it_is(late.astatus, State.SUCCEEDED)
    assert handlers.runs == {alone: 1, beside: 1, late.id: 1}


async def test_a_job_alone_keeps_no_others_waiting(
    wired: Windlass, line: Line, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[C8] It may run for hours: what was claimed before it goes back to other workers."""
    monkeypatch.setattr(capacity, "STALE", 0.0)
    alone = await crashed_job(line, "waits", queue="other")
    await line.set_queue("default", {})
    async with on_session(wired, line) as session:
        session.assign(Assignment({"other": 4}))
        await until(lambda: alone in handlers.running)
        others = await handlers.waits.aenqueue_many([()] * 3)
        # A claim that was under way when the crashed job came back brings these: they wait for it to end.
        claims = await line.claim(session.worker, {"default": 3}, 3)
        session.assign(Assignment({"default": 4, "other": 4}))
        session.claimer.wants()
        session.capacity.buffers.setdefault("default", deque())
        session.capacity.busy.setdefault("default", 0)
        session.claimer.take(claims)
        assert handlers.running == {alone}
        session.assign(session.assignment)
        session.assign(session.assignment)
        await until(lambda: session.log.settled)
        assert (await line.depth())["default"].ready == 3
        assert handlers.running == {alone}
    assert all(handlers.runs[id] == 0 for id in others)


async def test_a_job_that_waits_to_be_alone_can_be_cancelled(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """[O5] [C8]"""
    async with one_that_waits(wired, line, handlers) as (session, alone, _beside):
        assert await wired.job(alone).acancel() == "requested"
        session.cancel({alone})
        await until_it_is(lambda: wired.job(alone).astatus(), State.CANCELLED)
        later = await handlers.waits.aenqueue()
        await until(lambda: later.id in handlers.running)
    assert handlers.runs[alone] == 0


async def test_a_job_that_waits_to_be_alone_goes_back_when_its_queue_is_paused(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """[K2] [C8]"""
    async with one_that_waits(wired, line, handlers) as (session, alone, _beside):
        session.assign(Assignment({"default": 4, "other": 0}))
        await until_it_is(lambda: wired.job(alone).astatus(), State.READY)
        handlers.proceed.set()
        await until(lambda: session.holdings.none)
    assert handlers.runs[alone] == 0


async def test_a_job_alone_that_waited_long_runs_beside_the_others(
    wired: Windlass, line: Line, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[C8] A neighbour that never ends must not keep it from running for ever."""
    monkeypatch.setattr(quarantine, "QUIET_WAIT", 0.05)
    alone = await crashed_job(line, "waits", queue="other")
    await line.set_queue("default", {})
    async with on_session(wired, line) as session:
        beside = await handlers.waits.aenqueue()
        await until(lambda: handlers.running == {beside.id})
        session.assign(Assignment({"default": 4, "other": 4}))
        await until(lambda: handlers.running == {beside.id, alone})


async def test_c8_crashed_jobs_run_beside_each_other(wired: Windlass, line: Line, handlers: Handlers) -> None:
    """[C8] What a killed process ran is back at once, not one after the other; nobody else joins them."""
    others = [f"other-{n}" for n in range(3)]
    crashed_jobs = {await crashed_job(line, "waits", queue=queue) for queue in others}
    clean = await handlers.waits.aenqueue()
    async with on_session(wired, line, slots=4) as session:
        await until(lambda: handlers.running == {clean.id})
        handlers.proceed.set()
        await until(lambda: not handlers.running)
        handlers.proceed.clear()
        session.assign(Assignment(dict.fromkeys(["default", *others], 4)))
        await until(lambda: handlers.running == crashed_jobs)
        late = await handlers.waits.aenqueue()
        await until_it_is(late.astatus, State.RUNNING)  # claimed, to see whether it is one more
        assert handlers.running == crashed_jobs
        assert not session.claimer.wants()
        handlers.proceed.set()
        await until_it_is(late.astatus, State.SUCCEEDED)
    assert set(handlers.runs.values()) == {1}


async def test_c8_one_with_its_last_life_runs_alone(wired: Windlass, line: Line, handlers: Handlers) -> None:
    """[C8] The next death would make it poison: it shall not be another's deed."""
    first, second = [await crashed_job(line, "waits", queue=queue) for queue in ("one", "two")]
    async with on_session(wired, line, slots=4, poison=2) as session:
        session.assign(Assignment({"one": 4, "two": 4}))
        await until(lambda: len(handlers.running) == 1)
        assert not session.claimer.wants()
        handlers.proceed.set()
        await until(lambda: handlers.runs == {first: 1, second: 1})


async def test_c8_a_crashed_job_is_passed_on(
    wired: Windlass, line: Line, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[C8] [fault 1] A worker that is busy lets those come first that are not."""
    monkeypatch.setattr(claimer, "PASS_ON", 0.01)
    monkeypatch.setattr(claimer, "YIELD", 60.0)
    alone = await crashed_job(line, "waits", queue="other")
    await line.set_queue("default", {})
    async with on_session(wired, line) as busy, on_session(wired, line, queue="nothing") as idle:
        beside = await handlers.waits.aenqueue()
        await until(lambda: handlers.running == {beside.id})
        busy.assign(Assignment({"default": 4, "other": 4}))
        await until(lambda: busy.claimer._yielding)
        idle.assign(Assignment({"other": 4}))
        await until(lambda: [run.job.id for run in idle.running] == [alone])
        assert (await line.job(alone)).attempt == 1


async def test_c8_crashed_jobs_that_nobody_wants_start_all_the_same(
    wired: Windlass, line: Line, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[C8] Passed on in turns, each waits no longer than it would alone, beside a job that does not end."""
    monkeypatch.setattr(claimer, "PASS_ON", 0.01)
    monkeypatch.setattr(claimer, "YIELD", 0.01)
    monkeypatch.setattr(quarantine, "QUIET_WAIT", 0.2)
    others = ["one", "two", "three"]
    crashed_jobs = {await crashed_job(line, "waits", queue=queue) for queue in others}
    clean = await handlers.waits.aenqueue()
    async with on_session(wired, line) as session:
        await until(lambda: handlers.running == {clean.id})
        session.assign(Assignment(dict.fromkeys(["default", *others], 4)))
        await until(lambda: handlers.running == {clean.id, *crashed_jobs})


async def test_c8_a_crashed_job_waits_for_a_slot_too(
    wired: Windlass, line: Line, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[C8] [K1] Slots may have become fewer since it was claimed."""
    monkeypatch.setattr(claimer, "PASS_ON", 60.0)
    async with one_that_waits(wired, line, handlers) as (session, alone, _beside):
        session.capacity.busy["other"] = 1
        session.assign(Assignment({"default": 4, "other": 1}))
        handlers.proceed.set()
        await until(lambda: not handlers.running)
        assert session.slots.quarantine.waiting is not None
        session.capacity.busy["other"] = 0
        session.assign(session.assignment)
        await until_it_is(lambda: wired.job(alone).astatus(), State.SUCCEEDED)
