"""What a child is running, in memory that it shares with its supervisor.

A child that hangs, or that was killed, cannot say what it was doing. So it notes each job in a small table
before it starts it, and wipes it out afterwards; the supervisor reads the table from outside, while the child
lives and after. An entry is two machine words, so writing it costs a job less than a microsecond.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import time
from typing import Final

ENTRY: Final = struct.Struct("@qd")
"""The job's id (0: free), and when it must be over by the monotonic clock. In the machine's own layout: each
word is stored in one piece then, where the standard one stores a number byte by byte."""


class Board:
    """A table of running jobs in a file without a name; `fd` is what a child inherits."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._memory = mmap.mmap(fd, 0)
        self._free = list(range(0, len(self._memory) - ENTRY.size + 1, ENTRY.size))
        self._free.reverse()

    @classmethod
    def make(cls, entries: int) -> Board:
        """A new table with room for so many jobs."""
        fd, path = tempfile.mkstemp(prefix="windlass-board-")
        try:
            os.ftruncate(fd, entries * ENTRY.size)
        finally:
            os.unlink(path)
        return cls(fd)

    def enter(self, job: int, deadline: float) -> int:
        """A job starts. The answer is its place, or -1 where there is no room: then nobody watches it."""
        if not self._free:
            return -1
        place = self._free.pop()
        ENTRY.pack_into(self._memory, place, job, deadline)
        return place

    def leave(self, place: int) -> None:
        """The job at this place has ended."""
        if place >= 0:
            ENTRY.pack_into(self._memory, place, 0, 0.0)
            self._free.append(place)

    def running(self) -> dict[int, float]:
        """The jobs noted, each with its deadline."""
        return {job: deadline for job, deadline in ENTRY.iter_unpack(self._memory[:]) if job}

    def overdue(self, grace: float) -> list[int]:
        """The jobs that should have ended more than `grace` seconds ago. An entry with deadline 0 is being
        written: a child may lose the processor between its two words."""
        limit = time.monotonic() - grace
        return [job for job, deadline in self.running().items() if 0.0 < deadline < limit]

    def close(self) -> None:
        """Let go of the memory."""
        self._memory.close()
        os.close(self.fd)
