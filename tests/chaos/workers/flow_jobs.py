"""The app of the tests about budgets, limits and order: its handlers write down when they run, in the same
ledger as those of `jobs`."""

import asyncio

from tests.chaos.workers.jobs import QUEUE, run
from windlass import Context, Retry, Windlass

BUDGET = "calls"
RATE = 50
BURST = 10
app = Windlass()
app.budget(BUDGET, rate=f"{RATE}/s", burst=BURST)


@app.task(name="call", queue=QUEUE, budgets=[BUDGET], retry=Retry(5, base=0))
async def call(ctx: Context) -> None:
    """Has its effect at once: that it started is what its token was for."""
    with run(ctx) as written:
        written.effect()


@app.task(name="step", queue=QUEUE, ordering_key="line", retry=Retry(5, base=0))
async def step(ctx: Context, line: str, number: int, fails: bool, seconds: float = 0.005) -> None:
    """One step of a line; one that fails does so in its first attempt, before it has its effect."""
    with run(ctx) as written:
        await asyncio.sleep(seconds)
        if fails and ctx.attempt == 1:
            raise ValueError(f"step {number} of line {line} fails once")
        written.effect(f"{line} {number}")
        await asyncio.sleep(seconds)


@app.task(name="narrow", queue=QUEUE, concurrency_key="door", key_concurrency=2, retry=Retry(5, base=0))
async def narrow(ctx: Context, door: str, seconds: float) -> None:
    """One of at most two that are behind a door."""
    with run(ctx) as written:
        await asyncio.sleep(seconds)
        written.effect(door)
