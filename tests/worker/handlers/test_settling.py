"""The end of a handler whose last progress is not written yet [P6]."""

import asyncio
from typing import Any

from tests.worker.line import Line
from windlass import Context, Windlass


async def test_p6_progress_that_cannot_be_written_does_not_hold_a_success_up(
    wired: Windlass, line: Line
) -> None:
    """Its time limit would make a failure of it, and its work would be done again."""
    runs: list[int] = []

    async def hang(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    @wired.task(name="imports.load", timeout=3)
    async def load(ctx: Context) -> str:
        runs.append(ctx.attempt)
        await ctx.aprogress(1, 10)
        line.before["checkpoint"] = hang
        await ctx.aprogress(2, 10)
        return "loaded"

    async with wired, wired.worker(["default"]):
        assert await (await load.aenqueue()).aresult("15s") == "loaded"
    assert runs == [1]
