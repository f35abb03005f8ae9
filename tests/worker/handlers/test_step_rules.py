"""What holds for steps and sleeps at their edges: side by side, renamed, inside each other, in transactions
and in batches [W1] [W2]."""

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from windlass import Context, Retry, Windlass, current_context
from windlass.errors import ConfigurationError, JobFailed

pytestmark = pytest.mark.usefixtures("often")


async def test_w1_a_step_renamed_in_a_loop_keeps_its_numbers(app: Windlass) -> None:
    async def price(n: int) -> int:
        return n

    @app.task(retry=Retry(2, base=0))
    async def work(ctx: Context) -> list[int]:
        if ctx.attempt == 1:
            for n in range(3):
                await ctx.step("price", price, n)
            raise OSError("a deploy comes between")
        return [await ctx.step("cost", price, 10 + n, was="price") for n in range(4)]

    await app.amigrate()
    job = await work.aenqueue()
    async with app.worker({"default": 1}):
        assert await job.aresult("10s") == [0, 1, 2, 13]


async def test_w1_a_step_has_no_steps_of_its_own(any_app: Windlass) -> None:
    """They would shift the numbers of those behind it once it is not run again."""

    @any_app.task(retry=Retry(1))
    async def work(ctx: Context, within: str) -> None:
        async def inner() -> None:
            await (ctx.sleep("1h") if within == "sleep" else ctx.step("x", one))

        await ctx.step("outer", inner)

    @any_app.task(retry=Retry(1))
    def plain(ctx: Context) -> None:
        ctx.blocking.step("outer", lambda: ctx.blocking.step("x", one))

    def one() -> int:
        return 1

    await any_app.amigrate()
    jobs = [await work.aenqueue("sleep"), await work.aenqueue("step"), await plain.aenqueue()]
    async with any_app.worker({"default": 1}):
        for job in jobs:
            with pytest.raises(JobFailed, match="inside of step 'outer'"):
                await job.aresult("10s")


@pytest.mark.parametrize("method", ["step", "sleep", "sleep_until", "wait", "emit"])
async def test_w2_a_plain_handler_that_cannot_await_is_told_as_it_calls(app: Windlass, method: str) -> None:
    """Else it gets a coroutine and goes on: a wait for an approval would be over, and true, at once."""
    given: dict[str, tuple[Any, ...]] = {
        "step": ("a", Counter), "sleep": ("1h",), "sleep_until": (datetime.now(UTC),), "wait": ("yes",),
        "emit": ("text",),
    }  # fmt: skip

    @app.task(retry=Retry(1))
    def plain(ctx: Context) -> str:
        return "yes" if getattr(ctx, method)(*given[method]) else "no"

    @app.task(retry=Retry(1))
    async def awaiting(ctx: Context) -> None:
        getattr(ctx.blocking, method)(*given[method])

    await app.amigrate()
    job, other = await plain.aenqueue(), await awaiting.aenqueue()
    async with app.worker({"default": 1}):
        with pytest.raises(JobFailed, match=rf"a plain one writes ctx\.blocking\.{method}\("):
            await job.aresult("10s")
        if method != "emit":  # which waits for the store alone, and only where that is slow
            name = method.removesuffix("_until")
            with pytest.raises(JobFailed, match=rf"ctx\.blocking\.{name}\(.*; await ctx\.{name}\("):
                await other.aresult("10s")


@pytest.mark.parametrize("moment", ["tomorrow", datetime(2030, 1, 1)])  # noqa: DTZ001
async def test_w2_a_moment_to_sleep_until_is_a_datetime_with_a_zone(app: Windlass, moment: Any) -> None:
    @app.task(retry=Retry(1))
    async def work(ctx: Context) -> None:
        await ctx.sleep_until(moment)

    @app.task(retry=Retry(1))
    def plain(ctx: Context) -> None:
        ctx.blocking.sleep_until(moment)

    await app.amigrate()
    jobs = [await work.aenqueue(), await plain.aenqueue()]
    async with app.worker({"default": 1}):
        for job in jobs:
            with pytest.raises(JobFailed, match="write a datetime with a time zone"):
                await job.aresult("10s")


async def test_w1_a_step_is_tried_again_only_for_errors_that_its_policy_names(app: Windlass) -> None:
    tries: list[str] = []

    async def flaky(error: str) -> None:
        tries.append(error)
        raise {"ValueError": ValueError, "OSError": OSError}[error](error)

    @app.task(retry=Retry(1))
    async def work(ctx: Context, error: str) -> None:
        await ctx.step("flaky", flaky, error, retry=Retry(3, base=0, never=ValueError))

    await app.amigrate()
    jobs = [await work.aenqueue("OSError"), await work.aenqueue("ValueError")]
    async with app.worker({"default": 1}):
        for job in jobs:
            with pytest.raises(JobFailed):
                await job.aresult("10s")
    assert tries == ["OSError", "OSError", "OSError", "ValueError"]


async def test_w1_a_step_that_became_a_sleep_is_refused_and_the_other_way_round(app: Windlass) -> None:
    async def one() -> int:
        return 1

    @app.task(retry=Retry(2, base=0))
    async def work(ctx: Context, first: str) -> None:
        if (ctx.attempt == 1) == (first == "step"):
            await ctx.step("sleep", one)
        else:
            await ctx.sleep(0.01)
        raise OSError("a deploy comes between")

    await app.amigrate()
    jobs = [await work.aenqueue("step"), await work.aenqueue("sleep")]
    async with app.worker({"default": 1}):
        for job in jobs:
            with pytest.raises(JobFailed, match=r"was a sleep|was a step"):
                await job.aresult("10s")


@pytest.mark.slow
@pytest.mark.parametrize("way", ["gather", "group"])
async def test_w2_a_sleep_lets_the_steps_beside_it_end(any_app: Windlass, way: str) -> None:
    """None of them is cut off; the job goes on when the first of its sleeps is over."""
    ran: Counter[str] = Counter()

    async def slow(name: str) -> str:
        ran[name] += 1
        await asyncio.sleep(0.2)
        return name

    @any_app.task
    async def work(ctx: Context) -> str:
        async def two() -> None:
            await asyncio.gather(ctx.step("a", slow, "a"), ctx.step("b", slow, "b"))
            await ctx.step("c", slow, "c")

        ran["runs"] += 1
        both = (ctx.sleep("3s"), two(), ctx.sleep("1.5s"))
        if way == "gather":
            await asyncio.gather(*both)
        else:
            async with asyncio.TaskGroup() as group:
                for each in both:
                    group.create_task(each)
        return "done"

    await any_app.amigrate()
    job = await work.aenqueue()
    async with any_app.worker({"default": 1}):
        assert await job.aresult("20s") == "done"
    assert ran["a"] == ran["b"] == ran["c"] == 1
    assert ran["runs"] >= 2
    assert (await job.arecord()).attempt == 1


async def test_w2_a_failure_beside_a_sleep_fails_the_attempt(app: Windlass) -> None:
    @app.task(retry=Retry(1))
    async def work(ctx: Context) -> None:
        async def bad() -> None:
            raise ValueError("bad")

        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.sleep("1h"))
            group.create_task(ctx.step("bad", bad))

    await app.amigrate()
    job = await work.aenqueue()
    async with app.worker({"default": 1}):
        with pytest.raises(JobFailed, match="TaskGroup"):
            await job.aresult("10s")


async def test_w1_what_a_failed_handler_left_running_begins_no_step(app: Windlass) -> None:
    """The next attempt runs beside it."""
    ran: list[int] = []
    go_on, told = asyncio.Event(), asyncio.Event()

    async def step(n: int) -> None:
        ran.append(n)

    @app.task(retry=Retry(2, base=0))
    async def work(ctx: Context) -> None:
        async def late() -> None:
            await go_on.wait()
            try:
                await ctx.step("late", step, 1)
            finally:
                told.set()

        if ctx.attempt == 1:
            await asyncio.gather(late(), ctx.step("fails", asyncio.wait_for, asyncio.Event().wait(), 0.01))
        go_on.set()
        await told.wait()

    await app.amigrate()
    job = await work.aenqueue()
    async with app.worker({"default": 1}):
        await job.aresult("10s")
    assert ran == []


async def test_w1_a_batch_has_no_steps(app: Windlass) -> None:
    @app.task(batch=5, retry=Retry(1))
    async def work(items: list[int]) -> None:
        await current_context().step("x", asyncio.sleep, 0)

    await app.amigrate()
    job = await work.aenqueue(1)
    async with app.worker({"default": 1}):
        with pytest.raises(JobFailed, match="many jobs in one call"):
            await job.aresult("10s")


async def test_w1_a_step_with_a_transaction_has_a_retry_and_a_timeout_too(url: str) -> None:
    """What a failed try has written is rolled back, and a step cannot save or step inside."""
    if ":memory:" in url:
        pytest.skip("a store in memory has no transactions to join")
    with Windlass(url) as app:
        tries: list[str] = []

        async def charge(connection: Any, ctx: Context) -> int:
            await _executed(connection, "INSERT INTO charged VALUES (1)")
            tries.append("try")
            if len(tries) == 1:
                raise OSError("not yet")
            if len(tries) == 2:
                await asyncio.Event().wait()
            for call in (ctx.asave(1), ctx.step("inner", charge, connection, ctx), ctx.sleep("1h")):
                with pytest.raises((ConfigurationError, RuntimeError), match=r"of a step|inside of step"):
                    await call
            return len(tries)

        @app.task(retry=Retry(1))
        async def pay(ctx: Context) -> int:
            return await ctx.step(
                "charge", charge, ctx, transaction=True, retry=Retry(3, base=0), timeout="300ms"
            )

        @app.task(retry=Retry(1))
        async def count(ctx: Context, make: bool) -> Any:
            async with ctx.transaction() as connection:
                with pytest.raises(RuntimeError, match="ends with its transaction"):
                    await ctx.step("in it", charge, connection, ctx)
                if make:
                    await _executed(connection, "CREATE TABLE charged (sum int)")
                else:
                    found = await _executed(connection, "SELECT count(*) AS n FROM charged")
                    ctx.result = found[0][0]

        await app.amigrate()
        async with app.worker({"default": 1}):
            await (await count.aenqueue(True)).aresult("10s")
            assert await (await pay.aenqueue()).aresult("20s") == 3
            assert await (await count.aenqueue(False)).aresult("10s") == 1


async def _executed(connection: Any, sql: str) -> Any:
    if hasattr(connection, "fetch"):
        return await connection.fetch(sql)
    return list(connection.execute(sql))
