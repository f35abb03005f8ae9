"""An app whose jobs take long, and write down who runs them."""

import asyncio

from tests.chaos.workers.jobs import QUEUE, Run
from windlass import Context, Items, Part, Windlass

app = Windlass()


@app.task(name="long", queue=QUEUE)
async def long(ctx: Context) -> None:
    """Take long."""
    Run(ctx).note("start", "")
    await asyncio.sleep(20)


def numbers(parts: int) -> range:
    """One for each part."""
    return range(parts)


@app.chunked(name="split", queue=QUEUE, split=Items(numbers, size=1))
async def split(part: Part, parts: int) -> None:
    """Take long, for each part."""
    Run(part).note("start", str(part.index))
    await asyncio.sleep(20)
