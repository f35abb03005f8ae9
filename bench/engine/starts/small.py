"""The app of the benchmark of starts: it imports nothing but Windlass. Its one task tells when it runs, and
stays until its process is killed; what runs again after that ends at once."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Final

from windlass.app import Windlass
from windlass.running.context import Context

QUEUE: Final = "starts"
TASK: Final = "starts.hold"
LEDGER: Final = "BENCH_STARTS_LEDGER"
"""The variable that names the file with a line for each run: the process, and when by the monotonic clock."""

app = Windlass()


@app.task(queue=QUEUE, name=TASK)
async def hold(ctx: Context) -> None:
    """Note the run, and stay."""
    _note(f"{os.getpid()} {time.monotonic()}\n")
    if ctx.deaths == 0:
        await asyncio.sleep(3600)


def _note(line: str) -> None:
    with Path(os.environ[LEDGER]).open("a", encoding="ascii") as ledger:
        ledger.write(line)
