"""Handlers that forget an await, or catch what ends their run: neither passes for an answer [W1] [W2]."""

import asyncio
import warnings
from typing import Any

import pytest

from tests.stopwatch import within
from windlass import Context, Retry, Windlass
from windlass.errors import JobFailed

pytestmark = pytest.mark.usefixtures("often")


@pytest.mark.parametrize("method", ["step", "sleep", "wait", "emit"])
async def test_w2_a_call_that_nobody_awaits_ends_the_job_dead(app: Windlass, method: str) -> None:
    """Else an approval that was never asked for would be as good as given."""
    given: dict[str, Any] = {"step": ("a", dict), "sleep": ("1h",), "wait": ("yes",), "emit": ("text",)}

    @app.task(retry=Retry(3, base=0))
    async def hasty(ctx: Context) -> str:
        await ctx.step("first", dict)
        getattr(ctx, method)(*given[method])
        await ctx.emit("between")
        return "approved"

    await app.amigrate()
    job = await hasty.aenqueue()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the error says it: Python need not
        async with app.worker({"default": 1}):
            with pytest.raises(JobFailed, match=rf"write `await ctx\.{method}\(…\)`"):
                await job.aresult("10s")
    assert (await job.arecord()).attempt == 1


async def test_w2_what_a_task_of_the_loop_awaits_is_not_forgotten(app: Windlass) -> None:
    @app.task(retry=Retry(1))
    async def patient(ctx: Context) -> int:
        started = asyncio.create_task(ctx.emit("by itself"))
        dropped: asyncio.Task[Any] = asyncio.create_task(ctx.step("never", dict))
        dropped.cancel()
        await asyncio.gather(*(ctx.emit(number) for number in range(3)), dropped, return_exceptions=True)
        await started
        late.append(asyncio.create_task(ctx.emit("begun as the handler returns")))
        return 1

    late: list[asyncio.Task[None]] = []
    await app.amigrate()
    job = await patient.aenqueue()
    async with app.worker({"default": 1}):
        assert await job.aresult("10s") == 1


@pytest.mark.parametrize("way", ["async", "gather", "plain"])
async def test_w2_a_wait_that_was_caught_goes_on_all_the_same(any_app: Windlass, way: str) -> None:
    """`except BaseException`, or gather with return_exceptions, around a wait: the run ends there anyway."""

    @any_app.task(retry=Retry(1))
    async def caught(ctx: Context) -> Any:
        try:
            return await ctx.wait("yes", type=str)
        except BaseException:  # noqa: BLE001 - what is tested
            return "caught"

    @any_app.task(retry=Retry(1))
    async def gathered(ctx: Context) -> Any:
        return (await asyncio.gather(ctx.wait("yes", type=str), return_exceptions=True))[0]

    @any_app.task(retry=Retry(1))
    def plain(ctx: Context) -> Any:
        try:
            return ctx.blocking.wait("yes", type=str)
        except BaseException:  # noqa: BLE001 - what is tested
            return "caught"

    task = {"async": caught, "gather": gathered, "plain": plain}[way]
    await any_app.amigrate()
    job = await task.aenqueue()
    async with any_app.worker({"default": 1}):
        async with within(10):
            while await job.astatus() != "scheduled":  # noqa: ASYNC110 - no event says so
                await asyncio.sleep(0.01)
        assert await job.asignal("yes", "indeed") == "delivered"
        assert await job.aresult("10s") == "indeed"


@pytest.mark.parametrize("what", ["wait", "step"])
async def test_w1_a_type_that_cannot_be_read_is_refused_before_anything_is_asked(
    app: Windlass, what: str
) -> None:
    """And not when the human has answered, or the model was paid."""
    ran: list[str] = []

    async def plan() -> str:
        ran.append("plan")
        return "plan"

    @app.task(retry=Retry(1))
    async def work(ctx: Context) -> Any:
        if what == "wait":
            return await ctx.wait("approved", type="Approval")  # type: ignore[call-overload]
        return await ctx.step("plan", plan, type="Plan")

    await app.amigrate()
    job = await work.aenqueue()
    async with app.worker({"default": 1}):
        with pytest.raises(JobFailed, match=r"cannot be read from JSON"):
            await job.aresult("10s")
    assert ran == []


async def test_w1_a_step_without_a_name_is_told_how_it_is_written(app: Windlass) -> None:
    @app.task(retry=Retry(1))
    async def work(ctx: Context) -> Any:
        return await ctx.step(dict, dict)  # type: ignore[call-overload]

    await app.amigrate()
    job = await work.aenqueue()
    async with app.worker({"default": 1}):
        with pytest.raises(JobFailed, match="cannot be the name of a step"):
            await job.aresult("10s")
