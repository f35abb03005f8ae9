"""Where every task of a loop stands, and every thread, for the log: `faulthandler` tells it of threads alone,
and there a loop that waits looks the same whatever it waits for."""

from __future__ import annotations

import asyncio
import sys
import threading
from traceback import walk_stack
from types import FrameType
from typing import Any, Final

MAX_TASKS: Final = 200
"""A program around a worker may have thousands; ours come first."""


def task_stacks() -> str:
    """The tasks of the loop that runs, each with the lines it waits at, the innermost last."""
    tasks = sorted(asyncio.all_tasks(), key=lambda task: (not _ours(task), task.get_name()))
    shown = [f"{task.get_name()}:\n{_stack(task)}" for task in tasks[:MAX_TASKS]]
    return "\n".join([*shown, f"and {len(tasks) - MAX_TASKS} more"] if len(tasks) > MAX_TASKS else shown)


def thread_stacks() -> str:
    """The threads of this process, each with the lines it is at, the innermost last."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{names.get(ident, ident)}:\n" + "\n".join(_line(at) for at, _ in reversed([*walk_stack(frame)]))
        for ident, frame in sys._current_frames().items()
    )


def _ours(task: asyncio.Task[Any]) -> bool:
    return task.get_name().startswith("windlass")


def _line(frame: FrameType) -> str:
    return f"  {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def _stack(task: asyncio.Task[Any]) -> str:
    lines: list[str] = []
    waits: Any = task.get_coro()
    while (frame := getattr(waits, "cr_frame", None)) is not None:
        lines.append(_line(frame))
        waits = waits.cr_await
    if waits is not None:
        lines.append(f"  {waits!r}")
    return "\n".join(lines)
