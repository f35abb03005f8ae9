"""The agent of the examples in a worker that kills itself once for each job, at the point that the job's goal
names: "act before", "act ends" (the function has returned, its row is not written) or "act after". Only a
worker imports this module: it changes what every step of the process does."""

import os
import signal
from pathlib import Path
from typing import Any, Final

from examples.agent.agent import app
from tests.chaos.workers.jobs import LEDGER, Run
from windlass import Context

__all__ = ["app"]

_step: Final[Any] = Context.step


async def step(ctx: Context, name: str, function: Any, /, *args: Any, **options: Any) -> Any:
    """Context.step, with a ledger and a kill around it."""
    mark = Path(f"{os.environ[LEDGER]}.{ctx.id}")
    goal = Path(f"{mark}.goal")

    def at(when: str) -> None:
        if goal.exists() and goal.read_text() == f"{name} {when}" and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    async def watched(*args: Any) -> Any:
        Run(ctx).effect(name)
        value = await function(*args)
        at("ends")
        return value

    watched.__module__, watched.__qualname__ = function.__module__, function.__qualname__
    at("before")
    value = await _step(ctx, name, watched, *args, type=str, **options)
    at("after")
    return value


Context.step = step  # type: ignore[method-assign]
