"""The app: knows tasks by name, opens the store when it is first needed, and runs jobs in one process.

    app = Windlass()    # WINDLASS_DATABASE_URL, DATABASE_URL, else sqlite:///windlass.db

Making jobs is the business of `windlass.task`, sending them that of `windlass.producer`, and where the store
lives that of `windlass.home`. An app works from any thread and any event loop, also after a fork. Every
method has a synchronous name and one beginning with `a` for use with `await`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cached_property
from types import MappingProxyType, SimpleNamespace, TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    ParamSpec,
    Self,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from windlass import builtin, loopthread
from windlass.batch import BatchDecorator, make_batch
from windlass.budget import Budget, read_budget
from windlass.bulk import Jobs, job_filter
from windlass.codec import Codec, Purpose, unseal
from windlass.context import Context
from windlass.core.durations import Duration, seconds
from windlass.core.rates import Rate
from windlass.core.routing import Routes
from windlass.core.states import State
from windlass.decorators import ChunkedDecorator, TaskDecorator
from windlass.discovery import import_all
from windlass.encoding import decode
from windlass.errors import ConfigurationError
from windlass.gaps import RECONCILE, reconciler
from windlass.home import StoreHome
from windlass.hooks import F, Hooks, Life, M
from windlass.job import Job
from windlass.options import Template
from windlass.parent import Parent
from windlass.producer import Producer
from windlass.schedules import Scheduled, ScheduleOptions, Schedules
from windlass.settings import Settings, SettingsInCode, load
from windlass.store.factory import MEMORY, POSTGRES, kind_of, make_store
from windlass.store.protocol import Store
from windlass.store.records import JobRecord, Migration
from windlass.task import (
    AsyncContextTask,
    AsyncTask,
    RegisteredTask,
    SyncContextTask,
    SyncTask,
    Task,
    TaskOptions,
    make_task,
)

if TYPE_CHECKING:
    from os import PathLike

    from starlette.applications import Starlette

    from windlass.chunks.splitter import Splitter
    from windlass.chunks.task import ChunkedOptions
    from windlass.commands import CommandOptions, CommandResult
    from windlass.testing import Clock, TestMode
    from windlass.web.guard import Authorize
    from windlass.worker.drain import Drained
    from windlass.worker.embedded import Worker

P = ParamSpec("P")
R = TypeVar("R")


class Windlass:
    """A durable job engine.

    `database_url` and the settings are the code's own wish; environment and pyproject.toml override them (see
    `windlass.settings`). `store` hands in a store that works on any loop, such as a MemoryStore, and
    overrides every URL; it is meant for tests. `codec` turns users' data into something else on its way into
    the store, such as `windlass.contrib.encryption.Encrypted`; see `windlass.codec`.
    """

    def __init__(
        self,
        database_url: str | None = None,
        *,
        store: Store | None = None,
        codec: Codec | None = None,
        **settings: Unpack[SettingsInCode],
    ) -> None:
        self._code = {"database_url": database_url, **settings}
        self._given = store
        if codec is not None and (isinstance(codec, type) or not hasattr(codec, "decode")):
            raise ConfigurationError(f"codec={codec!r} is none; write codec=Encrypted(keys={{…}}), say")
        self.codec: Final = codec
        """What users' data passes on its way into the store and out of it; None: nothing."""
        self._tasks: dict[str, RegisteredTask[..., Any]] = {}
        self._budgets: dict[str, Budget] = {}
        self.schedules: Final = Schedules(self)
        """The schedules: those this app declares, and those in the store [K4]."""
        self._test_mode: TestMode | None = None
        self.hooks: Final = Hooks(self)
        self.state: Final = SimpleNamespace()
        """A place for what start hooks open and handlers use; each process has its own [K9]."""
        self._visits: dict[asyncio.AbstractEventLoop, list[AsyncExitStack]] = {}
        self._building = threading.Lock()
        self._built: Producer | None = None
        self.task(name=builtin.ECHO)(builtin.echo)
        self.task(name=RECONCILE)(reconciler(self))

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
        `batch` its handler takes so many jobs at once, as a list; see `windlass.batch`.

        A parameter annotated with `Context` gets the context of the run and is no part of the job; make it
        the first one, so that type checkers know as well."""

        def register(function: Callable[..., Any]) -> RegisteredTask[..., Any]:
            if batch is not None:
                return self._register(make_batch(self, function, batch, options))
            return self._register(make_task(self, function, options))

        return register if function is None else register(function)

    def chunked(
        self, *, split: Splitter | Callable[..., Any], **options: Unpack[ChunkedOptions]
    ) -> ChunkedDecorator:
        """Register a function as a task whose jobs are split into parts, which run side by side and resume
        where they stopped: `@app.chunked(split=NDJSON("256MiB"))`. See `windlass.chunks`.

        `split` is a splitter (NDJSON, Ranges, Shards, Items), or a function that takes the job's arguments
        and yields for each part what it covers. The handler takes a `Part` first."""
        from windlass.chunks.task import make_chunked

        def register(handler: Callable[..., Any]) -> Any:
            return self._register(make_chunked(self, handler, split, options))

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
        `root`, for at most `timeout`, and never through a shell [K8]. See `windlass.commands`."""
        from windlass.commands import command_task

        return command_task(self, name, allow=allow, root=root, timeout=timeout, env=env, **options)

    # -- flow -------------------------------------------------------------------------------------------

    def budget(
        self,
        name: str,
        *,
        rate: Rate | None = None,
        burst: int | None = None,
        key: str | None = None,
        breaker: int = 0,
        breaker_pause: Duration = "30s",
    ) -> Budget:
        """A budget: tokens that the whole cluster shares [F1]. With a `rate` ("5000/h") this declares it, as
        the default for a store that does not have it; without, it is the handle of one. See
        `windlass.budget`.

        `burst` is the most it holds (default: what it grows in a second). `key` names the argument of tasks
        by whose value it is divided into buckets. After `breaker` failed runs in a row it grants nothing for
        `breaker_pause`, then one run to try [F7]."""
        if rate is None:
            if burst is not None or key is not None or breaker:
                raise ConfigurationError(f"app.budget({name!r}): to declare it, give it a rate= as well")
            known = self._budgets.get(name)
            return known or Budget(name, None, self._home)
        declared = read_budget(name, rate, burst, key, breaker, breaker_pause)
        known = self._budgets.get(name)
        if known is not None and known.declared != declared:
            raise ConfigurationError(
                f"budget {name} is declared twice, and differently; app.budget({name!r}) without a rate "
                "gives the one that is there"
            )
        return self._budgets.setdefault(name, Budget(name, declared, self._home))

    def schedule(self, cron: str, /, **options: Unpack[ScheduleOptions]) -> Scheduled:
        """Run a task by the clock: `@app.schedule("0 9 * * MON-FRI", tz="Europe/Paris")` above a task, or
        above a function, which becomes one [K4]. See `windlass.schedules`."""
        return Scheduled(self, cron, options)

    @property
    def tasks(self) -> Mapping[str, RegisteredTask[..., Any]]:
        """Every task this app knows, by name."""
        return MappingProxyType(self._tasks)

    def named(self, name: str) -> Task[..., Any]:
        """The task of this name, whether its code is here or not [E1]."""
        return self._tasks.get(name) or Task(self, name, Template())

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
        """Call this function, plain or `async def`, as (ctx, error, outcome) after every failed attempt and
        every death. What it raises is logged and changes nothing for the job."""
        return self.hooks.on_failure(hook)

    # -- jobs -------------------------------------------------------------------------------------------

    def enqueue(self, task: str, /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Make a job by its task's name; for options, `app.named("mail.send").using(...).enqueue(...)`."""
        return self.named(task).enqueue(*args, **kwargs)

    async def aenqueue(self, task: str, /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Make a job by its task's name; see `enqueue`."""
        return await self.named(task).aenqueue(*args, **kwargs)

    def job(self, id: int | str) -> Job[Any]:
        """The handle of a job, from its id."""
        return Job(int(id), home=self._home, decode=lambda record: decode(self._unsealed_result(record)))

    def parent(self, id: int | str) -> Parent:
        """The handle of a job that was split into parts, from its id."""
        return Parent(int(id), home=self._home)

    def jobs(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        state: State | str | None = None,
        tag: str | None = None,
        text: str | None = None,
        error: str | None = None,
    ) -> Jobs:
        """The jobs a filter finds, to be counted, retried, cancelled or deleted all at once [O6]. `text` is
        what the payload, as JSON text, contains; `error` the type of the last failure, "RuntimeError", and
        finds dead and retrying jobs only."""
        where = job_filter(queue=queue, task=task, state=state, tag=tag, text=text, error=error)
        return Jobs(self._home, where)

    def run_until_idle(
        self, *, queues: Sequence[str] | None = None, concurrency: int = 32, wait: Duration = 0
    ) -> Drained:
        """Run jobs in this process until none is ready and none runs; see `arun_until_idle`."""
        return loopthread.run_here(self.arun_until_idle(queues=queues, concurrency=concurrency, wait=wait))

    async def arun_until_idle(
        self, *, queues: Sequence[str] | None = None, concurrency: int = 32, wait: Duration = 0
    ) -> Drained:
        """Run jobs in this process until none is ready and none runs, and say how they ended.

        `queues` None means every queue. Jobs scheduled for later, retries included, are left alone unless
        they fall due within `wait` after the last job ended. `async def` tasks run on this loop, at most
        `concurrency` at a time, plain functions in as many threads.
        """
        from windlass.worker.declare import declare_budgets
        from windlass.worker.drain import drain

        async with self._home().here() as store:
            await declare_budgets(self, store)
            await self.hooks.start()
            try:
                return await drain(
                    store,
                    self._tasks,
                    queues=queues,
                    concurrency=concurrency,
                    wait=wait,
                    hooks=self.hooks,
                    settings=self.settings,
                )
            finally:
                await self.hooks.stop()

    def worker(self, queues: Mapping[str, int | None] | Sequence[str] | str | None = None) -> Worker:
        """A worker in this process, as a block: `async with app.worker(["mail"]):`, or `with` where there is
        no loop; `await app.worker().run()` works until it is stopped.

        `queues` may name slots: {"mail": 8}. Without it, the settings say, else every queue that a task of
        this app goes to. For production, run `windlass worker`: it survives handlers that crash or hang."""
        from windlass.settings import read_queues
        from windlass.worker.embedded import Worker

        wanted = read_queues(queues) if queues is not None else dict(self.settings.queues)
        return Worker(self, wanted or dict.fromkeys(sorted({task.queue for task in self._tasks.values()})))

    def web(
        self,
        *,
        read: Iterable[str] | None = None,
        operate: Iterable[str] | None = None,
        hosts: Iterable[str] | None = None,
        authorize: Authorize | None = None,
        timeout: Duration = 5.0,
    ) -> Starlette:
        """Mission Control as an ASGI app, to be served or mounted in another one under any prefix: pages, the
        JSON API below /api, /metrics and /healthz. For most, `windlass web` is enough.

        `read` and `operate` are name:secret pairs and `hosts` the names to answer for; what is None is as the
        settings say. Without credentials only this machine is served. `authorize` leaves it to your own app:
        a function, plain or `async def`, from a Starlette request to a `windlass.web.Who`, or None for
        nobody. Needs `pip install 'windlass[web]'` [M5]."""
        from windlass.web.app import make_web

        settings = self.settings
        return make_web(
            self,
            read=settings.web_read if read is None else read,
            operate=settings.web_operate if operate is None else operate,
            hosts=settings.web_hosts if hosts is None else hosts,
            authorize=authorize,
            timeout=seconds(timeout),
        )

    # -- the store --------------------------------------------------------------------------------------

    @cached_property
    def settings(self) -> Settings:
        """The settings in force, read when first needed."""
        return load(code=self._code)

    def migrate(self) -> Migration:
        """Bring the database's schema to this version; safe to call from many processes at once."""
        return loopthread.run_here(self.amigrate())

    async def amigrate(self) -> Migration:
        """Bring the database's schema to this version; safe to call from many processes at once."""
        return await self._home().migrate()

    def close(self) -> None:
        """Let go of the database. The app can be used again and then reconnects."""
        if self._built is not None:
            self._built.home.close()

    async def aclose(self) -> None:
        """Let go of the database. The app can be used again and then reconnects."""
        if self._built is not None:
            await self._built.home.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        """Give the running loop a store of its own, until the block ends: no thread between it and the
        database. Put this around the life of an async service."""
        stack = AsyncExitStack()
        await stack.enter_async_context(self._home().here())
        self._visits.setdefault(asyncio.get_running_loop(), []).append(stack)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        visits = self._visits[loop]
        await visits.pop().aclose()
        if not visits:
            del self._visits[loop]
            await self.aclose()

    # -- tests ------------------------------------------------------------------------------------------

    def testing(self, *, inline: bool = False, clock: Clock | None = None) -> TestMode:
        """Keep jobs in memory while a `with` block lasts; see `windlass.testing`."""
        from windlass.testing import TestMode

        return TestMode(self, inline=inline, clock=clock)

    # -- how --------------------------------------------------------------------------------------------

    @cached_property
    def _routes(self) -> Routes:
        return Routes(self.settings.routes)

    @property
    def _producer(self) -> Producer:
        if self._test_mode is not None:
            return self._test_mode.producer
        with self._building:
            if self._built is None:
                self._built = self._build()
            return self._built

    def _home(self) -> StoreHome:
        return self._producer.home

    def _unsealed_result(self, record: JobRecord) -> str | None:
        text = record.result
        return None if text is None else unseal(self.codec, text, Purpose("result", record.task))

    def _build(self) -> Producer:
        settings, given = self.settings, self._given
        url = settings.database_url
        if given is None and kind_of(url) == MEMORY:
            given = self._given = make_store(url, settings=settings.for_store())
        if given is not None:  # a second one would not know the jobs of the first
            return Producer(StoreHome(lambda: given, roams=True), None, settings.schema, self.hooks)

        def make() -> Store:
            # A call that takes longer than the lease comes too late, whatever it answers [fault 9].
            return make_store(
                url, schema=settings.schema, settings=settings.for_store(), deadline=settings.lease
            )

        return Producer(StoreHome(make, roams=kind_of(url) != POSTGRES), url, settings.schema, self.hooks)

    def _register(self, task: RegisteredTask[..., Any]) -> RegisteredTask[..., Any]:
        known = self._tasks.get(task.name)
        if known is not None and _origin(known) != _origin(task):  # the same one again is a reloaded module
            raise ConfigurationError(
                f"two functions want to be task {task.name}: {'.'.join(_origin(known))} and "
                f"{'.'.join(_origin(task))}; give one of them another name="
            )
        self._tasks[task.name] = task
        return task


def _origin(task: RegisteredTask[..., Any]) -> tuple[str, str]:
    function = task.function
    return getattr(function, "__module__", ""), getattr(function, "__qualname__", repr(function))
