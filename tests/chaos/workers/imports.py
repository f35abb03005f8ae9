"""An app that imports a file in parts into a table of the store's own database, and writes down where each
run began. Data and checkpoint commit together, so every record is in the table once or something is wrong."""

import asyncio
import os
from pathlib import Path
from typing import Any

from tests.chaos.workers.jobs import QUEUE, Run
from windlass import NDJSON, Context, Part, Retry, Windlass

app = Windlass()
PACE = "WINDLASS_TEST_PACE"
TABLE = "CREATE TABLE imported (id bigint, part bigint, fence bigint)"


async def insert(connection: Any, rows: list[tuple[int, int, int]]) -> None:
    """Into the table, on whichever driver's connection this is."""
    if hasattr(connection, "fetchrow"):
        await connection.executemany("INSERT INTO imported VALUES ($1, $2, $3)", rows)
    else:
        connection.executemany("INSERT INTO imported VALUES (?, ?, ?)", rows)


@app.chunked(name="load", queue=QUEUE, split=NDJSON(2000), retry=Retry(2, base=0), parallel=4, timeout="30s")
async def load(part: Part, path: str) -> None:
    """Import one part. A line that says poison fails it, until a file says that it is mended. A line that
    says held waits for as long as a file says so."""
    run = Run(part)
    saved = await part.asaved()
    run.note("start", f"{part.index} {saved['n'] if saved else 0}")
    mended = await asyncio.to_thread(Path(f"{path}.mended").exists)
    async for batch in part.batches(10):
        if not mended and any(each["poison"] for each in batch.records):
            run.note("failed", str(part.index))
            raise ValueError("poison")
        if any(each["held"] for each in batch.records):
            while os.access(f"{path}.held", os.F_OK):  # noqa: ASYNC110 - it is another process that removes it
                await asyncio.sleep(0.02)
        async with batch.transaction() as connection:
            await insert(connection, [(each["id"], part.index, part.fence) for each in batch.records])
        await asyncio.sleep(float(os.environ[PACE]))
    run.note("done", str(part.index))


@load.finalizer
async def final(ctx: Context, path: str) -> str:
    """Say that it ran, after long enough for a test to kill it."""
    run = Run(ctx)
    run.note("start", "final")
    await asyncio.sleep(0.3)
    run.note("final")
    return path
