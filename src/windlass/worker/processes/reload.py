"""`--reload`: notices that the code has changed, by looking at files twice a second. For development."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

LOOK_EVERY: Final = 0.5
SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


def sources(root: Path) -> Iterator[Path]:
    """The Python files below a directory, without hidden ones and without installed packages."""
    for folder, folders, files in os.walk(root):
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and name not in SKIPPED
            and not Path(folder, name, "pyvenv.cfg").exists()
        ]
        yield from (Path(folder, name) for name in files if name.endswith(".py"))


def snapshot(root: Path) -> dict[Path, int]:
    """When each file was last written."""
    found: dict[Path, int] = {}
    for path in sources(root):
        try:
            found[path] = path.stat().st_mtime_ns
        except OSError:  # gone between the listing and the look
            continue
    return found


async def watch(root: Path, changed: Callable[[], None]) -> None:
    """Call `changed` whenever a file was written, added or removed, for ever."""
    before = await asyncio.to_thread(snapshot, root)
    while True:
        await asyncio.sleep(LOOK_EVERY)
        now = await asyncio.to_thread(snapshot, root)
        if now != before:
            before = now
            changed()
