"""`job.steps()` and `job.asteps()`: what a job has done [W1]."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from windlass import Context, Windlass
from windlass.contrib.encryption import Encrypted, new_key
from windlass.errors import JobNotFound


async def twice(n: int) -> list[int]:
    return [n, n]


async def test_steps_sleeps_and_waits_are_told_in_order(any_app: Windlass) -> None:
    @any_app.task
    async def work(ctx: Context) -> None:
        await ctx.step("twice", twice, 3)
        await ctx.wait("approved")
        await ctx.sleep("1h")

    job = await work.aenqueue()
    assert await job.asteps() == []
    await job.asignal("approved", {"by": "ada"})
    await any_app.arun_until_idle()
    step, wait, sleep = await job.asteps()
    assert (step.name, step.result, step.attempt, step.wakes_at) == ("twice", [3, 3], 1, None)
    assert step.code.endswith("test_steps.twice")
    assert (wait.name, wait.code, wait.result) == ("wait:approved", "signal", {"by": "ada"})
    assert (sleep.name, sleep.code, sleep.result) == ("sleep", "", None)
    assert step.at is not None
    assert sleep.wakes_at is not None
    assert step.at.tzinfo is sleep.wakes_at.tzinfo is UTC
    left = (sleep.wakes_at - datetime.now(UTC)).total_seconds()
    assert 0 < left <= 3600 + 60, "an hour from when it began, by the store's clock"


def test_its_plain_twin_and_a_job_that_is_not_there(any_app: Windlass) -> None:
    @any_app.task
    def work(ctx: Context) -> None:
        ctx.blocking.step("pair", lambda: [1, 1])

    job = work.enqueue()
    any_app.run_until_idle()
    assert [(step.name, step.result) for step in job.steps()] == [("pair", [1, 1])]
    with pytest.raises(JobNotFound):
        any_app.job(job.id + 5).steps()


@pytest.fixture
def sealed(tmp_path: Path) -> Iterator[Windlass]:
    with Windlass(f"sqlite:///{tmp_path}/jobs.db", codec=Encrypted(keys={"a": new_key()})) as app:
        yield app


def test_what_a_codec_sealed_is_opened_when_it_is_read(sealed: Windlass) -> None:
    @sealed.task
    async def work(ctx: Context) -> None:
        await ctx.step("twice", twice, 1)
        await ctx.wait("approved")

    job = work.enqueue()
    job.signal("approved", 7)
    sealed.run_until_idle()
    assert [step.result for step in sealed.job(job.id).steps()] == [[1, 1], 7]
