"""How the machine that a host runs on is doing [M3]: all of its processors and memory, used by any process.

In a container that is what the container may use and uses, by its control group; else what the system says.
Where neither tells, nothing is known.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final, NamedTuple

GROUP: Final = Path("/sys/fs/cgroup")
SYSTEM: Final = Path("/proc")
_KIB: Final = 1024


class MachineGauges(NamedTuple):
    """Gauges of a machine; None where one is not known."""

    cpu: float | None = None
    """Share of all of its cores, since the last look."""
    memory: int | None = None
    """Bytes in use."""
    total: int | None = None
    """Bytes there are."""


class Machine:
    """Looks at the machine this process runs on."""

    def __init__(self, group: Path = GROUP, system: Path = SYSTEM) -> None:
        self._group = group
        self._system = system
        # Only a group that is not the root has this: the files of the root are those of the whole machine.
        self._contained = (group / "memory.current").exists()
        self._before: tuple[float, float] | None = None
        """Seconds that cores were busy, and seconds that they had."""

    def look(self) -> MachineGauges:
        """How it is doing."""
        try:
            memory, total = self._group_memory() if self._contained else self._system_memory()
            return MachineGauges(self._cpu(), memory, total)
        except (OSError, ValueError, KeyError, IndexError):  # another system, or another version of it
            return MachineGauges()

    def _cpu(self) -> float | None:
        before, self._before = self._before, self._group_time() if self._contained else self._system_time()
        if before is None:
            return None
        had = self._before[1] - before[1]
        return min(max((self._before[0] - before[0]) / had, 0.0), 1.0) if had > 0 else None

    # -- of a container ---------------------------------------------------------------------------------

    def _group_memory(self) -> tuple[int, int]:
        """Without cached files that were not used lately: the kernel gives their room to any process."""
        stat = dict(line.split() for line in (self._group / "memory.stat").read_text("ascii").splitlines())
        used = int((self._group / "memory.current").read_text("ascii"))
        used = max(used - int(stat.get("inactive_file", 0)), 0)
        limit = (self._group / "memory.max").read_text("ascii").strip()
        whole = self._system_memory()[1]
        return used, whole if limit == "max" else min(int(limit), whole)

    def _group_time(self) -> tuple[float, float]:
        stat = dict(line.split() for line in (self._group / "cpu.stat").read_text("ascii").splitlines())
        quota, period = (self._group / "cpu.max").read_text("ascii").split()
        cores = float(os.cpu_count() or 1)
        if quota != "max":
            cores = min(cores, int(quota) / int(period))
        return int(stat["usage_usec"]) / 1e6, time.monotonic() * cores

    # -- of the whole system ----------------------------------------------------------------------------

    def _system_memory(self) -> tuple[int, int]:
        lines = [line.split() for line in (self._system / "meminfo").read_text("ascii").splitlines()]
        sizes = {line[0]: int(line[1]) * _KIB for line in lines}
        return sizes["MemTotal:"] - sizes["MemAvailable:"], sizes["MemTotal:"]

    def _system_time(self) -> tuple[float, float]:
        """In ticks. Of the ten columns, the last two are part of the first two; idle and waiting for I/O are
        the fourth and fifth."""
        with (self._system / "stat").open(encoding="ascii") as stat:
            ticks = [int(column) for column in stat.readline().split()[1:9]]
        return sum(ticks) - ticks[3] - ticks[4], sum(ticks)
