"""The app whose worker is measured. Its handlers count, and at the last run they write how long the runs
took, and how much processor time their process used meanwhile: nobody has to ask, and so to disturb."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from typing import Final

import msgspec

from bench.engine.jobs import QUEUE
from windlass.app import Windlass

FROM, TO, WHERE = "BENCH_FROM_RUN", "BENCH_TO_RUN", "BENCH_MEASURED"
"""The variables that say from which run to which it is measured, and in which file that is written."""

app = Windlass()
_next: Final = itertools.count(1).__next__
_from, _to = (int(os.environ.get(name, "0")) for name in (FROM, TO))
_began: list[tuple[float, float]] = []


class Measured(msgspec.Struct):
    """Seconds of the clock and of the processor, from the first run counted to the last."""

    seconds: float
    cpu: float


def _count() -> None:
    number = _next()
    if number == _from:
        _began.append((time.perf_counter(), time.process_time()))
    elif number == _to:
        ((clock, cpu),) = _began
        found = Measured(time.perf_counter() - clock, time.process_time() - cpu)
        path = Path(os.environ[WHERE])
        path.with_suffix(".new").write_bytes(msgspec.json.encode(found))
        path.with_suffix(".new").rename(path)  # whole, or not there


@app.task(queue=QUEUE, name="bench.async")
async def on_loop(n: int, text: str) -> None:
    """Nothing, on the loop."""
    _count()


@app.task(queue=QUEUE, name="bench.plain")
def in_thread(n: int, text: str) -> None:
    """Nothing, in a thread."""
    _count()
