"""What stands around each run of a Django task in a worker: fresh database connections, the task's context,
and Django's signals. How the run ends is Windlass's business: what the function raises goes on to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import iscoroutinefunction
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections
from django.utils import timezone

from windlass.context import Context, current_context
from windlass.contrib.django.api import TaskContext, TaskResultStatus, signals
from windlass.contrib.django.results import running_result, task_error
from windlass.signals import Dead, Snooze, SourceGone, Throttled


def runner(task: Any, alias: str) -> Callable[..., Any]:
    """The function that a worker calls for a job of this task. Arguments are what JSON makes of them, as
    Django has it: annotations are not heeded."""
    run = _async_runner(task, alias) if iscoroutinefunction(task.func) else _sync_runner(task, alias)
    # Its names, but not its signature, by which Windlass would convert arguments.
    run.__module__, run.__name__ = task.func.__module__, task.func.__name__
    run.__qualname__, run.__doc__ = task.func.__qualname__, task.func.__doc__
    return run


def _sync_runner(task: Any, alias: str) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        close_old_connections()  # of this thread: the server may have ended one since its last job
        try:
            attempt = Attempt(task, alias, current_context(), args, kwargs)
            attempt.begin()
            try:
                value = task.func(*attempt.args, **kwargs)
            except Exception as error:
                attempt.fail(error)
                raise
            attempt.succeed(value)
            return value
        finally:
            close_old_connections()

    return run


def _async_runner(task: Any, alias: str) -> Callable[..., Any]:
    close = sync_to_async(close_old_connections)  # in the thread where the ORM of async code works

    async def run(*args: Any, **kwargs: Any) -> Any:
        await close()
        try:
            attempt = Attempt(task, alias, current_context(), args, kwargs)
            await sync_to_async(attempt.begin)()
            try:
                value = await task.func(*attempt.args, **kwargs)
            except Exception as error:
                await sync_to_async(attempt.fail)(error)
                raise
            await sync_to_async(attempt.succeed)(value)
            return value
        finally:
            await close()

    return run


class Attempt:
    """One run, as signals and the task's context show it. What a receiver of a signal raises is logged by
    Django and does not fail the job: its work is done, or about to be."""

    def __init__(
        self, task: Any, alias: str, context: Context, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        self._context = context
        self._sender = type(task.get_backend())
        self.result = running_result(task, alias, context, args, kwargs)
        self.args: tuple[Any, ...] = tuple(args)
        if task.takes_context:
            self.args = (TaskContext(task_result=self.result), *args)

    def begin(self) -> None:
        """It starts."""
        signals.task_started.send_robust(sender=self._sender, task_result=self.result)

    def succeed(self, value: Any) -> None:
        """It returned."""
        object.__setattr__(self.result, "_return_value", value)
        self._end(TaskResultStatus.SUCCESSFUL)

    def fail(self, error: Exception) -> None:
        """It raised. Where it is tried again it has not finished, and nothing is told."""
        if isinstance(error, Snooze | Throttled | SourceGone):
            return
        if isinstance(error, Dead) or self._context.last_attempt:
            self.result.errors.append(task_error(error))
            self._end(TaskResultStatus.FAILED)

    def _end(self, status: Any) -> None:
        object.__setattr__(self.result, "finished_at", timezone.now())
        object.__setattr__(self.result, "status", status)
        signals.task_finished.send_robust(sender=self._sender, task_result=self.result)
