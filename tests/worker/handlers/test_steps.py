"""Steps and sleeps as handlers use them, on each kind of store [W1] [W2]."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from windlass import Context, Retry, Windlass
from windlass.errors import JobFailed

pytestmark = pytest.mark.usefixtures("often")


@dataclass
class Plan:
    """What a step returns."""

    parts: list[int]


async def test_w1_a_later_attempt_is_given_what_was_done(any_app: Windlass) -> None:
    """Typed, by steps of both kinds, side by side and in loops."""
    ran: Counter[str] = Counter()

    async def plan(n: int) -> Plan:
        ran["plan"] += 1
        return Plan(list(range(n)))

    def double(n: int) -> int:
        ran[f"double {n}"] += 1
        return 2 * n

    @any_app.task(retry=Retry(3, base=0))
    async def work(ctx: Context) -> list[int]:
        made = await ctx.step("plan", plan, 3)
        assert isinstance(made, Plan)
        side_by_side = await asyncio.gather(*(ctx.step("double", double, n) for n in made.parts))
        if ctx.attempt < 3:
            raise OSError("between steps")
        return side_by_side

    await any_app.amigrate()
    job = await work.aenqueue()
    async with any_app.worker({"default": 2}):
        assert await job.aresult("20s") == [0, 2, 4]
    assert ran == {"plan": 1, "double 0": 1, "double 1": 1, "double 2": 1}


async def test_w1_a_plain_handler_has_steps_and_sleeps_too(any_app: Windlass) -> None:
    ran: Counter[str] = Counter()

    def count(name: str) -> int:
        ran[name] += 1
        return ran[name]

    @any_app.task(retry=Retry(2, base=0))
    def work(ctx: Context) -> int:
        first = ctx.blocking.step("first", count, "first")
        ctx.blocking.sleep("1.1s")
        ran["runs"] += 1
        if ctx.attempt == 1:
            raise OSError("after the sleep")
        return first + ctx.blocking.step("second", count, "second")

    await any_app.amigrate()
    job = await work.aenqueue()
    async with any_app.worker({"default": 1}):
        assert await job.aresult("20s") == 2
    assert ran == {"first": 1, "second": 1, "runs": 2}


async def test_w1_a_step_is_tried_again_by_its_own_policy(app: Windlass) -> None:
    tries: list[int] = []

    async def flaky() -> str:
        tries.append(len(tries))
        if len(tries) < 3:
            raise OSError("not yet")
        return "done"

    @app.task
    async def work(ctx: Context) -> str:
        return await ctx.step("flaky", flaky, retry=Retry(3, base=0))

    await app.amigrate()
    job = await work.aenqueue()
    async with app.worker({"default": 1}):
        assert await job.aresult("10s") == "done"
    assert (await job.arecord()).attempt == 1
    assert len(tries) == 3


async def test_w1_a_step_that_takes_too_long_fails(app: Windlass) -> None:
    @app.task(retry=Retry(1))
    async def work(ctx: Context) -> None:
        await ctx.step("slow", asyncio.Event().wait, timeout="50ms")

    await app.amigrate()
    job = await work.aenqueue()
    async with app.worker({"default": 1}):
        with pytest.raises(JobFailed, match="TimeoutError"):
            await job.aresult("10s")


async def test_w1_the_result_of_other_code_is_refused_unless_it_is_named(app: Windlass) -> None:
    async def old() -> int:
        return 1

    async def new() -> int:
        return 2

    @app.task(retry=Retry(3, base=0))
    async def work(ctx: Context, rule: str) -> int:
        if ctx.attempt == 1:
            await ctx.step("price", old)
            raise OSError("a deploy comes between")
        match rule:
            case "accepts":
                return await ctx.step("price", new, accepts=[f"{__name__}.{old.__qualname__}"])
            case "renamed":
                return await ctx.step("cost", old, was="price")
            case "another name":
                return await ctx.step("price again", new)
        return await ctx.step("price", new)

    await app.amigrate()
    jobs = {rule: await work.aenqueue(rule) for rule in ("accepts", "renamed", "another name", "")}
    async with app.worker({"default": 1}):
        assert await jobs["accepts"].aresult("10s") == 1
        assert await jobs["renamed"].aresult("10s") == 1
        assert await jobs["another name"].aresult("10s") == 2
        with pytest.raises(JobFailed, match="StepChanged"):
            await jobs[""].aresult("10s")


async def test_w2_a_sleeping_job_holds_no_slot_and_no_attempt(any_app: Windlass) -> None:
    before = asyncio.Event()

    @any_app.task
    async def sleeper(ctx: Context) -> int:
        before.set()
        await ctx.sleep("1.2s")
        return ctx.attempt

    @any_app.task
    async def other() -> str:
        return "ran"

    await any_app.amigrate()
    job = await sleeper.aenqueue()
    async with any_app.worker({"default": 1}):
        await before.wait()
        assert await (await other.aenqueue()).aresult("10s") == "ran"
        assert await job.astatus() == "scheduled"
        assert await job.aresult("10s") == 1
    assert (await job.arecord()).errors == ()


async def test_w1_a_step_commits_with_the_data_it_wrote(url: str) -> None:
    """Once, and not at all where its function fails."""
    if ":memory:" in url:
        pytest.skip("a store in memory has no transactions to join")
    with Windlass(url) as app:

        async def charge(connection: Any, sum: int) -> int:
            written = connection.execute(f"INSERT INTO charged VALUES ({sum})")
            if asyncio.iscoroutine(written):
                await written
            return sum

        @app.task(retry=Retry(3, base=0))
        async def pay(ctx: Context) -> int:
            paid: int = await ctx.step("charge", charge, 5, transaction=True)
            if ctx.attempt < 3:
                raise OSError("after the charge")
            return paid

        @app.task
        async def prepare(ctx: Context) -> None:
            async with ctx.transaction() as connection:
                made = connection.execute("CREATE TABLE charged (sum int)")
                if asyncio.iscoroutine(made):
                    await made

        @app.task
        async def count(ctx: Context) -> Any:
            async with ctx.transaction() as connection:
                if hasattr(connection, "fetchval"):
                    ctx.result = await connection.fetchval("SELECT count(*) FROM charged")
                else:
                    ctx.result = connection.execute("SELECT count(*) FROM charged").get

        await app.amigrate()
        async with app.worker({"default": 1}):
            await (await prepare.aenqueue()).aresult("10s")
            assert await (await pay.aenqueue()).aresult("20s") == 5
            assert await (await count.aenqueue()).aresult("10s") == 1


async def test_w1_a_test_context_runs_steps_and_does_not_wait() -> None:
    async def one() -> int:
        return 1

    ctx = Context.for_test()
    assert await ctx.step("one", one) == 1
    await ctx.sleep("3d")
