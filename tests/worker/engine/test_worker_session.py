"""One identity at work: claims whose answers were lost, jobs that wait for a slot, trouble inside."""

import asyncio
import gc
from typing import Any

import msgspec
import pytest

from tests.worker.line import Line, until, until_it_is
from tests.worker.worker_sessions import Handlers, on_session
from windlass import Context, Retry, State, Windlass
from windlass.errors import StoreUnavailable, WorkerLost
from windlass.store.records import QueueRecord
from windlass.worker.engine import capacity, claimer, unanswered_claims
from windlass.worker.engine.assignment import Assignment
from windlass.worker.engine.worker_session import WorkerSession
from windlass.worker.handlers.runner import Runner


def closed(session: WorkerSession) -> Assignment:
    return session.assignment.without("default")


async def buffered(
    session: WorkerSession, line: Line, handlers: Handlers, slots: int, waiting: int = 1
) -> None:
    """Fill the slots with jobs that wait, and the buffer with so many more: a worker that knows short jobs
    claims ahead."""
    await handlers.quick.aenqueue_many([()] * 60)
    await until(lambda: len(handlers.runs) == 60 and session.holdings.none)
    await handlers.waits.aenqueue_many([()] * (slots + waiting))
    await until(lambda: len(handlers.running) == slots)
    await until(lambda: sum(map(len, session.capacity.buffers.values())) == waiting)


# -- claims ---------------------------------------------------------------------------------------------


async def test_a_claim_whose_answer_was_lost_loses_no_job(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """[C5] What it gave is found, released, claimed again and run: each job once."""
    ids = await handlers.quick.aenqueue_many([()] * 20)
    line.lose_answer("claim", times=2)
    async with on_session(wired, line) as session:
        await until(lambda: len(handlers.runs) == 20 and session.holdings.none)
    assert handlers.runs == dict.fromkeys(ids, 1)
    depth = (await line.depth())["default"]
    assert (depth.ready, depth.running) == (0, 0)
    record = await line.job(ids[0])
    assert (record.attempt, record.deaths, record.state) == (1, 0, State.SUCCEEDED)


async def test_a_lost_answer_does_not_release_what_runs(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """[C5] Jobs that run, that wait for a slot or for their outcome's flush are known, and stay."""
    async with on_session(wired, line, slots=3) as session:
        first = await handlers.waits.aenqueue()
        await until(lambda: handlers.running == {first.id})
        line.lose_answer("claim")
        second = await handlers.waits.aenqueue()
        await until(lambda: handlers.running == {first.id, second.id})
        handlers.proceed.set()
        await until(lambda: session.holdings.none and not session.running)
    assert handlers.runs == {first.id: 1, second.id: 1}


async def test_a_claim_that_comes_about_late_is_found_though_no_slot_is_free(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """[C5] [fault 5] Its connection broke before the server began it; by then the worker has asked what it
    holds, and is full. Its job must not wait for a slot here."""
    late, other = [await handlers.waits.aenqueue() for _ in range(2)]
    line.fail("claim", StoreUnavailable("broken before it began"))

    async def begin_it_now(_: object) -> None:
        del line.after["unfinished"]
        await line.real.claim(line.arguments["unfinished"][0], ["default"], 1)

    line.after["unfinished"] = begin_it_now
    async with on_session(wired, line, slots=1):
        await until(lambda: handlers.running == {other.id})
        await until_it_is(late.astatus, State.READY)
        assert handlers.running == {other.id}


async def test_looking_for_lost_jobs_is_tried_again(wired: Windlass, line: Line, handlers: Handlers) -> None:
    """[C5] The line may break a second time, while the worker asks what it holds."""
    job = await handlers.quick.aenqueue()
    line.lose_answer("claim")
    line.fail("unfinished", StoreUnavailable("still broken"), StoreUnavailable("and still"))
    async with on_session(wired, line) as session:
        await until(lambda: handlers.runs[job.id] and session.holdings.none)
    assert handlers.runs == {job.id: 1}
    assert line.calls["unfinished"] >= 3


async def test_an_error_of_the_wake_up_is_no_busy_loop(
    wired: Windlass, line: Line, handlers: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the store raises there, the worker polls with a pause and goes on."""

    async def broken(*_: Any) -> None:
        raise RuntimeError("nobody foresaw this")

    line.before["wait"] = broken
    async with on_session(wired, line) as session:
        await until(lambda: line.calls["wait"] >= 2)
        job = await handlers.quick.aenqueue()
        await until(lambda: handlers.runs[job.id] and session.holdings.none)
        assert line.calls["wait"] < 20
    assert "nobody foresaw this" in caplog.text


# -- the buffer -----------------------------------------------------------------------------------------


async def test_jobs_that_wait_for_a_slot_go_back_after_a_second(
    wired: Windlass, line: Line, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full slots keep nothing from others: what was claimed ahead is handed back, uncharged."""
    monkeypatch.setattr(capacity, "STALE", 0.0)
    async with on_session(wired, line, slots=2) as session:
        await buffered(session, line, handlers, 2)
        session.assign(session.assignment)
        assert not any(session.capacity.buffers.values())
        await until(lambda: session.log.settled)
        depth = (await line.depth())["default"]
        assert depth.ready + depth.running == 3
        assert len(handlers.running) == 2
        assert not session.claimer.wants()  # and it does not claim them again while what runs takes so long


async def test_jobs_that_will_have_their_slots_soon_are_kept(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """On a busy machine a buffer may be full whenever it is looked at, and yet move. However often it is
    looked at, its pace is that of a second."""
    async with on_session(wired, line, slots=2) as session:
        await buffered(session, line, handlers, 2)
        session.assign(session.assignment)
        begun, since = session.capacity._stuck["default"]
        session.assign(session.assignment)
        assert session.capacity._stuck["default"] == (begun, since)
        session.capacity._stuck["default"] = (begun - 1, since - 60)  # one was started since a minute ago
        session.assign(session.assignment)
        assert any(session.capacity.buffers.values())
        session.capacity._stuck["default"] = (begun, since - 60)  # none was
        session.assign(session.assignment)
        assert not any(session.capacity.buffers.values())


async def test_jobs_that_are_started_too_slowly_go_back(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """Some were started, but the many that wait would wait for long: others may be idle."""
    async with on_session(wired, line, slots=2) as session:
        await buffered(session, line, handlers, 2, waiting=1 + capacity.PACE)
        session.assign(session.assignment)
        begun, since = session.capacity._stuck["default"]
        session.capacity._stuck["default"] = (begun - 1, since - 60)
        session.assign(session.assignment)
        assert not any(session.capacity.buffers.values())


async def test_among_peers_one_that_is_woken_in_vain_gives_way(
    wired: Windlass, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until there is something to do here; alone, or after a quiet time, it never waits."""
    monkeypatch.setattr(claimer, "GIVE_WAY", 3600.0)
    async with on_session(wired, line) as session:
        session.claimer._woken_at = float("-inf")
        for _ in range(9):
            await session.claimer._give_way()  # alone: at once
        assert session.claimer._in_vain == 8
        peers = dict.fromkeys(session.assignment.slots, 64)
        session.assign(Assignment(session.assignment.slots, session.assignment.queues, peers))
        session.changed.clear()
        waiting = asyncio.create_task(session.claimer._give_way())
        assert not (await asyncio.wait({waiting}, timeout=0.01))[0]
        session.changed.set()
        await waiting
        session.claimer._woken_at = float("-inf")
        await session.claimer._give_way()  # quiet since long
        assert session.claimer._in_vain == 0


class EarlyTimers:
    """What uvloop does now and then: it calls a millisecond too soon."""

    def call_later(self, delay: float, callback: Any, *args: Any) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(max(0.0, delay - 0.002), callback, *args)


async def test_k10_who_held_back_for_others_claims_again_though_its_timer_was_early(
    wired: Windlass, line: Line, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[K10] Nothing ends, nothing is enqueued, and nothing is compared: only the timer brings it back."""
    monkeypatch.setattr(unanswered_claims, "EVERY", 1000)
    await line.open()
    async with on_session(wired, line) as session:
        monkeypatch.setattr(session.claimer, "_loop", EarlyTimers())
        session.assign(msgspec.structs.replace(session.assignment, serving={"default": 2}))
        await handlers.waits.aenqueue_many([()] * 4)
        await until(lambda: len(handlers.running) == 4)


async def test_a_job_ahead_goes_back_when_its_queue_is_paused(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """[K2] And what runs goes on."""
    async with on_session(wired, line, slots=2) as session:
        await buffered(session, line, handlers, 2)
        session.assign(closed(session))
        await until(lambda: session.log.settled)
        assert (await line.depth())["default"].ready == 1
        assert len(handlers.running) == 2
        handlers.proceed.set()
        await until(lambda: not session.running)


async def test_a_job_ahead_is_cancelled_without_a_run(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """[O5]"""
    async with on_session(wired, line, slots=2) as session:
        await buffered(session, line, handlers, 2)
        (job,) = session.capacity.buffers["default"]
        assert await wired.job(job.id).acancel() == "requested"
        session.cancel({job.id})
        await until(lambda: session.log.settled)
        assert await wired.job(job.id).astatus() == State.CANCELLED
        assert handlers.runs[job.id] == 0


async def test_jobs_ahead_go_back_on_close(wired: Windlass, line: Line, handlers: Handlers) -> None:
    """[K2]"""
    async with on_session(wired, line, slots=2) as session:
        await buffered(session, line, handlers, 2)
        session.close()
        await until(lambda: session.log.settled)
        assert (await line.depth())["default"].ready == 1


# -- trouble inside -------------------------------------------------------------------------------------


async def test_a_job_told_to_stop_before_its_first_step_leaves_its_slot(
    wired: Windlass, line: Line, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[O5] A run that was started and cancelled within one turn of the loop ends like any other, also where
    tasks do not begin at once."""
    loop = asyncio.get_running_loop()
    loop.set_task_factory(lambda loop, coroutine, **given: asyncio.Task(coroutine, loop=loop, **given))
    job = await handlers.waits.aenqueue()
    async with on_session(wired, line, slots=1) as session:
        start = session.slots._start

        def start_and_cancel(claimed: Any) -> None:
            start(claimed)
            session.cancel({claimed.id})

        monkeypatch.setattr(session.slots, "_start", start_and_cancel)
        await until_it_is(job.astatus, State.CANCELLED)
        monkeypatch.undo()
        assert not session.running
        again = await handlers.waits.aenqueue()
        await until(lambda: handlers.running == {again.id})
    assert handlers.runs[job.id] == 0


async def test_an_error_inside_the_worker_is_told_and_the_slot_is_free(
    wired: Windlass,
    line: Line,
    handlers: Handlers,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A bug of ours must not keep a job claimed for as long as the worker lives."""

    async def broken(self: Runner, job: Any, context: Any, call: Any = None) -> Any:
        raise RuntimeError("a bug in the runner")

    job = await handlers.waits.aenqueue()
    run = Runner.run
    monkeypatch.setattr(Runner, "run", broken)
    async with on_session(wired, line, slots=1) as session:
        await until_it_is(job.astatus, State.RETRYING)
        monkeypatch.setattr(Runner, "run", run)
        assert not session.running
        again = await handlers.waits.aenqueue()
        await until(lambda: handlers.running == {again.id})
    assert "a bug in the runner" in caplog.text
    assert (await job.arecord()).errors[0].type == "RuntimeError"
    gc.collect()  # no task may be left with an exception that nobody has seen


async def test_a_failure_hook_that_hangs_does_not_keep_the_slot(
    wired: Windlass, line: Line, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """[K9] After a timeout nobody watches the run any more, so the hook has a limit of its own."""
    monkeypatch.setattr("windlass.running.hooks.HOOK_TIME", 0.05)

    @wired.on_failure
    async def hangs(ctx: Context, error: BaseException, outcome: object) -> None:
        await asyncio.Event().wait()

    @wired.task(timeout="20ms", retry=Retry(1))
    async def fails() -> None:
        await asyncio.Event().wait()

    job = await fails.aenqueue()
    async with on_session(wired, line, slots=1) as session:
        await until_it_is(job.astatus, State.DEAD)
        assert not session.running
    assert "the failure hook" in caplog.text


async def test_c5_late_writes_are_refused_and_counted(wired: Windlass, line: Line) -> None:
    """[C5] Checkpoint, progress and outcome of a worker that is dead."""
    seen: list[str] = []
    started, proceed = asyncio.Event(), asyncio.Event()

    @wired.task
    async def writes(ctx: Context) -> None:
        started.set()
        await proceed.wait()
        for write in (ctx.asave({"row": 1}), ctx.aprogress(1, 2)):
            try:
                await write
            except WorkerLost:
                seen.append("refused")

    job = await writes.aenqueue()
    async with on_session(wired, line) as session:
        await started.wait()
        await line.retire(session.worker)
        proceed.set()
        await until(lambda: not session.running)
        await until(lambda: session.log.refused == 3)
    assert seen == ["refused", "refused"]
    record = await job.arecord()
    assert (record.checkpoint, record.state) == (None, State.READY)


async def test_warm_is_said_once_for_a_queue_that_went_well(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """[O3] Only for queues with throttles, not while they cool, and only after a success."""
    async with on_session(wired, line, throttles=2) as session:
        await session.feedback.send()
        assert line.calls["warm"] == 0
        await handlers.quick.aenqueue()
        await until(lambda: handlers.runs and session.holdings.none)
        await session.feedback.send()
        await session.feedback.send()
        assert line.calls["warm"] == 1
        await handlers.quick.aenqueue()
        await until(lambda: len(handlers.runs) == 2 and session.holdings.none)
        session.assign(
            Assignment(
                session.assignment.slots, {"default": QueueRecord(name="default", throttles=2, cooling=5)}
            )
        )
        await session.feedback.send()
        assert line.calls["warm"] == 1


async def test_outcomes_end_slots_before_they_are_written(wired: Windlass, line: Line) -> None:
    """A flush that takes its time holds up no slot, and `settled` waits for it."""
    proceed = asyncio.Event()

    async def slow(*_: Any) -> None:
        await proceed.wait()

    line.before["finish"] = slow
    async with on_session(wired, line, slots=1) as session:
        jobs = [await wired.aenqueue("windlass.echo", number) for number in (1, 2)]
        await until(lambda: len(session.log.unwritten) == 2)
        assert not session.holdings.none
        proceed.set()
        await until(lambda: session.holdings.none)
    assert [await job.astatus() for job in jobs] == [State.SUCCEEDED] * 2
