"""The app under test: a job of three steps and a sleep, which kills its own process at the point that it is
told, once; and one whose steps are others after a deploy. What a step does is written down, and the step in
the middle works in a transaction of the store's own database."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any, Final

from tests.chaos.workers.jobs import LEDGER, QUEUE, Run, opened
from windlass import Context, Retry, Windlass

app = Windlass()
TABLE: Final = "CREATE TABLE paid (job bigint)"
RELEASE: Final = "WINDLASS_TEST_RELEASE"
POINTS: Final = (
    "before plan", "plan begins", "plan ends", "before pay", "pay ends", "before sleep", "before tell",
    "tell begins", "tell ends", "after tell",
)  # fmt: skip
"""Where a job can be killed. Between the end of a step's function and its row lies what "… ends" shows."""


@app.task(name="three", queue=QUEUE, retry=Retry(1))
async def three(ctx: Context, kill: str = "", sleep: float = 1.1) -> list[str]:
    """Three steps with a sleep before the last."""
    run = Run(ctx)

    def at(point: str) -> None:
        if point == kill:
            mark = Path(f"{os.environ[LEDGER]}.{ctx.id}")
            if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    async def plain(name: str) -> str:
        at(f"{name} begins")
        run.effect(name)
        at(f"{name} ends")
        return name

    async def pay(connection: Any) -> str:
        run.note("try", "pay")
        if hasattr(connection, "fetchrow"):
            await connection.execute("INSERT INTO paid VALUES ($1)", ctx.id)
        else:
            connection.execute("INSERT INTO paid VALUES (?)", (ctx.id,))
        at("pay ends")
        return "pay"

    run.note("start")
    at("before plan")
    plan = await ctx.step("plan", plain, "plan")
    at("before pay")
    paid: str = await ctx.step("pay", pay, transaction=True)
    at("before sleep")
    await ctx.sleep(sleep)
    at("before tell")
    told = await ctx.step("tell", plain, "tell")
    at("after tell")
    run.note("done")
    return [plan, paid, told]


async def price_in_euros(run: Run) -> int:
    """What a step was in the first release, and is in the second under another name."""
    run.effect("euros")
    return 1


async def price_in_cents(run: Run) -> int:
    """What took its place."""
    run.effect("cents")
    return 100


async def discount(run: Run) -> int:
    """A step of the first release alone."""
    run.effect("discount")
    return -1


async def tax(run: Run) -> int:
    """One of the second release alone, before or behind what was done."""
    run.effect("tax")
    return 19


@app.task(name="deployed", queue=QUEUE, retry=Retry(1))
async def deployed(ctx: Context, way: str) -> int:
    """A step, and a sleep over which a deploy comes."""
    run = Run(ctx)
    if os.environ[RELEASE] == "1":
        if way == "removed":
            await ctx.step("discount", discount, run)
        price = await ctx.step("price", price_in_euros, run)
    else:
        match way:
            case "added":
                price = await ctx.step("price", price_in_euros, run) + await ctx.step("tax", tax, run)
            case "reordered":
                price = await ctx.step("tax", tax, run) + await ctx.step("price", price_in_euros, run)
            case "removed":
                price = await ctx.step("price", price_in_euros, run)
            case "renamed":
                price = await ctx.step("cost", price_in_euros, run, was="price")
            case "accepted":
                price = await ctx.step(
                    "price", price_in_cents, run, accepts=(f"{__name__}.{price_in_euros.__qualname__}",)
                )
            case "another":
                price = await ctx.step("price in cents", price_in_cents, run)
            case _:
                price = await ctx.step("price", price_in_cents, run)
    run.note("priced")
    await ctx.sleep("2s")
    return price


LATE: Final = ("step", "transaction", "emit", "sleep", "wait")
"""What a run may try when its worker has lost its lease."""


@app.task(name="late", queue=QUEUE, retry=Retry(1))
async def late(ctx: Context, way: str, gate: str) -> str:
    """A step, and once the gate is open another write; what becomes of that is written down."""
    run = Run(ctx)

    async def plan() -> int:
        return ctx.fence

    async def act(connection: Any = None) -> int:
        if hasattr(connection, "fetchrow"):
            await connection.execute("INSERT INTO paid VALUES ($1)", ctx.id)
        elif connection is not None:
            connection.execute("INSERT INTO paid VALUES (?)", (ctx.id,))
        return ctx.fence

    await ctx.step("plan", plan)
    await ctx.emit("planned")
    run.note("start")
    await opened(gate)
    try:
        match way:
            case "step":
                await ctx.step("act", act)
            case "transaction":
                await ctx.step("act", act, transaction=True)
            case "emit":
                while True:  # it is refused when it is written, and so is whatever comes after that
                    await ctx.emit("acted")
                    if ctx.deaths:
                        break
                    await asyncio.sleep(0.02)
            case "sleep":
                await ctx.sleep("1h")
            case _:
                await ctx.wait("go", timeout="1h")
    except (Exception, asyncio.CancelledError) as error:
        run.note("refused", type(error).__name__)
        raise
    return way


SIGNALS: Final = 4


@app.task(name="hears", queue=QUEUE, retry=Retry(1))
async def hears(ctx: Context) -> list[Any]:
    """One signal after the other."""
    run = Run(ctx)
    run.note("start")
    heard: list[Any] = []
    for _ in range(SIGNALS):
        heard.append(await ctx.wait("go", timeout="1h"))
        run.effect(str(heard[-1]))
    return heard
