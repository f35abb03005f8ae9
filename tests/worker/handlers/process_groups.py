"""Process groups seen from outside: who is in one, waiting for a word from it, waiting for its end."""

import asyncio
import os
from pathlib import Path

import psutil

from tests.stopwatch import Stopwatch


def members(group: int) -> list[int]:
    """The live processes of a group. A zombie is dead: it only waits for whoever is to reap it."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


async def until_gone(group: int, within: float = 10.0) -> None:
    """Wait until a group has no live process."""
    watch = Stopwatch()
    while left := members(group):
        assert watch.seconds() < within, f"processes {left} of group {group} are still there"
        await asyncio.sleep(0.01)


async def written(path: Path, within: float = 10.0) -> int:
    """The number that a process writes to a file, as a line, once it is where the test wants it."""
    watch = Stopwatch()
    while not (text := _read(path)).endswith("\n"):
        assert watch.seconds() < within, f"nothing was written to {path}"
        await asyncio.sleep(0.01)
    return int(text)


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
