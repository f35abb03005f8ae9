"""The agent of the examples in a worker that kills itself once for each job, at the point that the job's goal
names: "act before", "act tells" (its first token is written), "act ends" (the function has returned, its row
is not written) or "act after". Only a worker imports this module: it changes what every step of the process
does."""

import os
import signal
from pathlib import Path
from typing import Any, Final

from examples.agent.agent import app
from tests.chaos.workers.jobs import LEDGER, Run
from windlass import Context

__all__ = ["app"]

_step: Final[Any] = Context.step
_emit: Final[Any] = Context.emit
_doing: Final[dict[int, str]] = {}


def at(ctx: Context, point: str) -> None:
    """Die here, where the job's goal says so and it did not before."""
    mark = Path(f"{os.environ[LEDGER]}.{ctx.id}")
    goal = Path(f"{mark}.goal")
    if goal.exists() and goal.read_text() == point and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


async def step(ctx: Context, name: str, function: Any, /, *args: Any, **options: Any) -> Any:
    """Context.step, with a ledger and a kill around it."""

    async def watched(*args: Any) -> Any:
        Run(ctx).effect(name)
        _doing[ctx.id] = name
        value = await function(*args)
        at(ctx, f"{name} ends")
        return value

    watched.__module__, watched.__qualname__ = function.__module__, function.__qualname__
    at(ctx, f"{name} before")
    value = await _step(ctx, name, watched, *args, type=str, **options)
    at(ctx, f"{name} after")
    return value


async def emit(ctx: Context, value: Any) -> None:
    """Context.emit, with a kill as soon as what it emitted is written."""
    await _emit(ctx, value)
    if ctx._emits is not None:
        await ctx._emits.settle()
    at(ctx, f"{_doing[ctx.id]} tells")


Context.step = step  # type: ignore[method-assign, assignment]
Context.emit = emit  # type: ignore[method-assign, assignment]
