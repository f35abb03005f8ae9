"""The app: opens the store when it is first needed, gives out handles of jobs, and runs jobs in one process.

    app = Windlass()    # WINDLASS_DATABASE_URL, DATABASE_URL, else sqlite:///windlass.db

What it knows by name is in `windlass.tasks.registry`. Making jobs is the business of `windlass.tasks.task`,
sending them that of `windlass.running.producer`, and opening the store that of
`windlass.running.store_handle`.
An app works from any thread and any event loop, also after a fork. Every method that asks the store has a
synchronous name and one beginning with `a` for use with `await`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack

from windlass.codec import Codec, Purpose, unseal
from windlass.core.durations import Duration, seconds
from windlass.core.names import name_of
from windlass.core.routing import Routes
from windlass.core.states import State, StateName
from windlass.errors import ConfigurationError, InvalidName
from windlass.handles import signal_links
from windlass.handles.group import GROUP, Group, end_of_group
from windlass.handles.job import Job, SignalAnswer, id_of
from windlass.handles.jobs import Jobs
from windlass.handles.parent import Parent
from windlass.handles.queue import Queue, TaskSettings
from windlass.operations.walks import job_filter
from windlass.running import loopthread
from windlass.running.encoding import as_signal, decode
from windlass.running.producer import Producer
from windlass.running.steps import span
from windlass.running.store_handle import StoreHandle
from windlass.settings import Settings, SettingsInCode, check_setting, load
from windlass.store.factory import POSTGRES, describe, is_in_memory, kind_of, make_store
from windlass.store.protocol import Store
from windlass.store.records import JobChange, JobRecord, Migration, QueueRecord, Receipt
from windlass.tasks import builtin
from windlass.tasks.changes import read_change
from windlass.tasks.gaps import RECONCILE, reconciler
from windlass.tasks.registry import _Registry
from windlass.tasks.schedules import Schedules

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from windlass.cluster.maintain import Duty
    from windlass.tasks.task import Task
    from windlass.testing import Clock, TestMode
    from windlass.testing.mode import CallerThread
    from windlass.web.http.guard import Authorize
    from windlass.worker.engine.embedded import Worker
    from windlass.worker.engine.run_until_idle import RunCounts

T = TypeVar("T")


class Windlass(_Registry):
    """A durable job engine.

    `database_url` and the settings are the code's defaults; environment and pyproject.toml override them (see
    `windlass.settings`). `store` hands in a store that works on any loop, such as an SQLiteStore, and
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
        super().__init__()
        for name in settings:
            check_setting(name, "Windlass(…)")
        self._code = {"database_url": database_url, **settings}
        self._given = store
        if codec is not None and (isinstance(codec, type) or not hasattr(codec, "decode")):
            raise ConfigurationError(f"codec={codec!r} is not a codec; write codec=Encrypted(keys={{…}})")
        self.codec: Final = codec
        """Encodes users' data on its way into the store and decodes it on its way out; None: neither."""
        self.schedules: Final = Schedules(self)
        """The schedules: those this app declares, and those in the store [K4]."""
        self._test_mode: TestMode | None = None
        self._caller_thread: CallerThread | None = None
        self._make_producer: Callable[..., Producer] = Producer
        self.state: Final = SimpleNamespace()
        """A place for what start hooks open and handlers use; each process has its own [K9]."""
        self._visits: dict[asyncio.AbstractEventLoop, list[AsyncExitStack]] = {}
        self._building = threading.Lock()
        self._built: Producer | None = None
        self.task(name=builtin.ECHO)(builtin.echo)
        self.task(name=RECONCILE)(reconciler(self))
        self.task(name=GROUP)(builtin.group_ender(self))

    def __repr__(self) -> str:
        """Where its jobs are, without password."""
        return f"<Windlass {'in test mode' if self._test_mode is not None else self._place()}>"

    def _place(self) -> str:
        try:
            # Not `self.settings`: to show an app must not decide when its settings are read.
            url = (self.__dict__.get("settings") or load(code=self._code)).database_url
            given = self._given is not None and not is_in_memory(url)
            return f"on {type(self._given).__name__ if given else describe(url)}"
        except ConfigurationError:  # whose text might hold a password
            return "with settings that cannot be read"

    # -- jobs -------------------------------------------------------------------------------------------

    def enqueue(self, task: str, /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Make a job by its task's name; for options, `app.named("mail.send").using(...).enqueue(...)`."""
        return self.named(task).enqueue(*args, **kwargs)

    async def aenqueue(self, task: str, /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Make a job by its task's name; see `enqueue`."""
        return await self.named(task).aenqueue(*args, **kwargs)

    def job(self, id: int | str) -> Job[Any]:
        """The handle of a job, from its id."""
        return Job(self, id_of(id), lambda record: decode(self._unsealed_result(record)))

    def signal(
        self,
        job: Job[Any] | int | str,
        name: str,
        value: Any = None,
        *,
        idempotency_key: str | None = None,
        connection: Any = None,
    ) -> SignalAnswer:
        """Send a job a signal, by its handle or its id; see `Job.signal` [W2]."""
        return self._handle_of(job).signal(
            name, value, idempotency_key=idempotency_key, connection=connection
        )

    async def asignal(
        self,
        job: Job[Any] | int | str,
        name: str,
        value: Any = None,
        *,
        idempotency_key: str | None = None,
        connection: Any = None,
    ) -> SignalAnswer:
        """Send a job a signal, by its handle or its id; see `Job.signal` [W2]."""
        return await self._handle_of(job).asignal(
            name, value, idempotency_key=idempotency_key, connection=connection
        )

    def signal_url(
        self,
        job: Job[Any] | int | str,
        name: str,
        value: Any = None,
        *,
        base: str,
        expires: Duration = "7d",
    ) -> str:
        """An address that sends this signal once, for a button in a mail or a chat. `base` is where
        `windlass web` is reached, such as "https://jobs.example.com" [W2].

        It needs no login: whoever has it may send this signal and nothing else, and can read the value. To
        open it only asks; the button on its page sends. Raises ConfigurationError without a `secret`."""
        text, lasts = as_signal(name, value), span(expires, f"signal_url(expires={expires!r})")
        id = self._handle_of(job).id
        token = signal_links.make(self.settings.secret, id, name, text, time.time() + lasts)
        return f"{signal_links.base_of(base)}{signal_links.PATH}{token}"

    def _handle_of(self, job: Job[Any] | int | str) -> Job[Any]:
        return job if isinstance(job, Job) else self.job(job)

    def _read_change(self, record: JobRecord, given: Mapping[str, Any]) -> JobChange:
        return read_change(self, record, given)

    def open_group(self, name: str = "group", *, queue: str = "default") -> Group:
        """Open a group of jobs, which are waited for, counted and cancelled together [W4]. Whoever serves
        `queue` ends it, with a small job of the task `windlass.group`."""
        return Group(self, *self._opened(self._producer.send([end_of_group(name, queue)])))

    async def aopen_group(self, name: str = "group", *, queue: str = "default") -> Group:
        """Open a group of jobs; see `open_group`."""
        return Group(self, *self._opened(await self._producer.asend([end_of_group(name, queue)])))

    def _opened(self, receipts: Sequence[Receipt]) -> tuple[int, Receipt]:
        return receipts[0].id, receipts[0]

    def group(self, id: int | str) -> Group:
        """The handle of a group of jobs, from its id."""
        return Group(self, id_of(id))

    def parent(self, id: int | str) -> Parent:
        """The handle of a job that was split into parts, from its id."""
        return Parent(self, id_of(id))

    def jobs(
        self,
        *,
        queue: str | Queue | None = None,
        task: str | Task[..., Any] | None = None,
        state: State | StateName | None = None,
        tag: str | None = None,
        text: str | None = None,
        error: str | None = None,
        limit: int | None = None,
    ) -> Jobs:
        """The jobs a filter finds, newest first, for `async for job in app.jobs(state="dead"):` and for a
        plain `for`; or to be counted, retried, cancelled or deleted all at once [O6]. `queue` and `task` are
        names, or a queue and a task themselves. `text` is what the payload, as JSON text, or the last failure
        of a dead or retrying job contains, case counts; `error` the type of that failure,
        "RuntimeError", and finds such jobs only; `limit` how many at most, the newest."""
        names = {"queue": name_of(queue), "task": name_of(task)}
        where = job_filter(**names, state=state, tag=tag, text=text, error=error)
        return Jobs(self, where, limit)

    # -- managing ---------------------------------------------------------------------------------------

    def queue(self, name: str) -> Queue:
        """The handle of a queue: pause it, set it, ask for its depth, wait until it is empty [K11]."""
        return Queue(self, name)

    def queues(self) -> list[QueueRecord]:
        """Every queue, by name: its settings, and how it stands [K11]."""
        return self._store_handle().call(lambda store: store.queues())

    async def aqueues(self) -> list[QueueRecord]:
        """Every queue, by name: its settings, and how it stands [K11]."""
        return await self._store_handle().acall(lambda store: store.queues())

    def task_settings(self, name: str) -> TaskSettings:
        """The stored settings of the task with this name, whether its code is here or not [K11]."""
        return TaskSettings(self, name)

    def maintain(self, duty: Duty) -> dict[str, Any]:
        """Do a duty of the coordinator once and return its counts: promote, retention, rescue, schedules,
        rollup, counts, governor or slots [K11]. They are those that `windlass maintain` prints with
        `--json`. Running workers do all of this again and again. "rescue" watches heartbeats for a whole
        lease first; "counts" compares the counts of ended jobs with the logs [M7].

        Raises TermLost where a coordinator is active and the duty is for it alone (governor, slots)."""
        return self._store_handle().call(self._duty(duty))

    async def amaintain(self, duty: Duty) -> dict[str, Any]:
        """Do a duty of the coordinator once and return its counts; see `maintain`."""
        return await self._store_handle().acall(self._duty(duty))

    # -- running ----------------------------------------------------------------------------------------

    def run_until_idle(
        self, *, queues: Sequence[str] | None = None, concurrency: int = 32, wait: Duration = 0
    ) -> RunCounts:
        """Run jobs in this process until none is ready and none runs; see `arun_until_idle`."""
        return self._drive(self.arun_until_idle(queues=queues, concurrency=concurrency, wait=wait))

    async def arun_until_idle(
        self, *, queues: Sequence[str] | None = None, concurrency: int = 32, wait: Duration = 0
    ) -> RunCounts:
        """Run jobs in this process until none is ready and none runs, and say how they ended.

        `queues` None means every queue. Jobs scheduled for later, retries included, are left alone unless
        they fall due within `wait` after the last job ended. `async def` tasks run on this loop, at most
        `concurrency` at a time, plain functions in as many threads.
        """
        from windlass.worker.engine.declare import declare_budgets
        from windlass.worker.engine.run_until_idle import run_until_idle

        async with self._store_handle().here() as store:
            await declare_budgets(self, store)
            await self.hooks.start()
            try:
                return await run_until_idle(
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

    def worker(
        self,
        queues: Mapping[str, int | None] | Sequence[str] | str | None = None,
        *,
        id: str | None = None,
        abilities: Iterable[str] | str | None = None,
    ) -> Worker:
        """A worker in this process, as a block: `async with app.worker(["mail"]):`, or `with` where there is
        no loop; `await app.worker().run()` works until it is stopped.

        `queues` may name slots: {"mail": 8}. Without it, the settings say, else every queue that a task of
        this app goes to. `id` is the last part of its label, and kept over restarts; without it, the
        setting `worker_id` says, else it is random [K13]. `abilities` are what it has that some jobs need, by
        default those of the settings [K14]. Raises ConfigurationError or InvalidName where one cannot be. For
        production, run `windlass worker`: it survives handlers that crash or hang."""
        from windlass.core.abilities import read_abilities
        from windlass.settings import read_queues, read_worker_id
        from windlass.worker.engine.embedded import Worker

        try:
            wanted = read_queues(queues) if queues is not None else dict(self.settings.queues)
            given = self.settings.worker_id if id is None else read_worker_id(id)
            able = self.settings.abilities if abilities is None else read_abilities(abilities)
        except InvalidName:
            raise
        except ValueError as error:
            raise ConfigurationError(f"this worker cannot be: {error}") from None
        wanted = wanted or dict.fromkeys(sorted({task.queue for task in self._tasks.values()}))
        return Worker(self, wanted, given, able)

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
        a function, plain or `async def`, from a Starlette request to a `windlass.web.Principal`, or None for
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
        return await self._store_handle().migrate()

    def close(self) -> None:
        """Close the connections to the database. The app can be used again and then reconnects."""
        if self._built is not None:
            self._built.store_handle.close()

    async def aclose(self) -> None:
        """Close the connections to the database. The app can be used again and then reconnects."""
        if self._built is not None:
            await self._built.store_handle.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        """Give the running loop a store of its own, until the block ends: no thread between it and the
        database. Put this around the life of an async service."""
        stack = AsyncExitStack()
        await stack.enter_async_context(self._store_handle().here())
        self._visits.setdefault(asyncio.get_running_loop(), []).append(stack)
        return self

    async def __aexit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        visits = self._visits[loop]
        await visits.pop().aclose()
        if not visits:
            del self._visits[loop]
            await self.aclose()

    # -- tests ------------------------------------------------------------------------------------------

    def testing(
        self, *, inline: bool = False, clock: Clock | None = None, database: str | None = None
    ) -> TestMode:
        """Keep jobs in memory, or in this database of the test's own, while a `with` block lasts; see
        `windlass.testing`."""
        from windlass.testing import TestMode

        return TestMode(self, inline=inline, clock=clock, database=database)

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

    def _drive(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in this thread, or as the framework wants it that this app belongs to."""
        if self._caller_thread is None or loopthread.in_loop():
            return loopthread.run_here(coroutine)
        return self._caller_thread.drive(coroutine)

    def _duty(self, duty: Duty) -> Callable[[Store], Awaitable[dict[str, Any]]]:
        from windlass.cluster.maintain import once

        return lambda store: once(store, duty, self.settings)

    def _store_handle(self) -> StoreHandle:
        return self._producer.store_handle

    def _unsealed_result(self, record: JobRecord) -> str | None:
        text = record.result
        return None if text is None else unseal(self.codec, text, Purpose("result", record.task))

    def _build(self) -> Producer:
        settings, given = self.settings, self._given
        url = settings.database_url
        if given is None and is_in_memory(url):
            given = self._given = make_store(url, settings=settings.for_store())
        if given is not None:  # a second one would not know the jobs of the first
            handle = StoreHandle(lambda: given, roams=True)
            return self._make_producer(handle, None, settings.schema, self.hooks, self.tasks)
        return self._producer_at(url)

    def _producer_at(self, url: str) -> Producer:
        settings = self.settings

        def make() -> Store:
            # A call that takes longer than the lease comes too late, whatever it answers [fault 9].
            return make_store(
                url, schema=settings.schema, settings=settings.for_store(), deadline=settings.lease
            )

        handle = StoreHandle(make, roams=kind_of(url) != POSTGRES)
        return self._make_producer(handle, url, settings.schema, self.hooks, self.tasks)
