"""The app of the demo, as its workers load it: `windlass worker windlass.demo.app:app -q imports=3 -p 3`.

It is what one would write: a chunked task whose batches commit together with their checkpoints, so that each
record counts exactly once, whatever is killed when.
"""

from __future__ import annotations

import asyncio
import os
from typing import Final

from windlass import NDJSON, Part, Windlass
from windlass.demo.data import Record
from windlass.demo.table import Row, insert

QUEUE: Final = "imports"
CHUNK: Final = "WINDLASS_DEMO_CHUNK"
"""The environment variable that says how large a part is; the play sets it for its workers."""

app: Final = Windlass()


@app.chunked(
    name="demo.load",
    queue=QUEUE,
    split=NDJSON(os.environ.get(CHUNK, "24MiB"), type=Record),
    parallel=4,  # one for each worker, and one to go on with
)
async def load(part: Part, path: str, batch: int, pause: float = 0.0) -> None:
    """Import one part of the file. `pause` stretches a small import, so that there is something to see."""
    process = os.getpid()
    async for each in part.batches(batch):
        rows: list[Row] = [
            (record.id, part.index, process, record.customer, record.amount, record.at, record.note)
            for record in each.records
        ]
        async with each.transaction() as connection:
            await insert(connection, rows)
        if pause:
            await asyncio.sleep(pause)
