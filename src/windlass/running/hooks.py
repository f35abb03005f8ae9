"""Hooks of users around the running of jobs [K9]: start and stop of a worker, middleware around every run,
and word of every failure. For instruments such as `windlass.contrib.otel` there is one around every enqueue,
too.

    @app.on_start
    async def connect(app: Windlass) -> None:
        app.state.pool = await open_pool()

    @app.middleware
    async def timed(ctx: Context, call_next: CallNext) -> object:
        with timer(ctx.task):
            return await call_next()

    @app.on_failure
    def report(ctx: Context, error: BaseException, outcome: Outcome) -> None:
        tracker.capture(error, task=ctx.task)

Hooks are plain or `async def` functions; plain ones run on the worker's loop, so they should be short. The
decorators are methods of the app; when each is called is the worker's business.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from windlass.errors import ConfigurationError
from windlass.running.context import Context
from windlass.running.outages import OutageLog
from windlass.store.records import NewJob, Outcome, Receipt

if TYPE_CHECKING:
    from windlass.app import Windlass

logger: Final = logging.getLogger("windlass.worker")
HOOK_TIME: Final = 30.0
"""Seconds that a failure hook may take."""
WARN_EVERY: Final = 60.0
"""Seconds between two warnings about an instrument that fails each time."""

CallNext: TypeAlias = Callable[[], Awaitable[Any]]
"""Runs the rest: the middleware further in, and then the handler. Its value is the handler's."""
LifeHook: TypeAlias = Callable[[], object] | Callable[["Windlass"], object]
"""A plain or `async def` function of no argument, or of the app."""
Middleware: TypeAlias = Callable[[Context, CallNext], Awaitable[Any]]
FailureHook: TypeAlias = Callable[[Context, BaseException, Outcome], object]
EnqueueHook: TypeAlias = Callable[["Sending"], AbstractContextManager[object]]
"""Is entered before jobs are sent, and left when they were, or with the error that kept them from it. What it
raises on entering refuses them; what it raises on leaving comes too late, and is logged."""
Life = TypeVar("Life", bound=LifeHook)
M = TypeVar("M", bound=Middleware)
F = TypeVar("F", bound=FailureHook)


class Sending:
    """One call that makes jobs. A hook may put others in their place, one for each."""

    def __init__(self, jobs: Sequence[NewJob]) -> None:
        self.jobs = jobs
        self.receipts: Sequence[Receipt] = ()
        """Their receipts, once they were sent."""


class Hooks:
    """The hooks of one app. `middleware` and `enqueue` are tuples, outermost first, so that a runner and a
    producer can see at once that there is none."""

    def __init__(self, app: Windlass | None = None) -> None:
        self._app = app
        self._start: list[Callable[[], object]] = []
        self._stop: list[Callable[[], object]] = []
        self._failure: list[FailureHook] = []
        self.middleware: tuple[Middleware, ...] = ()
        self.enqueue: tuple[EnqueueHook, ...] = ()
        self._outages = OutageLog(logger, WARN_EVERY)

    # -- registering ------------------------------------------------------------------------------------

    def on_start(self, hook: Life) -> Life:
        """Call this when a worker starts, in the order of registration."""
        self._start.append(self._of_app(hook))
        return hook

    def on_stop(self, hook: Life) -> Life:
        """Call this when a worker stops, the last one registered first."""
        self._stop.append(self._of_app(hook))
        return hook

    def add_middleware(self, layer: M) -> M:
        """Put this around every run; the first registered is the outermost."""
        called = getattr(layer, "__call__", None)  # noqa: B004 - an object may have an async one
        if not (inspect.iscoroutinefunction(layer) or inspect.iscoroutinefunction(called)):
            raise ConfigurationError(
                f"{_name(layer)} cannot be middleware: write `async def {_name(layer)}(ctx, call_next)` and "
                "`return await call_next()`"
            )
        _check_takes(layer, 2, "ctx, call_next")
        self.middleware = (*self.middleware, layer)
        return layer

    def on_failure(self, hook: F) -> F:
        """Call this after every attempt that failed in the process that ran it, also the last."""
        _check_takes(hook, 3, "ctx, error, outcome")
        self._failure.append(hook)
        return hook

    def around_enqueue(self, hook: EnqueueHook) -> None:
        """Put this around every call that makes jobs, in the thread or task of the caller; the first
        registered is the outermost. It must not block."""
        self.enqueue = (*self.enqueue, hook)

    # -- calling ----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Run the start hooks. Where one fails, the stop hooks run, so that what the others opened is closed,
        and its error is raised."""
        for hook in self._start:
            try:
                await _call(hook)
            except BaseException as error:
                error.add_note(f"Raised by the start hook {_name(hook)}; the worker does not start.")
                await self.stop()
                raise

    async def stop(self) -> None:
        """Run the stop hooks, the last one registered first. One that fails is logged; the others run."""
        for hook in reversed(self._stop):
            try:
                await _call(hook)
            except Exception:
                logger.exception("the stop hook %s failed; the worker stops anyway", _name(hook))

    def wrap(self, context: Context, call: CallNext) -> Awaitable[Any]:
        """The run of a handler with all middleware around it."""
        for layer in reversed(self.middleware):
            call = functools.partial(layer, context, call)
        return call()

    @contextmanager
    def sending(self, jobs: Sequence[NewJob]) -> Iterator[Sending]:
        """Send jobs with all enqueue hooks around it. Once they were sent no hook can make it look as if they
        were not: a caller that gets an error sends again [E7]."""
        sending = Sending(jobs)
        with ExitStack() as stack:
            for hook in self.enqueue:
                around = hook(sending)
                around.__enter__()
                stack.push(functools.partial(self._leave, hook, around))
            yield sending

    def _leave(
        self,
        hook: EnqueueHook,
        around: AbstractContextManager[object],
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave a hook. It neither adds an error nor takes one away."""
        try:
            around.__exit__(kind, error, trace)
        except Exception as raised:  # noqa: BLE001 - logged; what became of the jobs is settled
            if raised is not error:
                message = "the enqueue hook %s failed after the jobs were enqueued; they stay enqueued"
                self._outages.failed("enqueue hooks", message, _name(hook), error=raised)

    async def failed(self, context: Context, error: BaseException, outcome: Outcome) -> None:
        """Tell the failure hooks. What goes wrong in them is logged and changes nothing for the job."""
        for hook in self._failure:
            try:
                # After a timeout nobody watches the run any more: a hook that hangs would keep its slot.
                async with asyncio.timeout(HOOK_TIME):
                    await _call(functools.partial(hook, context, error, outcome))
            except Exception:
                logger.exception("the failure hook %s failed for job %d", _name(hook), context.id)

    # -- how --------------------------------------------------------------------------------------------

    def _of_app(self, hook: LifeHook) -> Callable[[], object]:
        """The hook as a function of nothing, whether it wants the app or not."""
        if not _wants_something(hook):
            return functools.partial(hook)
        _check_takes(hook, 1, "app")
        return functools.partial(cast("Callable[[Any], object]", hook), self._app)


async def _call(hook: Callable[[], object]) -> None:
    answer = hook()
    if inspect.isawaitable(answer):
        await answer


def _wants_something(hook: Callable[..., object]) -> bool:
    try:
        inspect.signature(hook).bind()
    except TypeError:
        return True
    except ValueError:  # a built-in that does not tell
        return False
    return False


def _check_takes(hook: Callable[..., object], number: int, what: str) -> None:
    try:
        inspect.signature(hook).bind(*range(number))
    except TypeError as error:
        raise ConfigurationError(
            f"{_name(hook)} cannot be such a hook: it is called as {_name(hook)}({what}), and has {error}"
        ) from None
    except ValueError:  # a built-in that does not tell
        return


def _name(hook: Callable[..., object]) -> str:
    function = hook.func if isinstance(hook, functools.partial) else hook
    return getattr(function, "__qualname__", None) or repr(function)
