"""Plain handlers in their slots: what becomes of a call in a thread when its run is told to stop, and that
the loop has no task for it."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.stopwatch import Stopwatch
from tests.worker.line import Line, until, until_it_is
from tests.worker.worker_sessions import on_session
from windlass import Retry, State, Windlass
from windlass.tasks.task import SyncTask
from windlass.worker.handlers.run import Run, Why
from windlass.worker.handlers.runner import Runner
from windlass.worker.handlers.threads import Threads


class Held:
    """A task whose thread stands still until it may go on."""

    def __init__(self, app: Windlass) -> None:
        self.started, self.proceed = threading.Event(), threading.Event()

        @app.task(name="held", retry=Retry(1), timeout="1h")
        def held() -> str:
            self.started.set()
            self.proceed.wait(30)
            return "done"

        self.task: SyncTask[[], str] = held

    def has_returned(self, run: Run) -> None:
        """Let it return, and keep the loop from hearing of that."""
        assert run.call is not None
        self.proceed.set()
        watch = Stopwatch()
        while not run.call.ended:
            assert watch.seconds() < 10
            time.sleep(0.001)


@contextmanager
def holding(app: Windlass) -> Iterator[Held]:
    held = Held(app)
    try:
        yield held
    finally:
        held.proceed.set()


async def test_a_plain_handler_is_no_task_of_the_loop(wired: Windlass, line: Line) -> None:
    with holding(wired) as held:
        job = await held.task.aenqueue()
        async with on_session(wired, line) as session:
            await until(held.started.is_set)
            (run,) = session.running
            assert run.task is None
            assert run.call is not None
            held.proceed.set()
            assert await job.aresult("10s") == "done"
            assert run.task is run.call is None  # nor is there a cycle that keeps its values


async def test_c6_one_that_returned_as_its_time_ran_out_has_succeeded(wired: Windlass, line: Line) -> None:
    """[C6] Its answer was on its way: its thread is not left behind, and takes the next job."""
    with holding(wired) as held:
        job = await held.task.aenqueue()
        async with on_session(wired, line, slots=1) as session:
            await until(held.started.is_set)
            (run,) = session.running
            held.has_returned(run)
            session.slots._overdue(run)
            assert await job.aresult("10s") == "done"
            assert session.slots.abandoned == 0
            assert await (await held.task.aenqueue()).aresult("10s") == "done"


async def test_c5_one_that_returned_when_its_job_was_lost_is_refused(wired: Windlass, line: Line) -> None:
    """[C5] It is counted, and nothing is written."""
    with holding(wired) as held:
        job = await held.task.aenqueue()
        async with on_session(wired, line, slots=1) as session:
            await until(held.started.is_set)
            (run,) = session.running
            held.has_returned(run)
            session.slots.stop(run, Why.LOST)
            await until(lambda: not session.running)
            assert (session.log.refused, session.log.settled) == (1, True)
            assert await job.astatus() == State.RUNNING  # as far as the store knows


async def test_k2_one_that_returned_as_its_worker_left_has_succeeded(wired: Windlass, line: Line) -> None:
    """[K2] What was done is not done again."""
    with holding(wired) as held:
        job = await held.task.aenqueue()
        async with on_session(wired, line, slots=1) as session:
            await until(held.started.is_set)
            (run,) = session.running
            held.has_returned(run)
        assert await job.aresult("10s") == "done"


async def test_c6_one_that_waits_for_a_thread_for_too_long_is_never_begun(
    wired: Windlass, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[C6] No thread is left behind, and whoever comes after it in line is called."""
    with holding(wired) as held:
        job = await held.task.aenqueue()
        wake = Threads._wake
        monkeypatch.setattr(Threads, "_wake", lambda *_: None)
        async with on_session(wired, line, slots=1) as session:
            await until(lambda: session.running)
            (run,) = session.running
            session.slots._overdue(run)
            await until_it_is(job.astatus, State.DEAD)
            assert session.slots.abandoned == 0
            monkeypatch.setattr(Threads, "_wake", wake)
            assert not held.started.is_set()
            held.proceed.set()
            assert await (await held.task.aenqueue()).aresult("10s") == "done"
    assert (await job.arecord()).errors[0].type == "TimeoutError"


async def test_an_error_inside_the_worker_is_told_of_plain_runs_too(
    wired: Windlass, line: Line, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug of ours must not keep a job claimed for as long as the worker lives."""

    def broken(self: Runner, call: Any) -> Any:
        raise RuntimeError("a bug in the runner")

    monkeypatch.setattr(Runner, "returned", broken)
    with holding(wired) as held:
        held.proceed.set()
        job = await held.task.aenqueue()
        async with on_session(wired, line) as session:
            await until_it_is(job.astatus, State.DEAD)
            assert not session.running
    assert "a bug in the runner" in caplog.text
