"""A plain handler in a thread: one attempt of one job, from its payload to what is kept of its answer.

The loop has no task for it. It starts the call and is called back, and all that lies between is done in the
thread; so a short plain function costs the loop no more than a short `async def` one.
"""

from __future__ import annotations

from typing import Any

from windlass.running.context import Context, entered
from windlass.tasks.task import RegisteredTask
from windlass.worker.handlers.results import keep
from windlass.worker.handlers.run import Run
from windlass.worker.handlers.threads import Call


class HandlerCall(Call, kw_only=True):
    """The call of a job's handler. Its value is the result as the store keeps it [O8].

    The thread touches what stands here and neither run nor job: whatever both touch has to travel between
    the caches of two processors, there and back, and for a short job that is a good part of what it costs."""

    run: Run
    task: RegisteredTask[..., Any]
    payload: str
    handler_context: Context

    def work(self) -> str | None:
        """Decode, call, encode: whatever goes wrong is an error of this attempt."""
        task, context = self.task, self.handler_context
        entered(context)
        args, kwargs = task.decode(self.payload)
        if task.signature.context is not None:
            kwargs[task.signature.context] = context
        value = task.function(*args, **kwargs)
        return None if value is None else keep(value, task)
