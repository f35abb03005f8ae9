"""The app of the mixed load: one task for each thing that jobs can be held up by. Its handlers write into the
same ledger as those of `jobs`."""

import asyncio

from tests.chaos.workers.jobs import QUEUE, Run, run
from windlass import Context, Items, Part, Retry, Windlass

OTHER = "other"
BUDGET = "mixed"
PARTS = 6
app = Windlass()
app.budget(BUDGET, rate="200/s", burst=20)
often = Retry(1000, base=0.05, cap=0.2)
"""Kills and limits may cost a job any number of attempts; none of these may be dead of that."""


@app.task(name="mixed.plain", queue=QUEUE, retry=often)
async def plain(ctx: Context, seconds: float) -> None:
    """Waits and has its effect."""
    with run(ctx) as written:
        await asyncio.sleep(seconds)
        written.effect()


@app.task(name="mixed.flaky", queue=OTHER, retry=often)
async def flaky(ctx: Context, seconds: float) -> None:
    """The same, after a failure."""
    with run(ctx) as written:
        await asyncio.sleep(seconds)
        if ctx.attempt == 1:
            raise ValueError("the first attempt fails")
        written.effect()


@app.task(name="mixed.call", queue=OTHER, budgets=[BUDGET], retry=often)
async def call(ctx: Context, seconds: float) -> None:
    """Needs a token."""
    with run(ctx) as written:
        await asyncio.sleep(seconds)
        written.effect()


@app.chunked(name="mixed.split", queue=QUEUE, split=Items(range(PARTS * 2), 2), retry=often, parallel=2)
async def split(part: Part) -> None:
    """Has an effect for each part; which part says the note."""
    with run(part) as written:
        async for batch in part.batches(1):
            await asyncio.sleep(0.01)
            await batch.done()
        written.note("part", f"{part.parent} {part.index}")


@split.finalizer
async def final(ctx: Context) -> None:
    """Runs once all parts are through."""
    Run(ctx).note("final", str(ctx.parent))
