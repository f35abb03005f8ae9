"""Jobs with steps and waits in `app.testing()`, where the clock stands still: what was done is not done again
[W1] [W2]."""

from collections import Counter
from typing import Any

import pytest

from windlass import Context, Retry, Windlass
from windlass.errors import WaitTimedOut

RAN: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    RAN.clear()


def count(name: str) -> int:
    RAN[name] += 1
    return RAN[name]


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("keys", [{}, {"fair_key": "f"}, {"concurrency_key": "c"}, {"unique": "u"}])
def test_w2_a_signal_does_not_run_the_steps_before_it_again(keys: dict[str, Any], inline: bool) -> None:
    app = Windlass()

    @app.task
    async def buy(ctx: Context) -> list[Any]:
        first = await ctx.step("first", count, "first")
        answer = await ctx.wait("approved", timeout="7d")
        second = await ctx.step("second", count, "second")
        return [first, answer, second, await ctx.wait("shipped")]

    with app.testing(inline=inline) as kit:
        job = buy.using(**keys).enqueue()
        kit.drain()
        assert job.signal("approved", "yes") == "delivered"
        kit.drain()
        assert job.signal("shipped", 7) == "delivered"
        kit.drain()
        assert job.result() == [1, "yes", 1, 7]
    assert RAN == {"first": 1, "second": 1}


def test_w2_a_signal_that_came_before_its_wait(jobs_app: Windlass) -> None:
    with jobs_app.testing() as kit:
        job = jobs_app.named("plain").enqueue()
        job.signal("go", 1)
        kit.drain()
        assert job.result() == 1
    assert RAN == {"plain": 1}


def test_w1_an_operators_retry_keeps_steps_while_the_clock_stands_still(jobs_app: Windlass) -> None:
    with jobs_app.testing() as kit:
        job = jobs_app.named("fails").enqueue()
        kit.drain(raises=False)
        assert job.status() == "dead"
        job.retry()
        kit.drain()
        assert job.result() == 1
    assert RAN == {"charge": 1, "fails": 2}


@pytest.mark.parametrize("task", ["plain", "async"])
def test_w2_a_wait_that_times_out_keeps_the_steps_before_it(jobs_app: Windlass, task: str) -> None:
    """And ends, though the clock stands still in each run, a moment before the wait is over."""
    with jobs_app.testing() as kit:
        job = jobs_app.named(task).enqueue()
        kit.drain(advance="3d", raises=False)
        assert job.status() == "dead"
    assert {task: 1} == RAN


def test_w2_a_short_wait_does_not_hold_up_a_drain(jobs_app: Windlass) -> None:
    """It is waited for in place once, and then by the clock of the test."""
    with jobs_app.testing() as kit:
        job = jobs_app.named("short").enqueue()
        assert [each.id for each in kit.drain().waiting] == [job.id]
        kit.drain(advance=True)
        assert job.result() == "late"


@pytest.fixture
def jobs_app() -> Windlass:
    app = Windlass()

    @app.task(name="plain")
    def plain(ctx: Context) -> Any:
        ctx.blocking.step("once", count, "plain")
        return ctx.blocking.wait("go", timeout="2d")

    @app.task(name="async")
    async def waits(ctx: Context) -> Any:
        await ctx.step("once", count, "async")
        return await ctx.wait("go", timeout="2d")

    @app.task(name="short")
    async def short(ctx: Context) -> str:
        with pytest.raises(WaitTimedOut):
            await ctx.wait("go", timeout="50ms")
        return "late"

    @app.task(name="fails", retry=Retry(1))
    async def fails(ctx: Context) -> int:
        charged: int = await ctx.step("charge", count, "charge")
        if count("fails") == 1:
            raise OSError
        return charged

    return app
