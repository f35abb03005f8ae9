"""What the passes over the file come to: rates, ratios, memory, what checkpoints cost. Nothing is measured
here."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

import msgspec

from bench.engine.chunks.plan import MIB, ChunkPlan
from bench.engine.figures import Figure, StoreReport, Where, at_least, at_most, figure
from bench.engine.rounds import notes

PLAIN: Final = "plain"
LABELS: Final = {
    PLAIN: "plain loop, msgspec",
    "plain_json": "plain loop, json",
    "one": "one process",
    "two": "two processes",
    "one_threads": "one process, in threads",
    "two_threads": "two processes, in threads",
}
GIB: Final = 1024 * MIB


def about(plan: dict[str, Any]) -> str:
    """What was done, in a sentence."""
    return (
        f"{plan['bytes'] / MIB:,.0f} MiB of NDJSON, {plan['records']:,} records of "
        f"{plan['bytes'] / plan['records']:.0f} bytes; parts of {plan['part_bytes'] / MIB:g} MiB; a "
        f"checkpoint every {plan['batch']:,} records; each record is parsed and dropped"
    )


class Pass(msgspec.Struct, frozen=True):
    """The whole file read once: seconds, and CPU seconds of all processes that worked on it."""

    seconds: float
    cpu: float


class Measured:
    """The passes of each scenario, round by round, and the peak memory of its processes."""

    def __init__(self, size: int) -> None:
        """`size` is that of the file in bytes."""
        self._size = size
        self._passes: dict[str, list[list[Pass]]] = defaultdict(list)
        self._memory: dict[str, list[float]] = defaultdict(list)
        self._ratios: dict[str, list[float]] = defaultdict(list)
        self.overheads: list[float] = []
        """What checkpoints added, in percent, block by block."""
        self.rounds = 0

    def note(self, name: str, passes: list[Pass], memory: list[float] | None = None) -> None:
        """What a scenario yielded in one round; `memory` is the peak of each process, in bytes."""
        self._passes[name].append(passes)
        if memory:
            self._memory[name].append(max(memory))

    def compare(self, name: str, passes: list[Pass], beside: list[Pass]) -> None:
        """Each pass stood between two plain loops: how many times as fast as these it was."""
        for number, each in enumerate(passes):
            before, after = beside[number : number + 2]
            self._ratios[name].append((before.seconds + after.seconds) / 2 / max(each.seconds, 1e-9))

    def rates(self) -> dict[str, Figure]:
        """How fast each scenario read the file."""
        return {name: figure(self._rates(name), "MiB/s") for name in self._passes}

    def ratios(self) -> dict[str, Figure]:
        """Each import ÷ the plain loops beside it."""
        return {f"{name}_vs_plain": figure(values, "×") for name, values in self._ratios.items()}

    def overhead(self) -> dict[str, Figure]:
        """What checkpoints add to the time, in percent."""
        return {"checkpoint_overhead": figure(self.overheads, "%")}

    def cpu(self) -> dict[str, Figure]:
        """CPU seconds for 1 GiB, supervisor and children together."""
        return {
            f"cpu_{name}": figure(
                [sum(each.cpu for each in passes) / len(passes) * GIB / self._size for passes in rounds],
                "s per GiB",
            )
            for name, rounds in self._passes.items()
        }

    def memory(self) -> dict[str, Figure]:
        """Of the largest process in each round."""
        return {
            f"memory_{name}": figure([peak / 1e6 for peak in peaks], "MB")
            for name, peaks in self._memory.items()
        }

    def _rates(self, name: str) -> list[float]:
        return [
            len(passes) * self._size / MIB / max(sum(each.seconds for each in passes), 1e-9)
            for passes in self._passes[name]
        ]


def report(
    measured: Measured,
    plan: ChunkPlan,
    where: Where,
) -> StoreReport:
    """Everything measured on one store, and the aims."""
    ratios, overhead, memory = measured.ratios(), measured.overhead(), measured.memory()
    return StoreReport(
        **msgspec.structs.asdict(where),
        rounds=measured.rounds,
        rates=measured.rates(),
        ratios=ratios,
        cpu_per_1000_jobs={},
        aims=[
            at_least("one_vs_plain", ratios["one_vs_plain"].median, 0.8),
            at_least("two_vs_plain", ratios["two_vs_plain"].median, 1.5),
            at_most("checkpoint_overhead_percent", overhead["checkpoint_overhead"].median, 5),
            at_most("memory_per_process_mb", max(each.high for each in memory.values()), 150),
        ],
        others={**overhead, **memory, **measured.cpu()},
        notes=notes(measured.rounds, plan.rounds),
    )
