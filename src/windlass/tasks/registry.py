"""The registry of an app: tasks and budgets, how they are declared, and the hooks around its jobs [K9]."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, Unpack, cast, overload

from windlass.core.durations import Duration
from windlass.core.flow.rates import Rate
from windlass.errors import ConfigurationError
from windlass.handles.budget import Budget, read_budget
from windlass.running.context import Context
from windlass.running.hooks import F, Hooks, Life, M
from windlass.tasks.batch import BatchDecorator, BatchTask
from windlass.tasks.decorators import AsyncContextTask, ChunkedDecorator, SyncContextTask, TaskDecorator
from windlass.tasks.discovery import import_all
from windlass.tasks.options import Template
from windlass.tasks.schedule_options import ScheduleOptions
from windlass.tasks.schedules import Scheduled
from windlass.tasks.task import (
    AsyncTask,
    RegisteredTask,
    SyncTask,
    Task,
    TaskOptions,
    make_task,
)

if TYPE_CHECKING:
    from os import PathLike

    from windlass.app import Windlass
    from windlass.chunks.splitter import Splitter
    from windlass.chunks.task import ChunkedOptions
    from windlass.tasks.commands import CommandOptions, CommandResult

P = ParamSpec("P")
R = TypeVar("R")
BREAKER_PAUSE: Final = "30s"


class _Registry:
    """The declaring half of `windlass.Windlass`, and nothing on its own."""

    def __init__(self) -> None:
        self._tasks: dict[str, RegisteredTask[..., Any]] = {}
        self._budgets: dict[str, Budget] = {}
        self.hooks: Final = Hooks(self._app)

    @property
    def _app(self) -> Windlass:
        return cast("Windlass", self)

    # -- tasks ------------------------------------------------------------------------------------------

    @overload
    def task(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncContextTask[P, R]: ...
    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> SyncContextTask[P, R]: ...
    @overload
    def task(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...
    @overload
    def task(self, /, *, batch: int, **options: Unpack[TaskOptions]) -> BatchDecorator: ...
    @overload
    def task(self, /, **options: Unpack[TaskOptions]) -> TaskDecorator: ...
    def task(
        self, function: Any = None, /, *, batch: int | None = None, **options: Unpack[TaskOptions]
    ) -> Any:
        """Register a function as a task: `@app.task` or `@app.task(queue="mail", retry=Retry(3))`. With
        `batch` its handler takes so many jobs at once, as a list; see `windlass.tasks.batch`.

        A parameter annotated with `Context` gets the context of the run and is no part of the job; make it
        the first one, so that type checkers know as well."""

        def register(function: Callable[..., Any]) -> RegisteredTask[..., Any]:
            if batch is not None:
                return self._register(BatchTask(self._app, function, batch, options))
            return self._register(make_task(self._app, function, options))

        return register if function is None else register(function)

    def chunked(
        self, *, split: Splitter | Callable[..., Any], **options: Unpack[ChunkedOptions]
    ) -> ChunkedDecorator:
        """Register a function as a task whose jobs are split into parts, which run side by side and resume
        where they stopped: `@app.chunked(split=NDJSON("256MiB"))`. See `windlass.chunks`.

        `split` is a splitter (NDJSON, Ranges, Shards, Items), or a function that takes the job's arguments
        and yields for each part what it covers. The handler takes a `Part` first."""
        from windlass.chunks.task import ChunkedTask

        def register(handler: Callable[..., Any]) -> Any:
            return self._register(ChunkedTask(self._app, handler, split, options))

        return cast("ChunkedDecorator", register)

    def command(
        self,
        name: str,
        *,
        allow: Sequence[str],
        root: str | PathLike[str],
        timeout: Duration = "10m",
        env: Mapping[str, str] | None = None,
        **options: Unpack[CommandOptions],
    ) -> AsyncTask[..., CommandResult]:
        """Register a task whose jobs run a program: of those in `allow`, with a working directory inside
        `root`, for at most `timeout`, and never through a shell [K8]. See `windlass.tasks.commands`."""
        from windlass.tasks.commands import command_task

        return command_task(self._app, name, allow=allow, root=root, timeout=timeout, env=env, **options)

    # -- flow -------------------------------------------------------------------------------------------

    def budget(
        self,
        name: str,
        *,
        rate: Rate | None = None,
        burst: int | None = None,
        key: str | None = None,
        breaker: int = 0,
        breaker_pause: Duration = BREAKER_PAUSE,
        cap: str | None = None,
        cap_zone: str = "UTC",
    ) -> Budget:
        """A budget: tokens that the whole cluster shares [F1]. With a `rate` ("5000/h") this declares it, as
        the default for a store that does not have it; without, it is the handle of one. See
        `windlass.budget`.

        `burst` is the most it holds (default: what it grows in a second). `key` names the argument of tasks
        by whose value it is divided into buckets. After `breaker` failed runs in a row it grants nothing for
        `breaker_pause`, then one run to try [F7]. With `cap="2M/day"` (hour, day, month) each bucket grants
        no more than that until the day is over in `cap_zone`: jobs that need it wait."""
        if rate is None:
            given = (burst, key, cap, breaker or None)
            if any(each is not None for each in given) or breaker_pause != BREAKER_PAUSE:
                raise ConfigurationError(f"app.budget({name!r}): to declare it, give it a rate= as well")
            known = self._budgets.get(name)
            return known or Budget(self._app, name, None)
        declared = read_budget(name, rate, burst, key, breaker, breaker_pause, cap, cap_zone)
        known = self._budgets.get(name)
        if known is not None and known.declared != declared:
            raise ConfigurationError(
                f"budget {name} is declared twice, and differently; app.budget({name!r}) without a rate "
                "gives the one that is there"
            )
        return self._budgets.setdefault(name, Budget(self._app, name, declared))

    def schedule(self, cron: str | None = None, /, **options: Unpack[ScheduleOptions]) -> Scheduled:
        """Run a task by the clock: `@app.schedule("0 9 * * MON-FRI", tz="Europe/Paris")` or
        `@app.schedule(every="10s")` above a task, or above a function, which becomes one [K4]. See
        `windlass.tasks.schedules`."""
        return Scheduled(self._app, cron, options)

    @property
    def tasks(self) -> Mapping[str, RegisteredTask[..., Any]]:
        """Every task this app knows, by name."""
        return MappingProxyType(self._tasks)

    def named(self, name: str) -> Task[..., Any]:
        """The task of this name, whether its code is here or not [E1]."""
        return self._tasks.get(name) or Task(self._app, name, Template())

    def discover(self, *modules: str) -> list[str]:
        """Import these modules, and of a package every module below it, and return the names of the tasks
        that were not known before: `app.discover("shop.tasks", "billing")` [K9].

        Raises ConfigurationError, with the cause, where a module cannot be imported."""
        known = set(self._tasks)
        import_all(modules)
        return [name for name in self._tasks if name not in known]

    # -- hooks [K9] -------------------------------------------------------------------------------------

    def on_start(self, hook: Life) -> Life:
        """Call this function when a worker starts, before its first job, in the order of registration.

        It is plain or `async def`, of no argument or of the app; what it opens goes into `app.state`. One
        that raises keeps the worker from starting."""
        return self.hooks.on_start(hook)

    def on_stop(self, hook: Life) -> Life:
        """Call this function when a worker stops, after its last job, the last one registered first. One that
        raises is logged."""
        return self.hooks.on_stop(hook)

    def middleware(self, layer: M) -> M:
        """Put an `async def (ctx, call_next)` around every run; `await call_next()` runs the rest and gives
        its value. The first registered is the outermost. It may raise what a handler may raise."""
        return self.hooks.add_middleware(layer)

    def on_failure(self, hook: F) -> F:
        """Call this function, plain or `async def`, as (ctx, error, outcome) after every attempt that failed
        in the process that ran it, also the last. What it raises is logged and changes nothing for the job.
        It does not hear of jobs whose process is gone (killed past a deadline, or dead as poison), nor of
        those that are dead since no worker has known their task for 24 hours: no handler ran."""
        return self.hooks.on_failure(hook)

    def _register(self, task: RegisteredTask[..., Any]) -> RegisteredTask[..., Any]:
        known = self._tasks.get(task.name)
        if known is not None and _origin(known) != _origin(task):  # the same one again is a reloaded module
            raise ConfigurationError(
                f"two functions are registered as task {task.name}: {'.'.join(_origin(known))} and "
                f"{'.'.join(_origin(task))}; give one of them another name="
            )
        self._tasks[task.name] = task
        return task


def _origin(task: RegisteredTask[..., Any]) -> tuple[str, str]:
    function = task.function
    return getattr(function, "__module__", ""), getattr(function, "__qualname__", repr(function))
