"""The process that holds the write lock of a file, as the kernel tells it: one that was stopped, or computes
in an open transaction, keeps everybody else from writing.

The kernel's list of locks is read, and the file is not asked: whoever opens and closes a file ends all locks
that its own process has on it, SQLite's as well. Where there is no such list, as on macOS, nobody is named.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

LOCKS: Final = Path("/proc/locks")
WRITER: Final = 120
"""The byte of the -shm file that a writer has locked, by the format of SQLite's WAL index."""
NUMBER_OF_WORDS: Final = 8
"""In a line such as `7: POSIX ADVISORY WRITE 1234 fd:01:5678 120 120`. Who waits for a lock has one more."""


class Holder(NamedTuple):
    """A process, by its number and the name of its program. Its arguments may hold secrets."""

    pid: int
    program: str
    stopped: bool

    def __str__(self) -> str:
        return f"process {self.pid} ({self.program}{', which is stopped' if self.stopped else ''})"


def holder_of(path: str) -> Holder | None:
    """Return who holds the write lock of this file; None: nobody, this process, or one out of sight."""
    try:
        file = os.stat(f"{path}-shm")
        lines = LOCKS.read_text("ascii").splitlines()
    except OSError:
        return None
    holders = {}
    for words in map(str.split, lines):
        if len(words) != NUMBER_OF_WORDS or words[1] != "POSIX" or words[3] != "WRITE":
            continue
        pid, place, first, last = words[4:]
        device, _, inode = place.rpartition(":")
        if inode == str(file.st_ino) and int(first) <= WRITER and (last == "EOF" or int(last) >= WRITER):
            holders[device] = int(pid)
    # Some file systems show another device there than `stat` does.
    mine = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}"
    pid_of_holder = holders.get(mine, next(iter(holders.values()), 0))
    return None if pid_of_holder in (0, os.getpid()) else _seen(pid_of_holder)


def _seen(pid: int) -> Holder | None:
    try:
        _, _, rest = Path(f"/proc/{pid}/stat").read_text(errors="replace").partition("(")
    except OSError:
        return None
    program, _, state = rest.rpartition(") ")
    return Holder(pid, program, stopped=state[:1] in ("T", "t"))
