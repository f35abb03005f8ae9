"""Time limits of jobs that run: async handlers, threads and processes, beside cancels and the end of a
worker."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Unpack

import psutil
import pytest

from tests.stopwatch import Stopwatch
from tests.worker.handlers import process_tasks
from tests.worker.handlers.process_groups import until_gone, written
from tests.worker.line import Line, until, until_it_is
from tests.worker.worker_sessions import Handlers, on_session
from windlass import Context, Retry, State, Windlass
from windlass.tasks.task import SyncTask, TaskOptions


async def test_a_timeout_ends_an_async_handler(
    wired: Windlass, line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    """[C6] [O4] It counts as a failed attempt, with where it stood."""

    @wired.task(timeout="50ms", retry=Retry(1))
    async def hangs() -> None:
        await asyncio.Event().wait()

    job = await hangs.aenqueue()
    async with on_session(wired, line):
        await until_it_is(job.astatus, State.DEAD)
    (failure,) = (await job.arecord()).errors
    assert (failure.type, failure.message) == ("TimeoutError", "ran longer than its timeout of 0.05 s")
    assert "in hangs" in failure.traceback
    assert "in hangs" in caplog.text


async def test_a_timeout_gives_up_on_a_thread(
    wired: Windlass, line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    """[C6] A thread cannot be stopped: its slot comes back, its stack is in the log, and it is counted."""
    proceed, found = threading.Event(), threading.Event()

    @wired.task(timeout="50ms", retry=Retry(1))
    def hangs_in_a_thread(ctx: Context) -> None:
        proceed.wait(30)
        if ctx.cancelled:
            found.set()

    try:
        job = await hangs_in_a_thread.aenqueue()
        async with on_session(wired, line, slots=1) as session:
            await until_it_is(job.astatus, State.DEAD)
            assert session.slots.abandoned == 1
            echo = await wired.aenqueue("windlass.echo", 1)
            assert await echo.aresult("10s") == 1  # the one slot is free
        assert "hangs_in_a_thread" in caplog.text
        assert "proceed.wait(30)" in caplog.text
    finally:
        proceed.set()
    assert found.wait(10)


async def test_a_timeout_kills_a_process(wired: Windlass, line: Line, tmp_path: Path) -> None:
    """[C6] [K8] With all that it has started, and it is not counted as left behind."""
    message = tmp_path / "told"
    hang = wired.named(process_tasks.hang.name).using(timeout="1h", max_attempts=1)
    job = await hang.aenqueue(str(message))
    async with on_session(process_tasks.app, line, slots=1) as session:
        leader = await written(message)
        (run,) = session.running
        session.slots._overdue(run)  # an hour has passed
        await until_it_is(job.astatus, State.DEAD)
        assert session.slots.abandoned == 0
    assert not psutil.pid_exists(leader)
    await until_gone(leader)
    assert (await job.arecord()).errors[0].type == "TimeoutError"


@contextmanager
def ignoring(
    app: Windlass, **options: Unpack[TaskOptions]
) -> Iterator[tuple[SyncTask[[], None], threading.Event]]:
    """A task whose thread ignores its cancel until the block ends, and the event of its start."""
    proceed, started = threading.Event(), threading.Event()

    @app.task(**options)
    def ignores() -> None:
        started.set()
        proceed.wait(30)

    try:
        yield ignores, started
    finally:
        proceed.set()


async def test_a_cancelled_thread_still_has_its_time_limit(wired: Windlass, line: Line) -> None:
    """[C6] [O5] One that ignores its cancel does not keep its slot for ever."""
    with ignoring(wired, timeout="200ms") as (ignores, started):
        job = await ignores.aenqueue()
        async with on_session(wired, line, slots=1) as session:
            await until(started.is_set)
            assert await job.acancel() == "requested"
            session.cancel({job.id})
            await until_it_is(job.astatus, State.CANCELLED)
            assert session.slots.abandoned == 1
            assert not session.running


async def test_a_cancelled_thread_does_not_hold_up_the_end(wired: Windlass, line: Line) -> None:
    """[K2] [O5] The worker gives up on it when it leaves, at once."""
    with ignoring(wired) as (ignores, started):
        job = await ignores.aenqueue()
        async with on_session(wired, line, slots=1) as session:
            await until(started.is_set)
            await job.acancel()
            session.cancel({job.id})
            watch = Stopwatch()
        assert watch.seconds() < 4
        assert await job.astatus() == State.CANCELLED


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
    async with on_session(wired, line):
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
    async with on_session(wired, line, safety_bound=0.05):
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
    async with on_session(wired, line) as session:
        await started.wait()
        await job.acancel()
        session.cancel({job.id})
        assert await job.aresult("10s") == "finished"
