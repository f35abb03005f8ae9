"""Where every task of a loop stands, for the log: `faulthandler` tells it of threads alone, and there a loop
that waits looks the same whatever it waits for."""

from __future__ import annotations

import asyncio
from typing import Any


def task_stacks() -> str:
    """The tasks of the loop that runs, each with the lines it waits at, the innermost last."""
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    return "\n".join(f"{task.get_name()}:\n{_stack(task)}" for task in tasks)


def _stack(task: asyncio.Task[Any]) -> str:
    lines: list[str] = []
    waits: Any = task.get_coro()
    while (frame := getattr(waits, "cr_frame", None)) is not None:
        lines.append(f"  {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}")
        waits = waits.cr_await
    if waits is not None:
        lines.append(f"  {waits!r}")
    return "\n".join(lines)
