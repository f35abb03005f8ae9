"""Handlers that end in ways nobody should write, and ends that come at a bad moment: each has one outcome."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.worker.line import Line, until_it_is
from tests.worker.worker_sessions import on_session
from windlass import Context, Retry, State, Windlass
from windlass.errors import StoreUnavailable
from windlass.store.records import Outcome


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit, SystemExit, asyncio.CancelledError])
@pytest.mark.parametrize("plain", [False, True])
async def test_o1_whatever_a_handler_raises_is_a_failed_attempt(
    wired: Windlass, line: Line, error: type[BaseException], plain: bool
) -> None:
    """A job that raises what is meant for programs must not end its worker, nor stay claimed."""

    async def on_loop() -> None:
        raise error

    def in_thread() -> None:
        raise error

    task = wired.task(name="odd", retry=Retry(1))(in_thread if plain else on_loop)
    async with on_session(wired, line):
        odd = await task.aenqueue()
        fine = await wired.aenqueue("windlass.echo", 1)
        assert await fine.aresult("10s") == 1
        await until_it_is(odd.astatus, State.DEAD)
        assert (await odd.arecord()).errors[-1].type.endswith(error.__name__)


async def test_a_run_whose_time_passed_before_its_first_step_is_handed_back(
    wired: Windlass, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another handler blocked the loop: that is not this job's fault, and it must not stay claimed."""
    job = await wired.aenqueue("windlass.echo", 1)
    async with on_session(wired, line, slots=1) as session:
        start = session.slots._start

        def start_too_late(claimed: Any) -> None:
            start(claimed)
            (run,) = session.running
            session.slots._overdue(run)
            monkeypatch.undo()

        monkeypatch.setattr(session.slots, "_start", start_too_late)
        assert await job.aresult("10s") == 1
    assert (await job.arecord()).attempt == 1


async def test_raising_after_the_jobs_own_transaction_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The job has succeeded: no word of a next try, and no failure hook."""
    failures: list[Outcome] = []
    with Windlass(f"sqlite:///{tmp_path.as_posix()}/jobs.db") as app:

        @app.task(name="late")
        async def late(ctx: Context) -> Any:
            async with ctx.transaction():
                ctx.result = 5
            raise ValueError("after the block")

        @app.on_failure
        def note(ctx: Context, error: BaseException, outcome: Outcome) -> None:
            failures.append(outcome)

        async with app.worker(["default"]):
            assert await (await late.aenqueue()).aresult("10s") == 5
    assert failures == []
    assert "after it had ended in its own transaction" in caplog.text
    assert "next try" not in caplog.text


async def test_a_checkpoint_waits_for_a_store_that_is_away_for_a_moment(wired: Windlass, line: Line) -> None:
    """[C9] An outage shorter than the lease costs a job that saves its progress no attempt."""

    @wired.task(name="saves", retry=Retry(1))
    async def saves(ctx: Context) -> Any:
        line.fail("checkpoint", *[StoreUnavailable("away")] * 3)
        await ctx.asave({"at": 7})
        return await ctx.asaved()

    async with on_session(wired, line):
        assert await (await saves.aenqueue()).aresult("10s") == {"at": 7}
