"""The chunked tasks that `windlass bench chunks` runs: they ask for the records of each batch and say that it
is done.

They belong to the app of `windlass.bench.jobs` and go to its queue; the workers import this module besides.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import Any, Final

from windlass.bench.chunks_plan import ChunkPlan
from windlass.bench.jobs import NOTES, QUEUE, app
from windlass.checkpoints import Checkpoints
from windlass.chunks.ndjson import NDJSON
from windlass.chunks.parts import Part

CHUNK: Final = "WINDLASS_BENCH_CHUNK"
"""The variable that says how many bytes a part has."""

BATCH: Final = ChunkPlan().batch
_split: Final = NDJSON(int(os.environ.get(CHUNK, ChunkPlan().chunk)))


class Rarely(Checkpoints):
    """Checkpoints that are not written, but for one at the end: it tells how many records there were."""

    _newest: tuple[str, int | None, int | None] | None = None

    async def save(self, data: str, done: int | None, total: int | None, connection: Any = None) -> None:
        """Keep data in mind."""
        self._newest = data, done, total

    async def write(self) -> None:
        """Write what was kept last."""
        if self._newest is not None:
            await super().save(*self._newest)


@app.chunked(split=_split, queue=QUEUE, name="bench.load")
async def load(part: Part, path: str) -> None:
    """Parse, on the loop."""
    async for batch in part.batches(BATCH):
        for _ in batch:
            pass
        await batch.done()


@app.chunked(split=_split, queue=QUEUE, name="bench.load_in_thread")
def load_in_thread(part: Part, path: str) -> None:
    """Parse, in a thread."""
    for batch in part.batches(BATCH):
        for _ in batch:
            pass
        batch.done()


@app.chunked(split=_split, queue=QUEUE, name="bench.load_unsaved")
async def load_unsaved(part: Part, path: str) -> None:
    """The same as `load` in everything but the checkpoints."""
    part._checkpoints = kept = Rarely(part._job, part._port)
    async for batch in part.batches(BATCH):
        for _ in batch:
            pass
        await batch.done()
    await kept.write()


def peak_memory() -> int:
    """The most bytes of memory that this process ever had."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not ru_maxrss, in which Linux also counts the process that started this one.
        lines = status.read_text("ascii", "replace").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@app.on_stop
def note_peak() -> None:
    """Leave the figure where the benchmark finds it (`Crew.read_notes`)."""
    if folder := os.environ.get(NOTES):
        Path(folder, f"{os.getpid()}.waits").write_text(repr(float(peak_memory())), encoding="ascii")
