"""The jobs that a child is running, in memory that it shares with its supervisor.

A child that hangs, or that was killed, cannot say what it was doing. So it notes each job in a small table
before it starts it, and wipes it out afterwards; the supervisor reads the table from outside, while the child
lives and after. An entry is two machine words, so writing it costs a job less than a microsecond. Before
them stand four words more: how far the table was ever filled, when the loop last turned, when the store last
answered a claim, and when it last had no room for a write. The table has room for every slot that there may
be, and only what was filled takes memory and is read.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
import tempfile
import time
from typing import Final

ENTRY: Final = struct.Struct("@qd")
"""The job's id (0: free), and when it must be over by the monotonic clock. In the machine's own layout: each
word is stored in one piece then, where the standard one stores a number byte by byte."""


WORD: Final = struct.Struct("@d")
PLACE: Final = struct.Struct("@q")
FILLED, TICKED, ANSWERED, FULL, TABLE = 0, 8, 16, 24, 32
"""The offsets of its parts, in bytes; times are the monotonic clock's."""
FULL_FOR: Final = 15.0
"""Seconds for which a store counts as full after it had no room for a write."""


class StatusMemory:
    """A table of running jobs in a file without a name; `fd` is what a child inherits, -1 where there is no
    child: then it is memory of this process alone."""

    def __init__(self, fd: int, size: int = 0) -> None:
        self.fd = fd
        self._memory = mmap.mmap(fd, size)
        self._free: list[int] = []
        self._filled = TABLE

    @classmethod
    def make(cls, entries: int) -> StatusMemory:
        """Make a table with room for `entries` jobs."""
        fd, path = tempfile.mkstemp(prefix="windlass-status-")
        try:
            os.ftruncate(fd, TABLE + entries * ENTRY.size)
        finally:
            os.unlink(path)
        return cls(fd)

    @classmethod
    def private(cls, entries: int) -> StatusMemory:
        """Make a status memory for a worker in this process. It needs no `close`."""
        return cls(-1, TABLE + entries * ENTRY.size)

    def enter(self, job: int, deadline: float) -> int:
        """Note a job that starts. Return its place, or -1 where there is no room: then it is not watched."""
        place = self._free.pop() if self._free else self._fill()
        if place < 0:
            return -1
        ENTRY.pack_into(self._memory, place, job, deadline)
        return place

    def _fill(self) -> int:
        """Return a place that was never used, which counts as filled from now on; -1: there is none."""
        place = self._filled
        if place + ENTRY.size > len(self._memory):
            return -1
        self._filled += ENTRY.size
        PLACE.pack_into(self._memory, FILLED, self._filled)
        return place

    def leave(self, place: int) -> None:
        """Free the place of a job that has ended."""
        if place >= 0:
            ENTRY.pack_into(self._memory, place, 0, 0.0)
            self._free.append(place)

    def running(self) -> dict[int, float]:
        """Return the jobs noted, each with its deadline."""
        (filled,) = PLACE.unpack_from(self._memory, FILLED)
        table = self._memory[TABLE : max(TABLE, filled)]
        return {job: deadline for job, deadline in ENTRY.iter_unpack(table) if job}

    def overdue(self, grace: float) -> list[int]:
        """Return the jobs that should have ended more than `grace` seconds ago. An entry with deadline 0 is
        being written: a child may lose the processor between its two words."""
        limit = time.monotonic() - grace
        return [job for job, deadline in self.running().items() if 0.0 < deadline < limit]

    def tick(self) -> None:
        """Note that the loop turns."""
        WORD.pack_into(self._memory, TICKED, time.monotonic())

    def answered(self, *, room: bool = True) -> None:
        """Note that the store has answered a claim, or that there is no `room` to claim for."""
        WORD.pack_into(self._memory, ANSWERED, time.monotonic() if room else math.inf)

    def full(self, *, full: bool = True) -> None:
        """Note that the store has no room for a write, or has taken one again."""
        WORD.pack_into(self._memory, FULL, time.monotonic() if full else 0.0)

    @property
    def is_full(self) -> bool:
        """Return whether the store had no room for a write a moment ago: it is tried again more often than
        that."""
        return time.monotonic() - float(WORD.unpack_from(self._memory, FULL)[0]) < FULL_FOR

    @property
    def ticked_at(self) -> float:
        """Return when the loop last turned; 0: never."""
        return float(WORD.unpack_from(self._memory, TICKED)[0])

    @property
    def answered_at(self) -> float:
        """Return when the store last answered a claim; infinity while there is no room for one, 0: never."""
        return float(WORD.unpack_from(self._memory, ANSWERED)[0])

    def close(self) -> None:
        """Let go of the memory."""
        self._memory.close()
        os.close(self.fd)
