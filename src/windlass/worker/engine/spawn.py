"""How a run becomes a task of the worker's loop."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


def spawner(loop: asyncio.AbstractEventLoop, context: contextvars.Context) -> Spawn:
    """Return a function that makes a task of a run, with a copy of this context: what one handler sets there,
    the next one does not see, whichever run made room for it.

    From Python 3.12 on, a run is begun at once, on the caller's stack; the loop never hears of one that does
    not wait for anything. Where the program has a way of its own to make tasks, that is used."""
    if loop.get_task_factory() is not None:
        return lambda run: context.copy().run(loop.create_task, run)
    if sys.version_info >= (3, 12):
        return lambda run: asyncio.Task(run, loop=loop, context=context.copy(), eager_start=True)
    return lambda run: asyncio.Task(run, loop=loop, context=context.copy())
