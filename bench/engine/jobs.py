"""The app whose jobs the workers of the engine's benchmarks run: one handler that does nothing."""

from __future__ import annotations

from typing import Final

from windlass.app import Windlass

QUEUE: Final = "bench"
TASK: Final = "bench.nothing"

app = Windlass()


@app.task(queue=QUEUE, name=TASK)
async def nothing(n: str, text: str) -> None:
    """Nothing, on the loop."""
