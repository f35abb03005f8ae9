"""The frame of each run of a Django task in a worker: fresh database connections, the task's context,
and Django's signals. How the run ends is Windlass's business: what the function raises goes on to it, and
`task_finished` is sent where that is decided, once, with the state that the job ends in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final

from asgiref.sync import sync_to_async
from django.db import connections
from django.utils import timezone

from windlass.codec import Purpose, unseal
from windlass.contrib.django.api import TaskContext, TaskResultStatus, signals
from windlass.contrib.django.results import call_of, running_result, task_error
from windlass.core.states import Kind
from windlass.running.context import Context, current_context
from windlass.running.encoding import decode
from windlass.running.hooks import FailureHook
from windlass.store.records import Outcome
from windlass.worker.handlers.results import keep

if TYPE_CHECKING:
    from windlass.app import Windlass


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
        close_old()  # of this thread: the server may have ended one since its last job
        try:
            attempt = Attempt(task, alias, current_context(), args, kwargs)
            attempt.begin()
            value = task.func(*attempt.args, **kwargs)
            attempt.succeed(value)
            return value
        finally:
            close_old()

    return run


def _async_runner(task: Any, alias: str) -> Callable[..., Any]:
    close = sync_to_async(close_old)  # in the thread where the ORM of async code works

    async def run(*args: Any, **kwargs: Any) -> Any:
        await close()
        try:
            attempt = Attempt(task, alias, current_context(), args, kwargs)
            await sync_to_async(attempt.begin)()
            value = await task.func(*attempt.args, **kwargs)
            await sync_to_async(attempt.succeed)(value)
            return value
        finally:
            await close()

    return run


def close_old() -> None:
    """Close connections of this thread that are too old or broken. One that is inside a transaction belongs
    to a test, whose rows would be gone with it."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


def failure_hook(app: Windlass, alias: str, known: Callable[[str], Any]) -> FailureHook:
    """The hook that tells of jobs whose last attempt failed, whatever ended it: an exception, SystemExit, a
    timeout, a value that cannot be kept. Where a job is tried again it has not finished, and nothing is
    told."""

    def send(context: Context, error: BaseException, outcome: Outcome) -> None:
        task = known(context.task)
        if task is None:
            return  # declared with @app.task: Django knows nothing of it
        close_old()
        try:
            args, kwargs = call_of(unseal(app.codec, outcome.job.payload, Purpose("payload", context.task)))
            attempt = Attempt(task, alias, context, args, kwargs)
            attempt.fail(error, timedelta(milliseconds=outcome.run_ms or 0))
        finally:
            close_old()

    async def failed(context: Context, error: BaseException, outcome: Outcome) -> None:
        if outcome.kind == Kind.DEAD or (outcome.kind == Kind.RETRY and context.last_attempt):
            await sync_to_async(send)(context, error, outcome)

    return failed


class Attempt:
    """One run, as signals and the task's context show it. What a receiver of a signal raises is logged by
    Django and does not fail the job: its work is done, or about to be."""

    def __init__(
        self, task: Any, alias: str, context: Context, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        self._context = context
        self._sender = type(task.get_backend())
        self.result: Final = running_result(task, alias, context, args, kwargs)
        self.args: tuple[Any, ...] = tuple(args)
        if task.takes_context:
            self.args = (TaskContext(task_result=self.result), *args)

    def begin(self) -> None:
        """It starts."""
        signals.task_started.send_robust(sender=self._sender, task_result=self.result)

    def succeed(self, value: Any) -> None:
        """It returned. Raises Dead for a value that cannot be kept. A run that was told to stop meanwhile, by
        its timeout or a cancel, is not the one that decides."""
        text = keep(value)
        if self._context.cancelled:
            return
        object.__setattr__(self.result, "_return_value", None if text is None else decode(text))
        self._end(TaskResultStatus.SUCCESSFUL)

    def fail(self, error: BaseException, took: timedelta) -> None:
        """Its last attempt failed."""
        begun = self.result.started_at - took
        object.__setattr__(self.result, "started_at", begun)
        object.__setattr__(self.result, "last_attempted_at", begun)
        self.result.errors.append(task_error(error))
        try:
            raise error  # Django's own receiver logs the exception that is being handled
        except BaseException:  # noqa: BLE001 - it was raised for that receiver alone
            self._end(TaskResultStatus.FAILED)

    def _end(self, status: Any) -> None:
        object.__setattr__(self.result, "finished_at", timezone.now())
        object.__setattr__(self.result, "status", status)
        signals.task_finished.send_robust(sender=self._sender, task_result=self.result)
