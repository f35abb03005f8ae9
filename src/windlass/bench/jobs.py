"""The app whose jobs `windlass bench worker` runs: handlers that do nothing, and one that notes when it
began."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from windlass.app import Windlass

QUEUE: Final = "bench"
NOTES: Final = "WINDLASS_BENCH_NOTES"
"""The variable that names the directory for what the handlers note."""

app = Windlass()
_waits: list[float] = []


@app.task(queue=QUEUE, name="bench.on_loop")
async def on_loop(n: str, text: str) -> None:
    """Nothing, on the loop."""


@app.task(queue=QUEUE, name="bench.in_thread")
def in_thread(n: str, text: str) -> None:
    """Nothing, in a thread."""


@app.task(queue=QUEUE, name="bench.picked_up")
async def picked_up(sent: float) -> None:
    """Note how long ago the job was sent. The monotonic clock is the same in every process of a machine."""
    _waits.append(time.monotonic() - sent)


@app.on_stop
def write_notes() -> None:
    """Leave the notes where the benchmark finds them."""
    folder = os.environ.get(NOTES)
    if folder and _waits:
        Path(folder, f"{os.getpid()}.waits").write_text("\n".join(map(repr, _waits)), encoding="ascii")
