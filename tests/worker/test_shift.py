"""One identity at work: claims whose answers were lost, jobs that wait for a slot, time limits, trouble."""

import asyncio
import gc
import threading
from collections import Counter, deque
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.worker import process_tasks
from tests.worker.line import Line, until, until_it_is
from tests.worker.process_groups import until_gone, written
from tests.worker.shifts import on_shift, suspect
from windlass import Context, Retry, State, Windlass
from windlass.errors import StoreUnavailable, WorkerLost
from windlass.store.records import QueueRecord
from windlass.worker import shift as module
from windlass.worker import slots
from windlass.worker.runner import Runner
from windlass.worker.shift import Shift
from windlass.worker.view import View


class Handlers:
    """Tasks whose runs a test can see and hold."""

    def __init__(self, app: Windlass) -> None:
        self.runs: Counter[int] = Counter()
        self.proceed = asyncio.Event()
        self.running: set[int] = set()

        @app.task(name="waits", retry=Retry(3, base=0))
        async def waits(ctx: Context) -> None:
            self.runs[ctx.id] += 1
            self.running.add(ctx.id)
            try:
                await self.proceed.wait()
            finally:
                self.running.discard(ctx.id)

        @app.task(name="quick")
        async def quick(ctx: Context) -> None:
            self.runs[ctx.id] += 1

        self.waits, self.quick = waits, quick


@pytest.fixture
async def handlers(wired: Windlass) -> Handlers:
    return Handlers(wired)


def closed(shift: Shift) -> View:
    return shift.view.closed("default")


async def buffered(shift: Shift, line: Line, handlers: Handlers, slots: int) -> None:
    """Fill the slots with jobs that wait, and the buffer with more: a worker that knows short jobs claims
    ahead."""
    await handlers.quick.aenqueue_many([()] * 60)
    await until(lambda: len(handlers.runs) == 60 and shift.settled)
    await handlers.waits.aenqueue_many([()] * (slots + 1))
    await until(lambda: len(handlers.running) == slots)
    await until(lambda: any(shift._buffers.values()))


# -- claims ---------------------------------------------------------------------------------------------


async def test_a_claim_whose_answer_was_lost_loses_no_job(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """[C5] What it gave is found, released, claimed again and run: each job once."""
    ids = await handlers.quick.aenqueue_many([()] * 20)
    line.lose_answer("claim", times=2)
    async with on_shift(wired, line) as shift:
        await until(lambda: len(handlers.runs) == 20 and shift.settled)
    assert handlers.runs == dict.fromkeys(ids, 1)
    depth = (await line.depth())["default"]
    assert (depth.ready, depth.running) == (0, 0)
    record = await line.job(ids[0])
    assert (record.attempt, record.deaths, record.state) == (1, 0, State.SUCCEEDED)


async def test_a_lost_answer_does_not_release_what_runs(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """[C5] Jobs that run, that wait for a slot or for their outcome's flush are known, and stay."""
    async with on_shift(wired, line, slots=3) as shift:
        first = await handlers.waits.aenqueue()
        await until(lambda: handlers.running == {first.id})
        line.lose_answer("claim")
        second = await handlers.waits.aenqueue()
        await until(lambda: handlers.running == {first.id, second.id})
        handlers.proceed.set()
        await until(lambda: shift.settled and not shift.running)
    assert handlers.runs == {first.id: 1, second.id: 1}


async def test_a_claim_that_comes_about_late_is_found_though_no_slot_is_free(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """[C5] [fault 5] Its connection broke before the server began it; by then the worker has asked what it
    holds, and is full. Its job must not wait for a slot here."""
    late, other = [await handlers.waits.aenqueue() for _ in range(2)]
    line.fail("claim", StoreUnavailable("broken before it began"))

    async def begin_it_now(_: object) -> None:
        del line.after["held"]
        await line.real.claim(line.arguments["held"][0], ["default"], 1)

    line.after["held"] = begin_it_now
    async with on_shift(wired, line, slots=1):
        await until(lambda: handlers.running == {other.id})
        await until_it_is(late.astatus, State.READY)
        assert handlers.running == {other.id}


async def test_looking_for_lost_jobs_is_tried_again(wired: Windlass, line: Line, handlers: Handlers) -> None:
    """[C5] The line may break a second time, while the worker asks what it holds."""
    job = await handlers.quick.aenqueue()
    line.lose_answer("claim")
    line.fail("held", StoreUnavailable("still broken"), StoreUnavailable("and still"))
    async with on_shift(wired, line) as shift:
        await until(lambda: handlers.runs[job.id] and shift.settled)
    assert handlers.runs == {job.id: 1}
    assert line.calls["held"] >= 3


async def test_an_error_of_the_wake_up_is_no_busy_loop(
    wired: Windlass, line: Line, handlers: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the store raises there, the worker polls with a pause and goes on."""

    async def broken(*_: Any) -> None:
        raise RuntimeError("nobody foresaw this")

    line.before["wait"] = broken
    async with on_shift(wired, line) as shift:
        await until(lambda: line.calls["wait"] >= 2)
        job = await handlers.quick.aenqueue()
        await until(lambda: handlers.runs[job.id] and shift.settled)
        assert line.calls["wait"] < 20
    assert "nobody foresaw this" in caplog.text


# -- the buffer -----------------------------------------------------------------------------------------


async def test_jobs_that_wait_for_a_slot_go_back_after_a_second(
    wired: Windlass, line: Line, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full slots keep nothing from others: what was claimed ahead is given back, uncharged."""
    monkeypatch.setattr(module, "STALE", 0.0)
    async with on_shift(wired, line, slots=2) as shift:
        await buffered(shift, line, handlers, 2)
        shift.steer(shift.view)
        assert not any(shift._buffers.values())
        await until(lambda: shift.log.settled)
        depth = (await line.depth())["default"]
        assert depth.ready + depth.running == 3
        assert len(handlers.running) == 2
        assert not shift.has_room  # and it does not claim them again while what runs takes so long


async def test_a_job_ahead_goes_back_when_its_queue_is_paused(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """[K2] And what runs goes on."""
    async with on_shift(wired, line, slots=2) as shift:
        await buffered(shift, line, handlers, 2)
        shift.steer(closed(shift))
        await until(lambda: shift.log.settled)
        assert (await line.depth())["default"].ready == 1
        assert len(handlers.running) == 2
        handlers.proceed.set()
        await until(lambda: not shift.running)


async def test_a_job_ahead_is_cancelled_without_a_run(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """[O5]"""
    async with on_shift(wired, line, slots=2) as shift:
        await buffered(shift, line, handlers, 2)
        (job,) = shift._buffers["default"]
        assert await wired.job(job.id).acancel() == "requested"
        shift.cancel({job.id})
        await until(lambda: shift.log.settled)
        assert await wired.job(job.id).astatus() == State.CANCELLED
        assert handlers.runs[job.id] == 0


async def test_jobs_ahead_go_back_on_close(wired: Windlass, line: Line, handlers: Handlers) -> None:
    """[K2]"""
    async with on_shift(wired, line, slots=2) as shift:
        await buffered(shift, line, handlers, 2)
        shift.close()
        await until(lambda: shift.log.settled)
        assert (await line.depth())["default"].ready == 1


# -- alone ----------------------------------------------------------------------------------------------


async def test_a_job_with_a_death_waits_until_the_others_have_ended(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """[C8] It takes nobody along, and nobody starts beside it."""
    alone = await suspect(line, "waits", queue="other")
    await line.set_queue("default", {})
    async with on_shift(wired, line) as shift:
        beside = await handlers.waits.aenqueue()
        await until(lambda: handlers.running == {beside.id})
        shift.steer(View({"default": 4, "other": 4}))
        await until(lambda: shift._alone is not None)
        late = await handlers.waits.aenqueue()
        assert handlers.running == {beside.id}
        handlers.proceed.set()
        await until(lambda: not handlers.running)
        await until_it_is(lambda: wired.job(alone).astatus(), State.SUCCEEDED)
        await until_it_is(late.astatus, State.SUCCEEDED)
    assert handlers.runs == {alone: 1, beside.id: 1, late.id: 1}


async def test_a_job_alone_keeps_no_others_waiting(
    wired: Windlass, line: Line, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[C8] It may run for hours: what was claimed before it goes back to other workers."""
    monkeypatch.setattr(module, "STALE", 0.0)
    alone = await suspect(line, "waits", queue="other")
    await line.set_queue("default", {})
    async with on_shift(wired, line) as shift:
        shift.steer(View({"other": 4}))
        await until(lambda: alone in handlers.running)
        others = await handlers.waits.aenqueue_many([()] * 3)
        # A claim that was under way when the suspect came back brings these: they wait for it to end.
        claims = await line.claim(shift.worker, {"default": 3}, 3)
        shift.view = View({"default": 4, "other": 4})
        shift._wants()
        shift._buffers.setdefault("default", deque())
        shift._busy.setdefault("default", 0)
        shift._take(claims)
        assert handlers.running == {alone}
        shift.steer(shift.view)
        shift.steer(shift.view)
        await until(lambda: shift.log.settled)
        assert (await line.depth())["default"].ready == 3
        assert handlers.running == {alone}
    assert all(handlers.runs[id] == 0 for id in others)


async def test_a_job_that_waits_to_be_alone_can_be_cancelled(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """[O5] [C8]"""
    alone = await suspect(line, "waits", queue="other")
    await line.set_queue("default", {})
    async with on_shift(wired, line) as shift:
        beside = await handlers.waits.aenqueue()
        await until(lambda: handlers.running == {beside.id})
        shift.steer(View({"default": 4, "other": 4}))
        await until(lambda: shift._alone is not None)
        assert await wired.job(alone).acancel() == "requested"
        shift.cancel({alone})
        await until_it_is(lambda: wired.job(alone).astatus(), State.CANCELLED)
        later = await handlers.waits.aenqueue()
        await until(lambda: later.id in handlers.running)
    assert handlers.runs[alone] == 0


async def test_a_job_that_waits_to_be_alone_goes_back_when_its_queue_is_paused(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """[K2] [C8]"""
    alone = await suspect(line, "waits", queue="other")
    await line.set_queue("default", {})
    async with on_shift(wired, line) as shift:
        beside = await handlers.waits.aenqueue()
        await until(lambda: handlers.running == {beside.id})
        shift.steer(View({"default": 4, "other": 4}))
        await until(lambda: shift._alone is not None)
        shift.steer(View({"default": 4, "other": 0}))
        await until_it_is(lambda: wired.job(alone).astatus(), State.READY)
        handlers.proceed.set()
        await until(lambda: shift.settled)
    assert handlers.runs[alone] == 0


async def test_a_job_alone_that_waited_long_runs_beside_the_others(
    wired: Windlass, line: Line, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[C8] A neighbour that never ends must not keep it from running for ever."""
    monkeypatch.setattr(slots, "QUIET_WAIT", 0.05)
    alone = await suspect(line, "waits", queue="other")
    await line.set_queue("default", {})
    async with on_shift(wired, line) as shift:
        beside = await handlers.waits.aenqueue()
        await until(lambda: handlers.running == {beside.id})
        shift.steer(View({"default": 4, "other": 4}))
        await until(lambda: handlers.running == {beside.id, alone})


# -- time limits ----------------------------------------------------------------------------------------


async def test_a_timeout_ends_an_async_handler(
    wired: Windlass, line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    """[C6] [O4] It counts as a failed attempt, with where it stood."""

    @wired.task(timeout="50ms", retry=Retry(1))
    async def hangs() -> None:
        await asyncio.Event().wait()

    job = await hangs.aenqueue()
    async with on_shift(wired, line):
        await until_it_is(job.astatus, State.DEAD)
    (failure,) = (await job.arecord()).errors
    assert (failure.type, failure.message) == ("TimeoutError", "ran longer than its timeout of 0.05 s")
    assert "in hangs" in failure.traceback
    assert "in hangs" in caplog.text


async def test_a_timeout_gives_up_on_a_thread(
    wired: Windlass, line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    """[C6] A thread cannot be stopped: its slot comes back, its stack is in the log, and it is counted."""
    proceed, told = threading.Event(), threading.Event()

    @wired.task(timeout="50ms", retry=Retry(1))
    def hangs_in_a_thread(ctx: Context) -> None:
        proceed.wait(30)
        if ctx.cancelled:
            told.set()

    try:
        job = await hangs_in_a_thread.aenqueue()
        async with on_shift(wired, line, slots=1) as shift:
            await until_it_is(job.astatus, State.DEAD)
            assert shift.abandoned == 1
            echo = await wired.aenqueue("windlass.echo", 1)
            assert await echo.aresult("10s") == 1  # the one slot is free
        assert "hangs_in_a_thread" in caplog.text
        assert "proceed.wait(30)" in caplog.text
    finally:
        proceed.set()
    assert told.wait(10)


async def test_a_timeout_kills_a_process(wired: Windlass, line: Line, tmp_path: Path) -> None:
    """[C6] [K8] With all that it has started, and it is not counted as left behind."""
    told = tmp_path / "told"
    hang = wired.named(process_tasks.hang.name).using(timeout="1h", max_attempts=1)
    job = await hang.aenqueue(str(told))
    async with on_shift(process_tasks.app, line, slots=1) as shift:
        leader = await written(told)
        (run,) = shift.running.values()
        shift._overdue(run)  # an hour has passed
        await until_it_is(job.astatus, State.DEAD)
        assert shift.abandoned == 0
    assert not psutil.pid_exists(leader)
    await until_gone(leader)
    assert (await job.arecord()).errors[0].type == "TimeoutError"


async def test_a_cancelled_thread_still_has_its_time_limit(wired: Windlass, line: Line) -> None:
    """[C6] [O5] One that ignores its cancel does not keep its slot for ever."""
    proceed, started = threading.Event(), threading.Event()

    @wired.task(timeout="200ms")
    def ignores() -> None:
        started.set()
        proceed.wait(30)

    try:
        job = await ignores.aenqueue()
        async with on_shift(wired, line, slots=1) as shift:
            await until(started.is_set)
            assert await job.acancel() == "requested"
            shift.cancel({job.id})
            await until_it_is(job.astatus, State.CANCELLED)
            assert shift.abandoned == 1
            assert not shift.running
    finally:
        proceed.set()


async def test_a_cancelled_thread_does_not_hold_up_the_end(wired: Windlass, line: Line) -> None:
    """[K2] [O5] The worker gives up on it when it leaves, at once."""
    proceed, started = threading.Event(), threading.Event()

    @wired.task
    def ignores() -> None:
        started.set()
        proceed.wait(30)

    try:
        job = await ignores.aenqueue()
        async with on_shift(wired, line, slots=1) as shift:
            await until(started.is_set)
            await job.acancel()
            shift.cancel({job.id})
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < 4
        assert await job.astatus() == State.CANCELLED
    finally:
        proceed.set()


async def test_the_jobs_own_timeout_counts_for_more_than_the_tasks(wired: Windlass, line: Line) -> None:
    """[E2] [C6] Shorter or longer."""
    proceed = asyncio.Event()

    @wired.task(timeout="50ms", retry=Retry(1))
    async def patient() -> str:
        await proceed.wait()
        return "done"

    @wired.task(timeout="1h", retry=Retry(1))
    async def hasty() -> None:
        await proceed.wait()

    long, short = await patient.using(timeout="1h").aenqueue(), await hasty.using(timeout="60ms").aenqueue()
    control = await patient.aenqueue()
    async with on_shift(wired, line):
        await until_it_is(short.astatus, State.DEAD)
        await until_it_is(control.astatus, State.DEAD)
        proceed.set()
        assert await long.aresult("10s") == "done"
    assert "0.06 s" in (await short.arecord()).errors[0].message


async def test_the_safety_bound_ends_whatever_has_no_timeout(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """[C6] And what has a longer one."""
    job, other = await handlers.waits.aenqueue(), await handlers.waits.using(timeout="1h").aenqueue()
    async with on_shift(wired, line, safety_bound=0.05):
        await until(lambda: handlers.runs == {job.id: 3, other.id: 3})
        await until_it_is(job.astatus, State.DEAD)
        await until_it_is(other.astatus, State.DEAD)
    assert "0.05 s" in (await other.arecord()).errors[0].message


async def test_finished_first_stands(wired: Windlass, line: Line) -> None:
    """[O5] A handler that is told to stop and returns all the same has succeeded."""
    started = asyncio.Event()

    @wired.task
    async def stubborn() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "finished"
        return "never"

    job = await stubborn.aenqueue()
    async with on_shift(wired, line) as shift:
        await started.wait()
        await job.acancel()
        shift.cancel({job.id})
        assert await job.aresult("10s") == "finished"


# -- trouble inside -------------------------------------------------------------------------------------


async def test_a_job_told_to_stop_before_its_first_step_leaves_its_slot(
    wired: Windlass, line: Line, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[O5] A run that was started and cancelled within one turn of the loop ends like any other."""
    job = await handlers.waits.aenqueue()
    async with on_shift(wired, line, slots=1) as shift:
        start = shift._start

        def start_and_cancel(claimed: Any) -> None:
            start(claimed)
            shift.cancel({claimed.id})

        monkeypatch.setattr(shift, "_start", start_and_cancel)
        await until_it_is(job.astatus, State.CANCELLED)
        monkeypatch.undo()
        assert not shift.running
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

    async def broken(self: Runner, job: Any, context: Any) -> Any:
        raise RuntimeError("a bug in the runner")

    job = await handlers.waits.aenqueue()
    run = Runner.run
    monkeypatch.setattr(Runner, "run", broken)
    async with on_shift(wired, line, slots=1) as shift:
        await until_it_is(job.astatus, State.RETRYING)
        monkeypatch.setattr(Runner, "run", run)
        assert not shift.running
        again = await handlers.waits.aenqueue()
        await until(lambda: handlers.running == {again.id})
    assert "a bug in the runner" in caplog.text
    assert (await job.arecord()).errors[0].type == "RuntimeError"
    gc.collect()  # no task may be left with an exception that nobody has seen


async def test_a_failure_hook_that_hangs_does_not_keep_the_slot(
    wired: Windlass, line: Line, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """[K9] After a timeout nobody watches the run any more, so the hook has a limit of its own."""
    monkeypatch.setattr("windlass.hooks.HOOK_TIME", 0.05)

    @wired.on_failure
    async def hangs(ctx: Context, error: BaseException, outcome: object) -> None:
        await asyncio.Event().wait()

    @wired.task(timeout="20ms", retry=Retry(1))
    async def fails() -> None:
        await asyncio.Event().wait()

    job = await fails.aenqueue()
    async with on_shift(wired, line, slots=1) as shift:
        await until_it_is(job.astatus, State.DEAD)
        assert not shift.running
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
    async with on_shift(wired, line) as shift:
        await started.wait()
        await line.retire(shift.worker)
        proceed.set()
        await until(lambda: not shift.running)
        await until(lambda: shift.log.refused == 3)
    assert seen == ["refused", "refused"]
    record = await job.arecord()
    assert (record.checkpoint, record.state) == (None, State.READY)


async def test_warm_is_said_once_for_a_queue_that_went_well(
    wired: Windlass, line: Line, handlers: Handlers
) -> None:
    """[O3] Only for queues with throttles, not while they cool, and only after a success."""
    async with on_shift(wired, line, throttles=2) as shift:
        await shift.warm()
        assert line.calls["warm"] == 0
        await handlers.quick.aenqueue()
        await until(lambda: handlers.runs and shift.settled)
        await shift.warm()
        await shift.warm()
        assert line.calls["warm"] == 1
        await handlers.quick.aenqueue()
        await until(lambda: len(handlers.runs) == 2 and shift.settled)
        shift.view = View(shift.view.slots, {"default": QueueRecord(name="default", throttles=2, cooling=5)})
        await shift.warm()
        assert line.calls["warm"] == 1


async def test_outcomes_end_slots_before_they_are_written(wired: Windlass, line: Line) -> None:
    """A flush that takes its time holds up no slot, and `settled` waits for it."""
    proceed = asyncio.Event()

    async def slow(*_: Any) -> None:
        await proceed.wait()

    line.before["finish"] = slow
    async with on_shift(wired, line, slots=1) as shift:
        await wired.aenqueue("windlass.echo", 1)
        await wired.aenqueue("windlass.echo", 2)
        await until(lambda: len(shift.log.unwritten) == 2)
        assert not shift.settled
        proceed.set()
        await until(lambda: shift.settled)
    assert shift.log.written == 2
