"""An app whose jobs break the process they run in, so that it lives on and takes nothing."""

import asyncio
import time
from typing import Any

from tests.chaos.workers import jobs
from windlass.running.context import Context

app = jobs.app
_kept: list[asyncio.Task[None]] = []


@app.task(name="unresponsive.listener", queue=jobs.QUEUE)
async def break_the_listener(ctx: Context) -> None:
    """Waiting for a wake-up never ends, whatever it is told."""

    async def never(*_: Any) -> bool:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    ctx._port._store.wait = never  # type: ignore[attr-defined]


@app.task(name="unresponsive.pool", queue=jobs.QUEUE)
async def break_the_pool(ctx: Context) -> None:
    """Takes every connection, and lets go of none."""
    database = ctx._port._store._db  # type: ignore[attr-defined]

    async def hold() -> None:
        async with database.connection():
            await asyncio.Event().wait()

    _kept.extend(asyncio.create_task(hold()) for _ in range(database._pool_size))
    await asyncio.sleep(0.5)


@app.task(name="unresponsive.loop", queue=jobs.QUEUE)
async def break_the_loop(ctx: Context) -> None:
    """Something that is no job's blocks the loop, for ever."""

    def uncalled() -> None:
        time.sleep(3600)

    asyncio.get_running_loop().call_later(0.1, uncalled)


@app.task(name="blocks", queue=jobs.QUEUE)
async def blocks(ctx: Context, seconds: float) -> None:
    """Blocks the loop of its worker for a while: bad manners, but work."""
    with jobs.run(ctx) as written:
        time.sleep(seconds)  # noqa: ASYNC251 - that is the point
        written.effect()
