"""Waiting for the first of several things, without leaving the others behind; and for one's own end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def first(*things: Coroutine[Any, Any, Any] | asyncio.Task[Any]) -> None:
    """Wait until one of these is done. Coroutines among them are cancelled then; tasks are the caller's
    own."""
    own = [asyncio.ensure_future(thing) for thing in things if not isinstance(thing, asyncio.Task)]
    tasks = [thing for thing in things if isinstance(thing, asyncio.Task)]
    try:
        await asyncio.wait([*tasks, *own], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in own:
            task.cancel()
        await asyncio.gather(*own, return_exceptions=True)


def cancelled_from_outside() -> bool:
    """Whether this task was told to end, also where an error on its way out has covered that."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
