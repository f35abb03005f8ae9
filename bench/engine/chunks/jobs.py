"""The chunked tasks that are measured: they ask for the records of each batch and say that it is done.

They belong to the app of `bench.engine.jobs` and go to its queue; the workers import this module besides.
"""

from __future__ import annotations

import itertools
import os
import time
from typing import Any, Final

from bench.engine.chunks.plan import ChunkPlan
from bench.engine.jobs import QUEUE, app
from windlass.chunks.ndjson import NDJSON
from windlass.chunks.parts import Part
from windlass.running.checkpoints import Checkpoints
from windlass.running.context import Context

CHUNK: Final = "BENCH_CHUNK"
"""The variable that says how many bytes a part has."""

BLOCK: Final = "BENCH_BLOCK"
"""The variable that says after how many batches checkpoints are turned on or off."""

BATCH: Final = ChunkPlan().batch
_split: Final = NDJSON(int(os.environ.get(CHUNK, ChunkPlan().chunk)))


class Turns:
    """Blocks of batches with checkpoints and without, in turn, and how long each took: so what slows the
    machine for a while slows both."""

    def __init__(self, block: int) -> None:
        self._block = block
        self._done = 0
        self._marks: list[float] = []

    @property
    def saves(self) -> bool:
        """Whether the present block has checkpoints."""
        return self._done // self._block % 2 == 0

    def count(self) -> None:
        """A batch is through."""
        self._done += 1
        if self._done % self._block == 0:
            self._marks.append(time.perf_counter())

    def overheads(self) -> list[float]:
        """By how many percent each block with checkpoints took longer than its neighbours without."""
        took = [later - sooner for sooner, later in itertools.pairwise(self._marks)]
        # The first mark ends block 0, which had the start in it: took[0] is of block 1, without checkpoints.
        return [100 * (2 * took[n] / (took[n - 1] + took[n + 1]) - 1) for n in range(1, len(took) - 1, 2)]


class InTurns(Checkpoints):
    """Checkpoints that are written in every second block, and once at the end."""

    def __init__(self, part: Part, turns: Turns) -> None:
        super().__init__(part._job, part._port)
        self._turns = turns
        self._newest: tuple[str, int | None, int | None] | None = None

    async def save(self, data: str, done: int | None, total: int | None, connection: Any = None) -> None:
        """Write data, or keep it in mind."""
        self._newest = data, done, total
        if self._turns.saves:
            await super().save(data, done, total)
        self._turns.count()

    async def write(self) -> None:
        """Write what was kept last: it tells how many records there were."""
        if self._newest is not None:
            await super().save(*self._newest)


_turns: dict[int, Turns] = {}


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


@app.chunked(split=_split, queue=QUEUE, name="bench.load_in_turns")
async def load_in_turns(part: Part, path: str) -> None:
    """The same as `load`, with checkpoints in every second block. For one process."""
    turns = _turns.setdefault(part.parent, Turns(int(os.environ.get(BLOCK, "1"))))
    part._checkpoints = kept = InTurns(part, turns)
    async for batch in part.batches(BATCH):
        for _ in batch:
            pass
        await batch.done()
    await kept.write()


@load_in_turns.finalizer
async def overheads(ctx: Context, path: str) -> list[float]:
    """What the checkpoints took, block by block."""
    return _turns.pop(ctx.parent or 0).overheads()
