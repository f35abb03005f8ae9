"""Finds children that do not move at all: stopped by a signal, frozen with their control group, or held by a
debugger. One that has not moved for a lease is killed and replaced, unless `unresponsive` is 0.

A child moves when its loop turns, or when the kernel has switched any of its threads on or off a processor.
One thread of each child wakes every second to look for its supervisor, and one that wants the interpreter
asks for it every 5 ms. So by this rule:

    a handler holds the interpreter, even asleep     moves: the other threads ask for it; the lease is kept
    the loop or a thread waits for a disk (state D)  moves: deadlines [C6] and `unresponsive` end that
    SIGSTOP, ptrace, cgroup.freeze                   stands still; `/proc` says T, t, S or D, so that tells
                                                     nothing
    starting, and perhaps asleep in an import        moves, unless it is stopped (T, t)
    the supervisor was stopped, too; a suspended     counting begins anew
      machine comes back
    there is no /proc                                moves
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from windlass.worker.engine.unresponsive import AWAY

STILL: Final = 5.0
"""Seconds without a sign of life after which a child counts as still: in these, each has been switched."""


class Moving(Protocol):
    """A child, as far as it is watched here."""

    def sign_of_life(self) -> object:
        """Return another value each time after the child has moved; None: it cannot be seen, or need not."""


W = TypeVar("W", bound=Moving)


class Standstills(Generic[W]):
    """Knows since when each child has not moved."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[W, tuple[object, float]] = {}
        self._looked_at = clock()

    def seconds(self, children: Iterable[W]) -> dict[W, float]:
        """Return for how long each of these, which are all there are, has not moved."""
        now = self._clock()
        away, self._looked_at = now - self._looked_at > AWAY, now
        before, self._seen = self._seen, {}
        for child in children:
            sign = child.sign_of_life()
            last, since = before.get(child, (None, now))
            self._seen[child] = sign, now if away or sign is None or sign != last else since
        return {child: now - since for child, (_, since) in self._seen.items()}


def switches(pid: int) -> int | None:
    """Return how often the threads of a process were switched; None where the system does not say."""
    try:
        return sum(_switches(task / "status") for task in Path(f"/proc/{pid}/task").iterdir())
    except (OSError, ValueError):
        return None


def _switches(status: Path) -> int:
    lines = [line for line in status.read_text("ascii", "replace").splitlines() if "ctxt_switches" in line]
    if not lines:
        raise ValueError(f"{status} does not count switches")
    return sum(int(line.rpartition(":")[2]) for line in lines)
