"""How much is imported, in what pieces and how often. Decided before the run."""

from __future__ import annotations

from typing import Any, Final

from bench.engine.plan import Plan, changed

MIB: Final = 1024 * 1024
PARTS: Final = 16
SLOWEST: Final = 20 * MIB
"""Bytes a second; an import that takes longer than this allows hangs."""


class ChunkPlan(Plan, frozen=True, kw_only=True):
    """The size of a run with chunked jobs."""

    size: int = 1024 * MIB
    """Bytes of the file, at most; it ends with a whole record."""

    rounds: int = 3
    budget: float = 3600.0
    judged_only: bool = False
    """Leave out what no aim is about, and import once where else it would be twice."""
    batch: int = 1000
    """Records a batch, each of which ends with a checkpoint."""

    @property
    def chunk(self) -> int:
        """Bytes of a part: 64 MiB where the file has 1 GiB, so that processes end at about the same time."""
        return -(-self.size // PARTS)

    @property
    def warm_up(self) -> int:
        """Bytes of the file that each process reads before the clock runs; it is one part."""
        return min(self.chunk, 16 * MIB)

    @property
    def patience(self) -> float:
        """Seconds after which an import is given up."""
        return 60.0 + self.size / SLOWEST

    def conditions(self) -> dict[str, Any]:
        """What the figures depend on, for the report."""
        return super().conditions() | {"part_bytes": self.chunk, "warm_up_bytes": self.warm_up}


def make_chunk_plan(*, quick: bool = False, size: int | None = None, rounds: int | None = None) -> ChunkPlan:
    """The default plan (1 GiB, about 6 minutes a store) or the quick one (512 MiB, one round), as the flags
    change it."""
    plan = ChunkPlan(size=512 * MIB, rounds=1, judged_only=True) if quick else ChunkPlan()
    return changed(plan, size=size, rounds=rounds)
